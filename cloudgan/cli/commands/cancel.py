"""`cloudgan cancel`: stops the job of a run, which can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.sweep import runs_of
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_json, print_result, progress_bars
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator


@with_flags(locator=run_flags)
def cancel(name: str, *, json: bool = False, locator: RunLocator = THIS_FOLDER) -> None:
    """Stops the job of a run after its workers saved a checkpoint; `deploy` resumes it.

    Args:
        name: Name of the run, or of a sweep of seeds, whose running run is stopped.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    names = runs_of(name, locator)
    with progress_bars(as_json=json) as progress:
        if len(names) > 1:
            names = tuple(one for one in names if not runs.status(one).state.is_over)
        if not names:
            raise ConfigError(f"no run of sweep {name} is running; see `cloudgan status {name}`")
        results = [runs.cancel(one, locator=locator, progress=progress) for one in names]
    found = [
        {"run": one.run, "state": "stopped", "fetched": ", ".join(one.fetched)} for one in results
    ]
    if json and len(found) > 1:
        print_json({"sweep": name, "runs": found})
        return
    for stopped in found:
        print_result(stopped, as_json=json)
