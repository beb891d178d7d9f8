"""`cloudgan cancel`: stops the job of a run, which can be resumed."""

from __future__ import annotations

from cloudgan.api import runs
from cloudgan.api.sweep import runs_of
from cloudgan.cli.views.output import print_json, print_result, progress_bars
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.schema.options.runs import CancelOptions


@command
def cancel(options: CancelOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    names = runs_of(options.run, options.locator)
    with progress_bars(as_json=as_json) as progress:
        if len(names) > 1:
            names = tuple(one for one in names if not runs.status(one).state.is_over)
        if not names:
            raise ConfigError(
                f"no run of sweep {options.run} is running; see `cloudgan status {options.run}`"
            )
        results = [runs.cancel(one, locator=options.locator, progress=progress) for one in names]
    found = [
        {"run": one.run, "state": "stopped", "fetched": ", ".join(one.fetched)} for one in results
    ]
    if as_json and len(found) > 1:
        print_json({"sweep": options.run, "runs": found})
        return
    for stopped in found:
        print_result(stopped, as_json=as_json)
