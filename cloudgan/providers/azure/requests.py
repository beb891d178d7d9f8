"""What is true of Azure without asking it: names, machines, the requests of a plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.core.labels import derived_name
from cloudgan.core.plan import Place, Rental, Step, Toleration
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.aks import NAMESPACE, SERVICE_ACCOUNT, SPOT_TAINT, cluster_steps
from cloudgan.providers.azure.setup import setup_steps, store_steps
from cloudgan.providers.azure.sizes import size_of
from cloudgan.providers.intent_step import intent_step

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Workers
    from cloudgan.providers.clouds import Wanted

__all__ = ["place", "rental", "setup_steps", "steps", "store", "workers"]

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONGEST_POOL = 12
_ZONES = ("1", "2", "3")
_SPOT_GRACE_SECONDS = 25
"""A Spot machine is told 30 s before it goes, and pods hear of it a moment later
(https://learn.microsoft.com/azure/virtual-machines/spot-vms, read 2026-11-21)."""


def place(account: str | None, region: str, zone: str | None, cluster: str | None) -> Place:
    """Returns a place; `account` is a subscription's id, `cluster` a name or GROUP/NAME.

    Raises:
        ConfigError: The zone or the subscription can be none.
    """
    if account and account != ids.SUBSCRIPTION and not _GUID.fullmatch(account):
        raise ConfigError(
            f"--subscription={account} is no id; give the 36 characters that `az account list` or"
            " Azure's portal shows, such as 00000000-0000-0000-0000-000000000000"
        )
    if zone and zone not in _ZONES:
        raise ConfigError(f"--zone={zone}: zones of Azure are called {', '.join(_ZONES)}")
    return Place(
        provider="azure",
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        account=account or ids.SUBSCRIPTION,
        region=region,
        zone=zone or ids.ZONE,
        cluster=cluster or ids.CLUSTER,
    )


def rental(wanted: Wanted) -> Rental:
    """Returns what is rented.

    Raises:
        PlanError: Azure does not sell it any more, or never did.
    """
    size_of(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex_start is Google's; on Azure --spot=always is what costs less: leave it out"
        )
    return Rental(
        node_type=wanted.node_type,
        market=wanted.market,
        pool=derived_name(wanted.run, wanted.spec, _LONGEST_POOL, hyphens=False),
        keep_cluster=wanted.keep_cluster,
        identity={"azure.workload.identity/client-id": ids.CLIENT},
    )


def workers(workers: Workers, rental: Rental) -> Workers:
    """Returns the workers as nodes of this kind take them."""
    is_spot = rental.market == "spot"
    spot = (Toleration(key=SPOT_TAINT, value="spot"),) if is_spot else ()
    return workers.model_copy(
        update={
            "tolerations": (*workers.tolerations, *spot),
            "pod_labels": workers.pod_labels | {"azure.workload.identity/use": "true"},
            "grace_seconds": _SPOT_GRACE_SECONDS if is_spot else workers.grace_seconds,
        }
    )


def store(place: Place) -> str:
    """Returns the URL of the subscription's own container in the place's region."""
    return f"https://{ids.store_account(place)}.blob.core.windows.net/{ids.CONTAINER}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns what is ensured before the cluster's own objects, the intent before what bills."""
    own = store_steps(plan.place)
    is_own_store = plan.store == store(plan.place)
    return (
        *(own if is_own_store else own[:1]),
        intent_step(plan),
        *cluster_steps(plan),
    )
