"""`cloudgan adopt`: imports a run that another machine started."""

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
def adopt(name: str, *, json: bool = False, locator: RunLocator = THIS_FOLDER) -> None:
    """Imports a run that another machine started: plan, times and record, into runs/NAME.

    Finds resources by label, and the desired state in the run's store. Afterwards `status`, `logs`,
    `cost`, `cancel`, `down` and `deploy` work in this folder.

    Args:
        name: Name of the run.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    with progress_bars(as_json=json) as progress:
        adopted = runs.adopt(name, locator=locator, progress=progress)
    emit(adopted, as_json=json)
