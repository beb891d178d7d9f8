"""The rules that hold for all modules."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.cli.program import PROGRAM
from cloudgan.core.lock import locked
from command_options import options_by_command

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cloudgan"
MODULES = sorted(PACKAGE.rglob("*.py"))
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
SHARED_DEPTH = 2  # "/" and "/tmp" belong to every machine
MOST_LINES, MOST_FUNCTION_LINES = 500, 80
HEAVY = {"tensorflow", "keras", "numpy", "scipy", "h5py", "matplotlib", "yaml", "pydantic"}
SDKS = {"boto3", "botocore", "google", "azure", "kubernetes"}
VERBS = sorted(
    f"{name} {inner}".rstrip()
    for name, target in PROGRAM.commands.items()
    for inner in ("", *getattr(target, "commands", ()))
)


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_named_after_a_noun_and_can_be_read_in_one_go(path):
    assert path.stem not in DRAWERS, "name it after the noun it holds"
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, "which noun needs its own file?"
    long = [
        f"{node.name} ({size} lines)"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := _code_lines(node)) > MOST_FUNCTION_LINES
    ]
    assert not long


def _code_lines(node):
    """Lines of a function without its docstring and without its list of parameters.

    A command has a parameter and a line of help for each of its flags: that is a table.
    """
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    begin = first.end_lineno + 1 if documented else first.lineno
    return node.end_lineno - begin + 2


def test_the_core_imports_the_standard_library_pydantic_and_yaml_only():
    allowed = sys.stdlib_module_names | {"pydantic", "yaml", "cloudgan"}
    forbidden = {
        f"{name_of(path)}: {name}"
        for path in (PACKAGE / "core").rglob("*.py")
        if path.name != "arrays.py"  # types of arrays, which the numerics wing alone imports
        for name in _imported(path)
        if name.partition(".")[0] not in allowed
        or (name.startswith("cloudgan.") and not name.startswith("cloudgan.core"))
    }
    assert not forbidden


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            yield node.module


def test_the_import_contracts_hold():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken." in done.stdout


@pytest.mark.tf
def test_every_module_can_be_imported():
    """Where the type checker alone reads a name, an import of it from elsewhere fails at run time only."""
    paths = [path for path in MODULES if path.name != "__main__.py"]
    names = [name_of(path)[:-3].replace("/", ".").removesuffix(".__init__") for path in paths]
    code = f"from importlib import import_module as load\nfor name in {names}: load(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


STATEMENTS = {
    "import cloudgan as cg; print(dir(cg))": SDKS | HEAVY - {"scipy", "h5py", "yaml"},
    "main(['--help'])": SDKS | HEAVY,
    "main(['offers', '--epochs=60', '--accelerator=v100', '--json'])": SDKS
    | HEAVY - {"yaml", "pydantic"},
    "main(['deploy', '--provider=gcp', '--accelerator=v100:8', '--nodes=2', '--dry-run'])": SDKS
    | {"tensorflow", "keras", "h5py"},
}
"""What is run one after the other in one process, and what is not loaded by then."""
LOADED = """
import contextlib, io, json, sys
loaded = {}
for statement in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        if statement.startswith("main"):
            from cloudgan.cli.main import main
        exec(statement)
    loaded[statement] = [out.getvalue(), sorted({name.partition(".")[0] for name in sys.modules})]
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What each statement printed, and the modules that are loaded after it."""
    command = [sys.executable, "-c", LOADED, json.dumps(list(STATEMENTS))]
    folder = tmp_path_factory.mktemp("loaded")
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(done.stdout)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement, loaded):
    shown, modules = loaded[statement]
    assert shown
    assert not STATEMENTS[statement] & set(modules)


def test_the_help_of_the_program_names_every_command(loaded):
    shown = loaded["main(['--help'])"][0]
    assert "Usage: cloudgan COMMAND" in shown
    assert set(PROGRAM.commands) <= set(shown.replace(",", " ").split())


HELP_PAGES = """
import contextlib, io, json, sys
from importlib.metadata import packages_distributions
verbs, allowed = json.loads(sys.argv[1])
normal = lambda name: name.lower().replace("_", "-").replace(".", "-")
others = {
    package
    for package, owners in packages_distributions().items()
    if not any(normal(owner) in allowed for owner in owners)
}
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
for name in [name for name in sys.modules if name.partition(".")[0] in others]:
    del sys.modules[name]
