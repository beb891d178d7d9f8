"""What is true of Google Cloud without asking it: places, machines, and the requests of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.core.labels import RUN, derived_name
from cloudgan.core.plan import Place, Rental, Step, Toleration
from cloudgan.providers.gcp import tpu_requests
from cloudgan.providers.gcp.addresses import (
    TRAINER_ACCOUNT,
    account_email,
    clusters,
)
from cloudgan.providers.gcp.ground import (
    CLUSTER_LOCATION,
    LOCATION,
    PROJECT,
    ZONE,
    ground_steps,
    store,
)
from cloudgan.providers.gcp.machines import GPU, TPU, machine
from cloudgan.providers.gcp.pools import (
    SPOT_GRACE_SECONDS,
    SYSTEM_GRACE_SECONDS,
    cluster_body,
    pool_body,
)
from cloudgan.providers.gcp.setup_requests import setup_steps

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Workers
    from cloudgan.providers.clouds import Wanted

CLUSTER = "cloudgan"
NAMESPACE = "cloudgan"
SERVICE_ACCOUNT = "cloudgan"
_LONGEST_POOL = 40
_TPU_VMS = ("v2-", "v3-", "v4-", "v5p-")
_EITHER = ("v5litepod-", "v6e-")


def place(account: str | None, region: str, zone: str | None, cluster: str | None) -> Place:
    """Returns a place: one zone of a region.

    Raises:
        ConfigError: The zone is in another region.
    """
    if zone and not zone.startswith(f"{region}-"):
        raise ConfigError(
            f"--zone={zone} is not in {region}, where this offer is; give --region="
            f"{zone.rpartition('-')[0]}, or leave --zone out"
        )
    return Place(
        provider="gcp",
        account=account or PROJECT,
        region=region,
        zone=zone or ZONE,
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        cluster=cluster or CLUSTER,
        details={LOCATION: CLUSTER_LOCATION if cluster else zone or ZONE},
    )


def rental(wanted: Wanted) -> Rental:
    """Returns what is rented.

    TPUs without an image are TPU VMs: in Kubernetes they need one that has TensorFlow for TPUs.

    Raises:
        PlanError: Google Cloud, or TensorFlow on it, cannot serve it.
    """
    if _is_tpu_vm(wanted):
        return tpu_requests.rental(wanted)
    kind = machine(wanted.node_type)
    if kind.kind.needs_own_image and not wanted.has_own_image:
        raise PlanError(f"{wanted.node_type}: {kind.kind.needs_own_image}")
    if kind.resource == TPU and wanted.nodes > 1:
        raise PlanError(
            f"{wanted.nodes} nodes of {wanted.node_type}: TensorFlow trains on one TPU slice, not"
            " on several; give --nodes=1 and a larger one"
        )
    if not kind.is_on_demand and wanted.market != "spot" and not wanted.flex_start:
        raise PlanError(
            f"{wanted.node_type} is sold as spot or flex-start only; give --spot=always or"
            " --flex_start, or take 8 GPUs a node"
        )
    if wanted.flex_start and wanted.market == "spot":
        raise PlanError("flex-start nodes are never spot; give --spot=never with --flex_start")
    return Rental(
        node_type=wanted.node_type,
        market=wanted.market,
        pool=derived_name(wanted.run, wanted.spec, _LONGEST_POOL),
        flex_start=wanted.flex_start,
        keep_cluster=wanted.keep_cluster,
        identity={"iam.gke.io/gcp-service-account": account_email(TRAINER_ACCOUNT, PROJECT)},
    )


def workers(workers: Workers, rental: Rental) -> Workers:
    """Returns the workers as nodes of this kind take them."""
    if rental.engine == "tpu_vm":
        return tpu_requests.workers(workers, rental)
    kind = machine(rental.node_type)
    selector, taints = dict(workers.node_selector), [Toleration(key=RUN)]
    if kind.resource == TPU:
        selector["cloud.google.com/gke-tpu-accelerator"] = kind.kind.name
        selector["cloud.google.com/gke-tpu-topology"] = kind.topology
        taints.append(Toleration(key=TPU))
    changes: dict[str, Any] = {
        "accelerators_per_node": kind.accelerators,
        "resource": kind.resource,
        "node_selector": selector,
        "tolerations": (*workers.tolerations, *taints),
    }
    if rental.market == "spot":
        changes["grace_seconds"] = SPOT_GRACE_SECONDS - SYSTEM_GRACE_SECONDS
    return workers.model_copy(update=changes)


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the bucket, the intent, and then cluster and nodes, or TPU VMs."""
    assert plan.rental is not None  # noqa: S101  plans of clouds rent something
    ground = ground_steps(plan)
    if plan.rental.engine == "tpu_vm":
        return (*ground, *tpu_requests.steps(plan))
    return (*ground, _cluster_step(plan), _pool_step(plan, plan.rental))


def _cluster_step(plan: Plan) -> Step:
    project, name = plan.place.account or PROJECT, plan.place.cluster or CLUSTER
    path = clusters(project, plan.place.details.get(LOCATION, ZONE))
    return Step(
        ensure=f"cluster {name}",
        method="POST",
        path=path,
        find=f"{path}/{name}",
        at="cloud",
        body={"cluster": cluster_body(name, project)},
    )


def _pool_step(plan: Plan, rental: Rental) -> Step:
    cluster = _cluster_step(plan).find
    kind = machine(rental.node_type)
    pods = "flex-start nodes" if rental.flex_start else f"{plan.workers.nodes} nodes"
    return Step(
        ensure=f"pool {rental.pool} of {pods} {kind.machine_type}",
        method="POST",
        path=f"{cluster}/nodePools",
        find=f"{cluster}/nodePools/{rental.pool}",
        at="cloud",
        body={"nodePool": pool_body(plan, rental)},
    )


def _is_tpu_vm(wanted: Wanted) -> bool:
    name = wanted.node_type
    return name.startswith(_TPU_VMS) or (name.startswith(_EITHER) and not wanted.has_own_image)


__all__ = ["GPU", "place", "rental", "setup_steps", "steps", "store", "workers"]
