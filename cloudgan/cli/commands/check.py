"""`cloudgan check`: login, permissions and quota of cloud accounts."""

from __future__ import annotations

from cloudgan.api.launch_options import CheckOptions
from cloudgan.core.command import command
from cloudgan.reports.result import Result


@command
def check(options: CheckOptions) -> Result:
    """Returns what is missing in each cloud."""
    from cloudgan.api.accounts import check_accounts

    return check_accounts(
        options.provider,
        accelerator=options.accelerator,
        nodes=options.nodes,
        offer=options.price_as,
        reservation=options.reservation,
        provisioning=options,
    )
