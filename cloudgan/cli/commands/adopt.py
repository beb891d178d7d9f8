"""`cloudgan adopt`: imports a run that another machine started."""

from __future__ import annotations

from cloudgan.api import runs
from cloudgan.api.targets import run_folder
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.runs import AdoptOptions


@command
def adopt(options: AdoptOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    with progress_bars(as_json=as_json) as progress:
        adopted = runs.adopt(options.run, locator=options.locator, progress=progress)
    result = {
        "run": adopted.plan.run,
        "state": adopted.phase,
        "folder": str(run_folder(adopted.plan).path),
        "attempts": adopted.attempts,
        "fetched": ", ".join(adopted.fetched),
        "next": f"cloudgan status {adopted.plan.run}",
    }
    print_result(result, as_json=as_json)
