"""`cloudgan check`: login, permissions and quota of cloud accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.launch_request import NOTHING_PROVISIONED
from cloudgan.cli.options.launch_flags import provisioning_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import mark_printed, print_view
from cloudgan.core.clouds import CloudName

if TYPE_CHECKING:
    from cloudgan.api.launch_request import ProvisioningRequest


@with_flags(provisioning=provisioning_flags)
def check(
    *,
    provider: CloudName | None = None,
    accelerator: str | None = None,
    nodes: int = 1,
    price_as: str | None = None,
    reservation: str | None = None,
    json: bool = False,
    provisioning: ProvisioningRequest = NOTHING_PROVISIONED,
) -> None:
    """Checks login, APIs, permissions and quota of each cloud account.

    Creates nothing and spends nothing. With --accelerator it checks quota in the cheapest region and
    market, or those of --region and --market. Exits with 2 if something is missing: in the cloud of
    --provider, else in every cloud.

    Args:
        provider: The cloud. Default: every cloud.
        accelerator: NAME or NAME:COUNT per node, such as v100:8.
        nodes: Number of nodes.
        price_as: Offer to check instead, such as gcp/n1-standard-8+1xV100/us-central1/spot.
        reservation: Reservation to check, as its cloud names it; see docs/reservations.md.
        json: Print the result as JSON.
        provisioning: Account, region and market; from the shared flags.
    """
    from cloudgan.api.accounts import check_accounts

    found = check_accounts(
        provider,
        accelerator=accelerator,
        nodes=nodes,
        offer=price_as,
        reservation=reservation,
        provisioning=provisioning,
    )
    print_view(found, as_json=json)
    if problem := found.problem():
        raise mark_printed(problem, as_json=json)
