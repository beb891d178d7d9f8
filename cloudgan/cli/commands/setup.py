"""`cloudgan setup`: creates or deletes what an account needs once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.options.launch_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_view, progress_bars
from cloudgan.core import clouds
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.api.account_reports import SetupPlan
    from cloudgan.api.targets import RunLocator
    from cloudgan.schema.plan import Target
    from cloudgan.schema.resource import Resource


@with_flags(account=account_flags)
def setup(
    *,
    teardown: bool = False,
    purge: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
    account: RunLocator = EVERY_CLOUD,
) -> None:
    """Creates what an account needs once in a region: bucket, identities and their permissions.

    Rerun it to create what is missing. `deploy` creates the bucket itself; identities need an
    administrator to run this once. None of it bills by the hour.

    Args:
        teardown: Delete what no run owns, in --region, or everywhere without --region.
        purge: With --teardown: delete the buckets, too, with all checkpoints, logs and records.
        dry_run: Show the requests and stop; needs no login.
        yes: Do not ask for confirmation.
        json: Print the result as JSON.
        account: Account and region; from the shared flags.
    """
    if account.provider is None:
        raise ConfigError(f"--provider is missing; give --provider={clouds.choices()}")
    if purge and not teardown:
        raise ConfigError("--purge empties buckets; it is only valid with --teardown")
    if teardown:
        _tear_down(account, purge=purge, dry_run=dry_run, yes=yes, json=json)
    else:
        _set_up(account, dry_run=dry_run, yes=yes, json=json)


def _set_up(account: RunLocator, *, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.api.accounts import plan_setup, set_up_account

    if dry_run:
        print_view(plan_setup(account), as_json=json)
        return

    def approve(found: SetupPlan) -> None:
        if not json:
            print_view(found, as_json=False)
        confirm(f"Create what is missing in {found.place()}?", yes=yes)

    with progress_bars(as_json=json) as progress:
        done = set_up_account(account, approve, progress)
    print_view(done, as_json=json)


def _tear_down(account: RunLocator, *, purge: bool, dry_run: bool, yes: bool, json: bool) -> None:
    from cloudgan.api.accounts import tear_down_account

    def approve(target: Target, resources: tuple[Resource, ...]) -> None:
        if not json:
            for one in resources:
                print(f"  {one.kind} {one.name}  {one.region}")
        confirm(
            f"Delete {len(resources)} resources of {target.provider} {target.account}, {target.region}?",
            yes=yes,
        )

    with progress_bars(as_json=json) as progress:
        done = tear_down_account(
            account,
            approve,
            lambda question: confirm(question, yes=yes),
            progress,
            purge=purge,
            dry_run=dry_run,
        )
    print_view(done, as_json=json)
