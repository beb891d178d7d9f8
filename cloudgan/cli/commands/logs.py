"""`cloudgan logs`: the merged output of all workers, one colour per worker."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import progress_bars

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator
    from cloudgan.schema.run_state import LogLine

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


@with_flags(locator=run_flags)
def logs(
    name: str,
    *,
    follow: bool = False,
    f: bool = False,
    json: bool = False,
    locator: RunLocator = THIS_FOLDER,
) -> None:
    """Prints what the workers of a run printed; with --follow, until the run ends.

    Args:
        name: Name or folder of the run.
        follow: Wait for new lines.
        f: Short for --follow.
        json: Print each line as a JSON object.
        locator: Where the run is; from the shared flags.
    """
    console = Console(highlight=False, soft_wrap=True)
    with progress_bars(as_json=True) as progress:
        for line in runs.logs(name, locator=locator, follow=follow or f, progress=progress):
            _print(line, console, json=json)


def _print(line: LogLine, console: Console, *, json: bool) -> None:
    if json:
        print(json_text.dumps({"worker": line.index, "time": line.time, "text": line.text}))
    else:
        prefix = Text(f"[{line.index}] ", style=_COLOURS[line.index % len(_COLOURS)])
        console.print(prefix + Text.from_ansi(line.text))
    sys.stdout.flush()
