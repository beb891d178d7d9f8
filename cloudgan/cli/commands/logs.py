"""`cloudgan logs`: the merged output of all workers, one colour per worker."""

from __future__ import annotations

import json as json_text
import sys

from rich.console import Console
from rich.text import Text

from cloudgan.core.command import body_of, command
from cloudgan.launch.operations import runs
from cloudgan.schema.options.runs import LogsOptions
from cloudgan.schema.run_state import LogLine

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


@command
def logs(options: LogsOptions, *, as_json: bool = False) -> None:
    """Prints each line when it comes."""
    console = Console(highlight=False, soft_wrap=True)
    for line in body_of(runs.logs)(options):
        _print(line, console, json=as_json)


def _print(line: LogLine, console: Console, *, json: bool) -> None:
    if json:
        print(json_text.dumps({"worker": line.index, "time": line.time, "text": line.text}))
    else:
        prefix = Text(f"[{line.index}] ", style=_COLOURS[line.index % len(_COLOURS)])
        console.print(prefix + Text.from_ansi(line.text))
    sys.stdout.flush()
