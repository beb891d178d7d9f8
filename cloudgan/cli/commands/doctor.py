"""`cloudgan doctor`: resources in your clouds, their runs, and their cost per day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.options.launch_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import mark_printed, print_view, progress_bars

if TYPE_CHECKING:
    from cloudgan.api.targets import RunLocator


@with_flags(account=account_flags)
def doctor(
    *,
    store: str | None = None,
    delete: bool = False,
    yes: bool = False,
    json: bool = False,
    account: RunLocator = EVERY_CLOUD,
) -> None:
    """Lists all resources of cloudgan in every cloud that you are logged in to.

    Shows for each resource its run, its cost per day and the command that deletes it. Exits with 4
    if resources are orphaned or a part of a cloud did not answer, with 2 if no cloud could be queried.
    Resources without cloudgan's labels are not listed.

    Args:
        store: Stores of runs that are not in the account's bucket, separated by commas.
        delete: Delete orphaned resources, after confirmation; never those of active runs.
        yes: Do not ask for confirmation.
        json: Print the result as JSON.
        account: Accounts to query; from the shared flags.
    """
    from cloudgan.api.accounts import AccountSurveys

    surveys = AccountSurveys(account, tuple(filter(None, (store or "").split(","))))
    found = surveys.report()
    if not json:
        print_view(found, as_json=False)
    if found.orphaned and delete:
        count = f"{found.orphaned} orphaned resource{'' if found.orphaned == 1 else 's'}"
        confirm(f"Delete {count}?", yes=yes)
        with progress_bars(as_json=json) as progress:
            deleted = tuple(surveys.delete_orphans(progress))
        found = surveys.report().model_copy(update={"deleted": deleted})
        if not json:
            print(f"{len(deleted)} deleted")
    if json:
        print_view(found, as_json=True)
    if problem := found.problem():
        raise mark_printed(problem, as_json=json)
