"""`cloudgan setup`: creates or deletes what an account needs once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cloudgan.api.account_reports import SetupPlan
from cloudgan.core import clouds
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.reports.result import Result
from cloudgan.schema.options.runs import SetupOptions
from cloudgan.schema.plan import Target
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    from cloudgan.api.account_reports import SetupPlan
    from cloudgan.schema.plan import Target
    from cloudgan.schema.resource import Resource


@command
def setup(
    options: SetupOptions,
    *,
    progress: Progress,
    confirm: Callable[[str], None],
    show: Callable[[Result], None],
) -> Result:
    """Returns what was created or deleted, after confirmation."""
    from cloudgan.api.accounts import plan_setup, set_up_account, tear_down_account

    if options.account.provider is None:
        raise ConfigError(f"--provider is missing; give --provider={clouds.choices()}")
    if options.purge and not options.teardown:
        raise ConfigError("--purge empties buckets; it is only valid with --teardown")

    def approve(found: SetupPlan) -> None:
        show(found)
        confirm(f"Create what is missing in {found.place()}?")

    def approve_deletion(target: Target, resources: tuple[Resource, ...]) -> None:
        for one in resources:
            progress.say(f"  {one.kind} {one.name}  {one.region}")
        where = f"{target.provider} {target.account}, {target.region}"
        confirm(f"Delete {len(resources)} resources of {where}?")

    if options.teardown:
        return tear_down_account(
            options.account,
            approve_deletion,
            confirm,
            progress,
            purge=options.purge,
            dry_run=options.dry_run,
        )
    if options.dry_run:
        return plan_setup(options.account)
    return set_up_account(options.account, approve, progress)
