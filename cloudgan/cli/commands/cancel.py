"""`cloudgan cancel`: stops the job of a run, which can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_result, progress_bars

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator


@with_flags(locator=run_flags)
def cancel(name: str, *, json: bool = False, locator: RunLocator = THIS_FOLDER) -> None:
    """Stops the job of a run after its workers saved a checkpoint; `deploy` resumes it.

    Args:
        name: Name of the run.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    with progress_bars(as_json=json) as progress:
        stopped = runs.cancel(name, locator=locator, progress=progress)
    fetched = ", ".join(stopped.fetched)
    print_result({"run": stopped.run, "state": "stopped", "fetched": fetched}, as_json=json)
