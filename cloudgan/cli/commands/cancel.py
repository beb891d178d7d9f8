"""`cloudgan cancel`: stops the job of a run, which can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.emit import emit
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import progress_bars

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
    with progress_bars(as_json=json) as progress:
        found = runs.cancel(name, locator=locator, progress=progress)
    emit(found, as_json=json)
