"""Prints how large the house is: lines, modules, import circles, words of documentation, locks, tests' seconds.

    python3 benchmarks/house.py [--json]

Lines are those of `wc -l`: code, docstrings and blank lines. Words are those of `wc -w`. It reads files only, and needs
nothing but Python.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT, LONG, SHORT = 500, 450, 60
GENERATED = {"commands.md", "reference.md"}
"""Pages that are made from the program."""


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one object")
    house = figures()
    if parser.parse_args().json:
        print(json.dumps(house, indent=1))
        return
    print(f"{'wing':14}{'product':>9}{'modules':>9}{'tests':>9}{'files':>7}")
    for name, (product, modules, tests, files) in house["wings"].items():
        print(f"{name:14}{product:9,}{modules:9,}{tests:9,}{files:7,}")
    for name, value in house.items():
        if name != "wings":
            shown = ", ".join(value) or "none" if isinstance(value, list) else f"{value:,}"
            print(f"{name}: {shown}")


def figures() -> dict:
    """Returns all figures by name."""
    product, tests = python("cloudgan"), python("tests")
    names = sorted({wing(path) for path in product} | {wing(path) for path in tests})
    wings = {
        name: [each for paths in (product, tests) for each in size(paths, name)] for name in names
    }
    wings["all"] = [sum(column) for column in zip(*wings.values(), strict=True)]
    lengths = {relative(path): lines(path) for path in product}
    recorded = (ROOT / "tests" / "durations.json").read_text(encoding="utf-8")
    durations = json.loads(recorded)  # noqa: TID251  a file of the checkout
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return {
        "wings": wings,
        f"modules over {LIMIT} lines": [name for name, one in lengths.items() if one > LIMIT],
        f"modules over {LONG} lines": sum(one > LONG for one in lengths.values()),
        f"modules under {SHORT} lines, without __init__": sum(
            one < SHORT for name, one in lengths.items() if "__" not in name
        ),
        "modules with a TYPE_CHECKING block": [
            relative(path)
            for path in product
            if "if TYPE_CHECKING:" in path.read_text(encoding="utf-8")
        ],
        "import circles when modules are loaded": circles(product, whole=False),
        "import circles with imports in functions and for types": circles(product, whole=True),
        "words of the manual": sum(words(page) for page in pages if page.name not in GENERATED),
        "words of generated pages": sum(words(page) for page in pages if page.name in GENERATED),
        "words of measurements": sum(map(words, (ROOT / "docs" / "measurements").glob("*.md"))),
        "lines of locks": sum(map(lines, (ROOT / "requirements").glob("*.txt"))),
        "seconds of all test files, when last recorded": round(sum(durations.values())),
    }


def python(folder: str) -> list[Path]:
    """Returns the Python files of a folder, but not those of npm packages."""
    found = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if "node_modules" not in path.parts]


def relative(path: Path) -> str:
    """Returns the path of a file in the checkout."""
    return path.relative_to(ROOT).as_posix()


def wing(path: Path) -> str:
    """Returns the first folder below cloudgan or tests that holds a file, or `top`."""
    inner = path.relative_to(ROOT).parts[1:-1]
    return inner[0] if inner else "top"


def lines(path: Path) -> int:
    """Returns the number of lines of a file."""
    return path.read_text(encoding="utf-8").count("\n")


def words(path: Path) -> int:
    """Returns the number of words of a file."""
    return len(path.read_text(encoding="utf-8").split())


def size(paths: list[Path], name: str) -> tuple[int, int]:
    """Returns the lines and the number of files of a wing."""
    mine = [path for path in paths if wing(path) == name]
    return sum(map(lines, mine)), len(mine)


def circles(paths: list[Path], *, whole: bool) -> list[str]:
    """Returns the sets of modules that import each other: strongly connected components of the graph of imports.

    Args:
        paths: The modules.
        whole: Whether imports inside functions and for the type checker count.
    """
    modules = {module_name(path): path for path in paths}
    graph = {name: set(imported(path, modules, whole)) for name, path in modules.items()}
    reached = {name: _reachable(name, graph) for name in graph}
    found = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }
    return sorted(
        " <> ".join(sorted(each.removeprefix("cloudgan.") for each in one)) for one in found
    )


def module_name(path: Path) -> str:
    """Returns the dotted name of a module."""
    return re.sub(r"\.__init__$", "", relative(path)[:-3].replace("/", "."))


def imported(path: Path, modules: dict[str, Path], whole: bool) -> Iterator[str]:
    """Yields the modules that a module imports; a package counts where a name of its __init__ is taken."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if whole else _at_load(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if inner in modules else node.module
                if name in modules:
                    yield name


def _at_load(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that run when a module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_load(child)


def _reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Returns what a module imports, directly or not; itself only in a circle."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(graph[name])
    return found


if __name__ == "__main__":
    main()