sys.meta_path.insert(0, Refusing())
from cloudgan.cli.program import PROGRAM
from cloudgan.core.lock import locked
pages = {}
for verb in verbs:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        try:
            PROGRAM.run([*verb.split(), "--help"])
        except SystemExit:
            pass
        except ImportError as error:
            print(error)
    pages[verb] = shown.getvalue()
print(json.dumps(pages))
"""


@pytest.fixture(scope="module")
def help_pages():
    """The help page of each command, from one process in which the packages of all extras are missing."""
    rows = locked().splitlines()
    base = [row.partition("==")[0] for row in rows if "==" in row and not row.startswith(" ")]
    command = [sys.executable, "-c", HELP_PAGES, json.dumps([VERBS, [*base, "cloudgan"]])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_command_is_complete_and_needs_no_extra(verb, help_pages):
    shown = help_pages[verb]
    assert f"Usage: cloudgan {verb}" in shown
    assert shown.splitlines()[0] != "", "a command says in one sentence what it does"
    assert all(one.help for one in options_by_command().get(verb, ())), "a flag without help"


OF_A_COMMAND = re.compile(r"`cloudgan (\w+(?: \w+)?)([^`]*)`|(--[a-z][-a-z]*)(?:=\S+)? of `?(\w+)")
"""A command line in backticks, or a flag that a text says a command has."""


def named_flags(path):
    """The commands and flags of the texts of a module; what follows ``--`` is another command's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = (one.value if isinstance(one, ast.Constant) else "X" for one in parts)
        for found in OF_A_COMMAND.finditer(
            "".join(text for text in texts if isinstance(text, str))
        ):
            line, flag, verb = (found[2] or "").partition(" -- ")[0], found[3], found[4]
            for one in [flag] if flag else re.findall(r"--[a-z][-a-z]*", line):
                yield (verb or found[1]), one.removeprefix("--")


def test_every_flag_that_a_text_of_the_program_names_is_one_of_its_command():
    known = {verb: {one.name for one in its} for verb, its in options_by_command().items()}
    named = [(path, *each) for path in MODULES for each in named_flags(path)]
    wrong = [
        f"{name_of(path)}: --{flag} of {verb}"
        for path, verb, flag in named
        if (own := known.get(verb, known.get(verb.partition(" ")[0])))
        and not {flag, flag.removeprefix("no-")} & (own | {"help", "help-all"})
    ]
    assert len(named) > 50
    assert not wrong


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_is_in_the_documentation(verb):
    page = ROOT / "docs" / "commands.md"
    assert re.search(rf"`cloudgan {verb}\b", page.read_text(encoding="utf-8"))


def test_no_committed_file_names_a_path_of_a_home_folder_or_a_package_registry():
    """Independent of where the clone lies: a folder such as /tmp/ is not specific to one machine."""
    hosts = ("pypi.org", "pythonhosted.org", "npmjs.org", "debian.org")
    folders = ["/home/", "/root/", "/Users/"]
    folders += [f"{path}/" for path in (Path.home(), ROOT.parent) if len(path.parts) > SHARED_DEPTH]
    patterns = [part for word in (*hosts, *folders) for part in ("-e", word)]
    done = subprocess.run(
        ["git", "grep", "-nIF", *patterns, "--", ".", ":!tests/test_contracts.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if "not a git repository" in done.stderr:
        pytest.skip("no checkout")
    assert not done.stdout
    assert done.returncode == 1, done.stderr  # 1: found nothing
