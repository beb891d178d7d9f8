"""The GCP planner: targets, node pools and the steps of a plan. Pure, needs no SDK."""

from __future__ import annotations

from typing import Any

from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.core.labels import RUN
from cloudgan.core.machines import Machine
from cloudgan.launch.backends.kubernetes.permissions import review_step
from cloudgan.launch.backends.tpu_vm import requests as tpu_requests
from cloudgan.launch.clouds.gcp import names, network
from cloudgan.launch.clouds.gcp.bodies import (
    DISK_GIB,
    SPOT_GRACE_SECONDS,
    SYSTEM_DISK,
    SYSTEM_DISK_GIB,
    SYSTEM_GRACE_SECONDS,
    bucket_step,
    cluster_step,
    pod_identity_step,
    pool_step,
    setup_steps,
    store_url,
)
from cloudgan.launch.clouds.gcp.machines import machine
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
    billed_by_reservation,
    desired_state_step,
    pool_of,
    unused_network,
)
from cloudgan.launch.kubernetes.manifests import hold_step
from cloudgan.schema.plan import (
    LOCATION,
    NodePool,
    Plan,
    Step,
    Target,
    Toleration,
    Workers,
)
from cloudgan.schema.price_row import PoolFee

_LONGEST_POOL = 40
_TPUS = ("v2-", "v3-", "v4-", "v5litepod-", "v5p-", "v6e-")
"""Slices of Cloud TPU VMs. TPU pods on GKE need a higher limit of locked memory than containers may set
without privileges (https://cloud.google.com/tpu/docs/tpus-in-gke and
https://github.com/marin-community/marin/issues/3871, read 2026-11-25), and pods of runs have none."""
_QUEUED_TAINT = "cloud.google.com/gke-queued"
_FLEX_LABEL = "cloud.google.com/gke-flex-start"
"""GKE sets taint and label: see `_flex_start`."""
_LATE = (
    "all flex-start nodes start at once; if that is after the deadline of the job, they bill for about ten"
    " minutes. A node that is lost is not replaced: the other workers wait for it until the deadline"
)


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target: one zone of a region."""
    if zone and not zone.startswith(f"{region}-"):
        raise ConfigError(
            f"--zone={zone} is not in {region}, the region of this offer; pass --region="
            f"{zone.rpartition('-')[0]}, or omit --zone"
        )
    return Target.of_flags(
        provider="gcp",
        account=account or names.PROJECT,
        region=region,
        zone=zone or names.ZONE,
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        cluster=cluster or CLUSTER,
        details={LOCATION: names.CLUSTER_LOCATION, names.CHANNEL: names.RELEASE_CHANNEL}
        if cluster
        else {LOCATION: zone or names.ZONE},
    )


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node pool, or the TPU VM slice."""
    if wanted.node_type.startswith(_TPUS):
        if wanted.keep_seconds:
            raise PlanError(
                f"{wanted.node_type}: a Cloud TPU VM is deleted with its run; omit --keep-nodes"
            )
        return tpu_requests.node_pool(wanted)
    found = machine(wanted.node_type)
    if found.image_problem and not wanted.has_own_image:
        raise PlanError(f"{wanted.node_type}: {found.image_problem}")
    if wanted.reservation:
        network.parse_reservation(wanted.reservation)
    elif found.sold == "spot" and wanted.market != "spot" and not wanted.flex_start:
        raise PlanError(
            f"{wanted.node_type} is sold as spot or flex-start only; pass --market=spot or"
            " --flex-start, or --reservation=NAME of your own, or choose --accelerator=h100:8, which is sold on demand"
        )
    if wanted.flex_start and wanted.market == "spot":
        raise PlanError(
            "flex-start nodes are never spot; pass --market=on_demand with --flex-start"
        )
    return wanted.pool(
        _LONGEST_POOL,
        queued=_is_queued(wanted),
        identity={
            "iam.gke.io/gcp-service-account": names.account_email(
                names.TRAINER_ACCOUNT, names.PROJECT
            )
        },
        fees=_fees(found, internal_ips=wanted.internal_ips),
        notes=_notes(wanted, found),
    )


def _notes(wanted: NodePoolRequest, found: Machine) -> tuple[str, ...]:
    notes: tuple[str, ...] = (network.NO_ADDRESSES,) if wanted.internal_ips else ()
    if wanted.reservation:
        notes += (billed_by_reservation(wanted.reservation),)
    if _is_queued(wanted):
        notes += (_LATE,)
    if wanted.nodes > 1 and found.network:
        return (*notes, unused_network(wanted, found.network))
    return notes


def _is_queued(wanted: NodePoolRequest) -> bool:
    """Whether the nodes are requested together; Google recommends it for several nodes with GPUs."""
    return wanted.flex_start and wanted.nodes > 1


def _fees(found: Machine, *, internal_ips: bool) -> tuple[PoolFee, ...]:
    disks = (
        PoolFee(kind="disk", product=found.disk, quantity=DISK_GIB),
        PoolFee(kind="disk", product=SYSTEM_DISK, quantity=SYSTEM_DISK_GIB, per_node=False),
    )
    if internal_ips:
        return disks
    return (*disks, PoolFee(kind="public_ip"), PoolFee(kind="public_ip", per_node=False))


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the workers with the pool's accelerators, selectors, taints and grace period."""
    if node_pool.engine == "tpu_vm":
        return tpu_requests.workers(workers, node_pool)
    found = machine(node_pool.node_type)
    selector, taints = dict(workers.node_selector), [Toleration(key=RUN)]
    if node_pool.queued:
        selector[_FLEX_LABEL] = "true"
        taints.append(Toleration(key=_QUEUED_TAINT))
    changes: dict[str, Any] = {
        "accelerators_per_node": found.accelerators,
        "node_selector": selector,
        "tolerations": (*workers.tolerations, *taints),
    }
    if node_pool.market == "spot":
        changes["grace_seconds"] = SPOT_GRACE_SECONDS - SYSTEM_GRACE_SECONDS
    return workers.model_copy(update=changes)


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps: bucket, desired state, then cluster, identity and node pool, or TPU VMs."""
    pool, is_own = pool_of(plan), plan.store == store_url(plan.target)
    before = (*((bucket_step(plan.target),) if is_own else ()), desired_state_step(plan))
    if pool.engine == "tpu_vm":
        return (*before, *tpu_requests.steps(plan))
    cluster = (cluster_step(plan), review_step(plan.target), pod_identity_step(plan.target))
    return (*before, *cluster, pool_step(plan, pool))


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the Job that holds the nodes; after its deadline the autoscaler removes them."""
    return (hold_step(plan),)


__all__ = ["keep_steps", "node_pool", "setup_steps", "steps", "store_url", "target", "workers"]
