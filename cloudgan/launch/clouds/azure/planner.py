"""CloudPlanner of Azure: target, node pool, workers, store and steps; offline."""

from __future__ import annotations

import re

from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.launch.clouds.azure import ids, reservations
from cloudgan.launch.clouds.azure.bodies import (
    DISK_GIB,
    SPOT_TAINT,
    SYSTEM_NODE,
    cluster_steps,
    setup_steps,
    size_of,
    store_steps,
)
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
    billed_by_reservation,
    desired_state_step,
)
from cloudgan.launch.kubernetes.manifests import hold_step
from cloudgan.schema.plan import (
    NodePool,
    Plan,
    Step,
    Target,
    Toleration,
    Workers,
)
from cloudgan.schema.price_row import PoolFee

__all__ = ["keep_steps", "node_pool", "setup_steps", "steps", "store_url", "target", "workers"]

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONGEST_POOL = 12
_ZONES = ("1", "2", "3")
_DISK = "Premium SSD P10"
_FEES = (
    PoolFee(kind="disk", product=_DISK, quantity=DISK_GIB),
    PoolFee(kind="disk", product=_DISK, quantity=DISK_GIB, per_node=False),
    PoolFee(kind="load_balancer", per_node=False),
    PoolFee(kind="public_ip", per_node=False),
)
"""Upper bounds: AKS prefers an ephemeral disk, which is part of the machine's price, where it fits
(https://azure.github.io/PSRule.Rules.Azure/en/rules/Azure.AKS.EphemeralOSDisk, read 2026-11-22).
Nodes have no public addresses; they share that of the load balancer, which AKS creates for egress."""
_SPOT_GRACE_SECONDS = 25
"""A Spot machine gets 30 s notice, its pods slightly less
(https://learn.microsoft.com/azure/virtual-machines/spot-vms, read 2026-11-21)."""


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target; `account` is a subscription id, `cluster` a name or GROUP/NAME."""
    if account and account != ids.SUBSCRIPTION and not _GUID.fullmatch(account):
        raise ConfigError(
            f"--subscription={account} is not an id; give the 36 characters shown by `az account list`"
            " or the Azure portal, such as 00000000-0000-0000-0000-000000000000"
        )
    if zone and zone not in _ZONES:
        raise ConfigError(f"--zone={zone} is not valid; zones of Azure: {', '.join(_ZONES)}")
    return Target.of_flags(
        provider="azure",
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        account=account or ids.SUBSCRIPTION,
        region=region,
        zone=zone or ids.ZONE,
        cluster=cluster or CLUSTER,
        details={SYSTEM_NODE: ids.SYSTEM_SIZE},
    )


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node pool."""
    size_of(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is only valid with --provider=gcp; on Azure use --market=spot"
        )
    if wanted.reservation:
        reservations.check_name(wanted.reservation)
    return wanted.pool(
        _LONGEST_POOL,
        hyphens=False,
        identity={"azure.workload.identity/client-id": ids.CLIENT},
        fees=_FEES,
        notes=(billed_by_reservation(wanted.reservation),) if wanted.reservation else (),
    )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the worker settings for these nodes."""
    is_spot = node_pool.market == "spot"
    spot = (Toleration(key=SPOT_TAINT, value="spot"),) if is_spot else ()
    return workers.model_copy(
        update={
            "tolerations": (*workers.tolerations, *spot),
            "pod_labels": workers.pod_labels | {"azure.workload.identity/use": "true"},
            "grace_seconds": _SPOT_GRACE_SECONDS if is_spot else workers.grace_seconds,
        }
    )


def store_url(target: Target) -> str:
    """Returns the URL of the subscription's container in the target's region."""
    return f"https://{ids.store_account(target)}.blob.core.windows.net/{ids.CONTAINER}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps before the Kubernetes objects; the desired state precedes billed resources."""
    own = store_steps(plan.target)
    is_own_store = plan.store == store_url(plan.target)
    return (
        *(own if is_own_store else own[:1]),
        desired_state_step(plan),
        *cluster_steps(plan),
    )


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the Job that holds the nodes; after its deadline the autoscaler removes them."""
    return (hold_step(plan),)
