"""Without any extra: no command needs an extra to show its help."""

from __future__ import annotations

import subprocess
import sys

from cloudgan.core.lock import locked

ALL_HELP = """
import contextlib, io, sys
from importlib.metadata import packages_distributions
allowed = set(sys.argv[1:]) | {"cloudgan"}
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
for package in others & {name.partition(".")[0] for name in sys.modules}:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
sys.meta_path.insert(0, Refusing())
from cloudgan.cli.program import PROGRAM, Program
lines = [
    line
    for name, target in PROGRAM.commands.items()
    for line in (
        [[name, other] for other in target.commands] if isinstance(target, Program) else [[name]]
    )
]
failed = {}
for words in lines:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        try:
            PROGRAM.run([*words, "--help"])
        except SystemExit:
            pass
        except ImportError as error:
            failed[" ".join(words)] = str(error)
    if "Usage: cloudgan" not in shown.getvalue():
        failed.setdefault(" ".join(words), "no usage line")
print(len(lines), failed)
"""


def test_every_command_shows_its_help_without_any_extra():
    rows = locked().splitlines()
    base = [row.partition("==")[0] for row in rows if "==" in row and not row.startswith(" ")]
    command = [sys.executable, "-c", ALL_HELP, *base]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    commands, failed = done.stdout.strip().split(" ", 1)
    assert int(commands) > 30
    assert failed == "{}"
