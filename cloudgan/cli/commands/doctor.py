"""`cloudgan doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from collections.abc import Callable

from cloudgan.core.command import command
from cloudgan.core.progress import Progress
from cloudgan.reports.result import Result
from cloudgan.schema.options.runs import DoctorOptions


@command
def doctor(
    options: DoctorOptions,
    *,
    progress: Progress,
    confirm: Callable[[str], None],
    show: Callable[[Result], None],
) -> Result:
    """Returns the resources, after those without a run were deleted if that is asked for."""
    from cloudgan.api.accounts import AccountSurveys

    surveys = AccountSurveys(options.account, tuple(filter(None, (options.store or "").split(","))))
    found = surveys.report()
    if found.orphaned and options.delete:
        show(found)
        confirm(f"Delete {found.orphaned} orphaned resource{'' if found.orphaned == 1 else 's'}?")
        deleted = tuple(surveys.delete_orphans(progress))
        found = surveys.report().model_copy(update={"deleted": deleted})
    return found
