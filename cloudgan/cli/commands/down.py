"""`cloudgan down`: deletes the resources of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.emit import emit
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import progress_bars

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator
    from cloudgan.schema.plan import Plan


@with_flags(locator=run_flags)
def down(
    name: str,
    *,
    purge: bool = False,
    yes: bool = False,
    json: bool = False,
    locator: RunLocator = THIS_FOLDER,
) -> None:
    """Stops a run, deletes its resources and prints its cost; can be repeated safely.

    Record and checkpoints stay in the store unless --purge is given, and in runs/NAME.

    Args:
        name: Name of the run, or of a sweep of seeds.
        purge: Delete the run's folder in the store, too.
        yes: Do not ask for confirmation of --purge.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """

    def approve_purge(plan: Plan) -> None:
        confirm(f"Delete all checkpoints and logs of {plan.run} in {plan.store}?", yes=yes)

    with progress_bars(as_json=json) as progress:
        found = runs.down(
            name, locator=locator, purge=purge, approve_purge=approve_purge, progress=progress
        )
    emit(found, as_json=json)
