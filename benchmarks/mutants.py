"""Breaks the product at many places, one at a time, and says which breaks the tests notice.

    python benchmarks/mutants.py 30 cloudgan/money/billing.py --tests tests/money --save before.json
    python benchmarks/mutants.py --compare before.json after.json

The same modules, number and seed give the same mutants, so that a list from before a change of the
tests can be compared with one from after it. A mutant is killed when pytest fails or takes too long.
The checkout is copied into a temporary folder; no file of it is changed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cloudgan.core.documents import parse_json

ROOT = Path(__file__).parents[1]
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def mutated(node: ast.AST) -> ast.AST | None:
    """Returns what stands in the mutant in place of an expression, or None where nothing is changed."""
    found: ast.AST | None = None
    match node:
        case ast.Compare(left, [op], right) if type(op) in COMPARED:
            found = ast.Compare(left, [COMPARED[type(op)]()], right)
        case ast.BoolOp(op, values):
            found = ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.Not(), operand):
            found = operand
        case ast.BinOp(left, op, right) if type(op) in COMPUTED:
            found = ast.BinOp(left, COMPUTED[type(op)](), right)
        case ast.IfExp(test, body, orelse):
            found = ast.IfExp(test, orelse, body)
        case ast.Constant(bool(value)):
            found = ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            found = ast.Constant(value + 1)
    return found


def mutants_of(module: Path) -> list[dict[str, str | int]]:
    """Returns each mutant of a module: its line, the text before and after, and its offsets in bytes."""
    source = module.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    skipped = [
        node.annotation if isinstance(node, ast.AnnAssign) else node
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign | ast.JoinedStr | ast.Subscript)
    ]
    hidden = {id(inside) for part in skipped for inside in ast.walk(part)}
    found: list[dict[str, str | int]] = []
    for node in ast.walk(tree):
        change = None if id(node) in hidden else mutated(node)
        if change is not None and isinstance(node, ast.expr):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            found.append(
                {
                    "module": str(module.relative_to(ROOT)),
                    "line": node.lineno,
                    "before": source[begin:end].decode(),
                    "after": f"({ast.unparse(change)})",
                    "number": len(found),  # moved lines and other docstrings do not change it
                    "begin": begin,
                    "end": end,
                }
            )
    return found


def run(chosen: list[dict[str, str | int]], tests: list[str], limit: float, save: Path) -> None:
    """Runs the tests on each mutant, and writes after each one what was killed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "cloudgan")
        ignored = shutil.ignore_patterns(
            ".*_cache", "__pycache__", ".venv*", ".git", "node_modules"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        command = ["env", f"PYTHONPATH={copy}", *command]  # for the programs that tests start

        def fails() -> bool:
            try:
                done = subprocess.run(command, cwd=copy, capture_output=True, timeout=limit)  # noqa: S603, PLW1510
            except subprocess.TimeoutExpired:
                return True
            return done.returncode != 0

        if fails():
            sys.exit("the tests fail or take too long without a mutant")
        for one in chosen:
            path = copy / str(one["module"])
            source = path.read_bytes()
            begin, end = int(one["begin"]), int(one["end"])
            path.write_bytes(source[:begin] + str(one["after"]).encode() + source[end:])
            one["killed"] = fails()
            path.write_bytes(source)
            word = "killed  " if one["killed"] else "SURVIVED"
            print(f"{word} {one['module']}:{one['line']} {one['before']} -> {one['after']}"[:160])
            save.write_text(json.dumps(chosen, indent=1))
    print(f"{sum(bool(one['killed']) for one in chosen)} of {len(chosen)} killed")


def compare(before: Path, after: Path) -> None:
    """Prints how many mutants were killed before and after, and those that only one list killed."""
    place = ("module", "before", "after", "number")
    first, second = (
        {tuple(one[key] for key in place): one for one in parse_json(path.read_text(), str(path))}
        for path in (before, after)
    )
    common = first.keys() & second.keys()
    killed = [sum(bool(table[key]["killed"]) for key in common) for table in (first, second)]
    print(f"{len(common)} mutants: {killed[0]} killed before, {killed[1]} killed after")
    for key in sorted(common):
        if first[key]["killed"] != second[key]["killed"]:
            word = "no longer killed" if first[key]["killed"] else "newly killed"
            print(f"{word}: {key[0]}:{first[key]['line']} {key[1]} -> {key[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=0)
    parser.add_argument("modules", type=Path, nargs="*")
    parser.add_argument("--tests", nargs="+", default=["tests"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds for the tests of a mutant"
    )
    parser.add_argument("--save", type=Path, default=Path("mutants.json"))
    parser.add_argument("--compare", type=Path, nargs=2)
    asked = parser.parse_args()
    if asked.compare:
        compare(*asked.compare)
    else:
        modules = [path.resolve() for path in asked.modules]
        every = [one for module in modules for one in mutants_of(module)]
        chosen = random.Random(asked.seed).sample(every, min(asked.number, len(every)))
        run(chosen, asked.tests, asked.limit, asked.save.resolve())
