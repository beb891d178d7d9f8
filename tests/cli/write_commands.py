"""Writes docs/commands.md from the models of the commands; `make golden` runs it."""

from pathlib import Path

from cloudgan.cli.help import every_flag
from cloudgan.cli.program import functions
from cloudgan.core.command import model_of

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
_HEAD = """\
# Commands

`cloudgan COMMAND --help` is one screen, `--help-all` is what stands here. Flags are written in kebab-case; the form with
underscores is accepted too. A command line is parsed completely before anything runs: a misspelt flag starts nothing and names
the nearest valid one. In Python each command is a function with the same names: `cloudgan.train("showers.h5", epochs=3)`.
This page is made from the program (`make golden`).
"""


EXIT_CODES = """\
## Exit codes

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | the run failed, the disk is full, or standard output cannot be written |
| 2 | invalid input; nothing was started, and no file was changed |
| 3 | confirmation required |
| 4 | resources are left, or not proven gone: a deletion failed, or a zone, region or service did not answer |
| 5 | no capacity, no quota or no matching offer |
| 6 | over budget |
| 7 | a requested physics gate failed |
| 75 | stopped by SIGTERM, after a checkpoint where there is one, or a pod whose store or login failed for ten minutes; try again |
| 76 | no progress: three restarts without a newer checkpoint |
| 130 | interrupted by Ctrl-C |

`exec` and `shell` exit with the code of the remote command.

An error is one line on standard error; with `--json` it is an object with `error` and `exit_code` on standard output.
`cloudgan ... | head` ends with 1 without a message. Messages that standard error cannot take are dropped. Characters that
the terminal cannot show are printed as `?`.
"""


def page() -> str:
    """Returns docs/commands.md."""
    parts = [_HEAD]
    for name, function in sorted(functions().items()):
        text = every_flag(f"cloudgan {name}", model_of(function))
        lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
        parts.append(f"## `cloudgan {name}`\n\n{lines}\n")
    return "\n".join([*parts, EXIT_CODES])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
