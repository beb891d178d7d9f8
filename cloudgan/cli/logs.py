"""`cloudgan logs`: what all workers print, merged, each rank in its colour."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from cloudgan.cli.launch_flags import REMEMBERED, where_flags
from cloudgan.cli.output import shown_progress
from cloudgan.cli.place import find_run
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.errors import ConfigError
from cloudgan.launching.log_merging import merged
from cloudgan.launching.results import Results

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.run_state import LogLine

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


@with_flags(where=where_flags)
def logs(
    name: str,
    *,
    follow: bool = False,
    f: bool = False,
    json: bool = False,
    where: Where = REMEMBERED,
) -> None:
    """Prints what the workers of a run printed; with --follow, until the run is over.

    Args:
        name: Of the run.
        follow: Go on with what comes.
        f: The same as --follow.
        json: Print each line as a JSON object.
        where: It is, from the flags that commands share.
    """
    with shown_progress(as_json=True) as progress:
        plan, opened = find_run(name, **where._asdict(), say=progress.say)
    console = Console(highlight=False, soft_wrap=True)
    any_line = False
    for line in merged(opened, plan.run, follow=follow or f):
        any_line = True
        _print(line, console, json=json)
    results = None if any_line else Results.of(plan)
    for line in results.log_lines() if results else ():
        any_line = True
        _print(line, console, json=json)
    if not any_line:
        raise ConfigError(
            f"run {plan.run} has printed nothing yet; see `cloudgan status {plan.run}`"
        )


def _print(line: LogLine, console: Console, *, json: bool) -> None:
    if json:
        print(json_text.dumps({"worker": line.index, "time": line.time, "text": line.text}))
    else:
        rank = Text(f"[{line.index}] ", style=_COLOURS[line.index % len(_COLOURS)])
        console.print(rank + Text.from_ansi(line.text))
    sys.stdout.flush()
