"""The GCP planner: targets, node pools and the requests of a plan. Pure, needs no SDK.

Fields of clusters and pools: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1
(revision 20261027, whose discovery document the tests check the bodies against).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.clouds import CLUSTER
from cloudgan.core.errors import ConfigError, PlanError
from cloudgan.core.labels import RUN, SHARED, derived_name
from cloudgan.launch.backends.kubernetes.permissions import review_step
from cloudgan.launch.backends.tpu_vm import requests as tpu_requests
from cloudgan.launch.clouds.gcp import network, reservations
from cloudgan.launch.clouds.gcp.addresses import (
    CHANNEL,
    CLUSTER_LOCATION,
    LOCATION,
    NO_CHANNEL,
    NODES_ACCOUNT,
    PROJECT,
    RELEASE_CHANNEL,
    TRAINER_ACCOUNT,
    ZONE,
    account_email,
    clusters,
)
from cloudgan.launch.clouds.gcp.machines import GPU, machine
from cloudgan.launch.clouds.gcp.prerequisites import (
    pod_identity_step,
    prerequisite_steps,
    setup_steps,
    store_url,
)
from cloudgan.launch.clouds.planner import billed_by_reservation, unused_network
from cloudgan.launch.kubernetes.manifests import hold_step
from cloudgan.schema.plan import (
    NODE_ADDRESSES,
    NODE_DISKS,
    NodePool,
    PoolFee,
    Step,
    Target,
    Toleration,
)

if TYPE_CHECKING:
    from cloudgan.launch.clouds.gcp.machines import Machine
    from cloudgan.launch.clouds.planner import NodePoolRequest
    from cloudgan.schema.plan import Plan, Workers

NAMESPACE = SERVICE_ACCOUNT = "cloudgan"
SYSTEM_NODE = "e2-medium"
SPOT_GRACE_SECONDS, SYSTEM_GRACE_SECONDS = 120, 15
"""Shutdown grace of a spot node, and the part of it that system pods use."""
_LONGEST_POOL = 40
_TPUS = ("v2-", "v3-", "v4-", "v5litepod-", "v5p-", "v6e-")
"""Slices of Cloud TPU VMs. TPU pods on GKE need a higher limit of locked memory than containers may set
without privileges (https://cloud.google.com/tpu/docs/tpus-in-gke and
https://github.com/marin-community/marin/issues/3871, read 2026-11-25), and pods of runs have none."""
_DISK_GIB, _SYSTEM_DISK_GIB, _SYSTEM_DISK = 100, 32, "pd-standard"
_SPARE_SECONDS = 1800
"""Time for node start, driver installation and image pulls."""
_LONGEST_SECONDS = 120 * 24 * 3600
_LONGEST_FLEX_SECONDS = 7 * 24 * 3600
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


_QUEUED_TAINT = "cloud.google.com/gke-queued"
_FLEX_LABEL = "cloud.google.com/gke-flex-start"
"""GKE sets taint and label: see `_flex_start`."""
_LATE = (
    "all flex-start nodes start at once; if that is after the deadline of the job, they bill for about ten"
    " minutes. A node that is lost is not replaced: the other workers wait for it until the deadline"
)


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target: one zone of a region.

    Raises:
        ConfigError: The zone is in another region, or a name cannot be one.
    """
    if zone and not zone.startswith(f"{region}-"):
        raise ConfigError(
            f"--zone={zone} is not in {region}, the region of this offer; pass --region="
            f"{zone.rpartition('-')[0]}, or omit --zone"
        )
    return Target.of_flags(
        provider="gcp",
        account=account or PROJECT,
        region=region,
        zone=zone or ZONE,
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        cluster=cluster or CLUSTER,
        details={LOCATION: CLUSTER_LOCATION, CHANNEL: RELEASE_CHANNEL}
        if cluster
        else {LOCATION: zone or ZONE},
    )


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node pool, or the TPU VM slice.

    Raises:
        PlanError: Google Cloud, or TensorFlow on it, cannot serve the request.
    """
    if wanted.node_type.startswith(_TPUS):
        if wanted.keep_seconds:
            raise PlanError(
                f"{wanted.node_type}: a Cloud TPU VM is deleted with its run; omit --keep-nodes"
            )
        return tpu_requests.node_pool(wanted)
    found = machine(wanted.node_type)
    if found.kind.needs_own_image and not wanted.has_own_image:
        raise PlanError(f"{wanted.node_type}: {found.kind.needs_own_image}")
    if wanted.reservation:
        reservations.parse(wanted.reservation)
    elif not found.is_on_demand and wanted.market != "spot" and not wanted.flex_start:
        raise PlanError(
            f"{wanted.node_type} is sold as spot or flex-start only; pass --market=spot or"
            " --flex-start, or --reservation=NAME of your own, or choose --accelerator=h100:8, which is sold on demand"
        )
    if wanted.flex_start and wanted.market == "spot":
        raise PlanError(
            "flex-start nodes are never spot; pass --market=on_demand with --flex-start"
        )
    return NodePool(
        node_type=wanted.node_type,
        market=wanted.market,
        name=derived_name(wanted.run, wanted.spec_hash, _LONGEST_POOL),
        flex_start=wanted.flex_start,
        queued=_is_queued(wanted),
        reservation=wanted.reservation,
        keep_cluster=wanted.keep_cluster,
        keep_seconds=wanted.keep_seconds,
        served_runs=wanted.served_runs,
        identity={"iam.gke.io/gcp-service-account": account_email(TRAINER_ACCOUNT, PROJECT)},
        fees=_fees(found, internal_ips=wanted.internal_ips),
        notes=_notes(wanted, found),
    )


def _notes(wanted: NodePoolRequest, found: Machine) -> tuple[str, ...]:
    notes: tuple[str, ...] = (network.NO_ADDRESSES,) if wanted.internal_ips else ()
    if wanted.reservation:
        notes += (billed_by_reservation(wanted.reservation),)
    if _is_queued(wanted):
        notes += (_LATE,)
    if wanted.nodes > 1 and found.has_unused_network:
        return (*notes, unused_network(wanted, "GPUDirect"))
    return notes


def _is_queued(wanted: NodePoolRequest) -> bool:
    """Whether the nodes are requested together; Google recommends it for several nodes with GPUs."""
    return wanted.flex_start and wanted.nodes > 1


def _fees(found: Machine, *, internal_ips: bool) -> tuple[PoolFee, ...]:
    disks = (
        PoolFee(name=NODE_DISKS, kind="disk", product=found.disk_type, quantity=_DISK_GIB),
        PoolFee(
            name="disk of the system node",
            kind="disk",
            product=_SYSTEM_DISK,
            quantity=_SYSTEM_DISK_GIB,
            per_node=False,
        ),
    )
    if internal_ips:
        return disks
    return (
        *disks,
        PoolFee(name=NODE_ADDRESSES, kind="public_ip"),
        PoolFee(name="address of the system node", kind="public_ip", per_node=False),
    )


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
        "resource": GPU,
        "node_selector": selector,
        "tolerations": (*workers.tolerations, *taints),
    }
    if node_pool.market == "spot":
        changes["grace_seconds"] = SPOT_GRACE_SECONDS - SYSTEM_GRACE_SECONDS
    return workers.model_copy(update=changes)


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps: bucket, desired state, then cluster, identity and node pool, or TPU VMs."""
    assert plan.node_pool is not None  # noqa: S101  plans of clouds have one
    before = prerequisite_steps(plan)
    if plan.node_pool.engine == "tpu_vm":
        return (*before, *tpu_requests.steps(plan))
    identity = pod_identity_step(plan.target)
    cluster = (_cluster_step(plan), review_step(plan.target))
    return (*before, *cluster, identity, _pool_step(plan, plan.node_pool))


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the Job that holds the nodes; after its deadline the autoscaler removes them."""
    return (hold_step(plan),)


def _cluster_step(plan: Plan) -> Step:
    project, name = plan.target.account or PROJECT, plan.target.cluster or CLUSTER
    path = clusters(project, plan.target.details.get(LOCATION, ZONE))
    return Step(
        ensure=f"cluster {name}",
        method="POST",
        path=path,
        find=f"{path}/{name}",
        at="cloud",
        body={"cluster": cluster_body(name, project, plan.target)},
    )


def _pool_step(plan: Plan, node_pool: NodePool) -> Step:
    cluster = _cluster_step(plan).find
    machine_type = machine(node_pool.node_type).machine_type
    nodes = "flex-start nodes" if node_pool.flex_start else f"{plan.workers.nodes} nodes"
    return Step(
        ensure=f"pool {node_pool.name} of {nodes} {machine_type}",
        method="POST",
        path=f"{cluster}/nodePools",
        find=f"{cluster}/nodePools/{node_pool.name}",
        at="cloud",
        body={"nodePool": pool_body(plan, node_pool)},
    )


def cluster_body(name: str, project: str, target: Target) -> dict[str, Any]:
    """Returns a low-cost cluster: one small system node, no paid add-ons."""
    # Required to enforce the runs' network policies.
    config: dict[str, Any] = {"datapathProvider": "ADVANCED_DATAPATH"}
    if network.is_internal(target):
        config["defaultEnablePrivateNodes"] = True
    return network.cluster_fields(target) | {
        "name": name,
        "description": "created by cloudgan, which deletes it after its last run",
        "resourceLabels": {SHARED: "cluster"},
        "releaseChannel": {"channel": "REGULAR"},
        "ipAllocationPolicy": {"useIpAliases": True},
        "networkConfig": config,
        "workloadIdentityConfig": {"workloadPool": f"{project}.svc.id.goog"},
        "costManagementConfig": {"enabled": True},
        "loggingConfig": {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
        "monitoringConfig": {
            "componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]},
            "managedPrometheusConfig": {"enabled": False},
        },
        "nodePools": [
            {
                "name": "system",
                "initialNodeCount": 1,
                # A second node only if the system pods do not fit on one.
                "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": 2},
                "config": _node(SYSTEM_NODE, project, {SHARED: "cluster"})
                | {"diskType": _SYSTEM_DISK, "diskSizeGb": _SYSTEM_DISK_GIB},
            }
        ],
    }


def pool_body(plan: Plan, node_pool: NodePool) -> dict[str, Any]:
    """Returns the run's node pool.

    Two settings end its nodes without the launcher. The autoscaler scales to zero once no pod needs
    a node. `maxRunDuration` ends each machine whatever it runs; nodes that the pool creates after
    that have no pod, since the job's deadline has passed, and the autoscaler removes them too. Both
    are required.

    Raises:
        PlanError: The run may outlive flex-start nodes.
    """
    found, nodes = machine(node_pool.node_type), plan.workers.nodes
    config = _node(found.machine_type, plan.target.account or "", plan.labels().as_dict()) | {
        "diskType": found.disk_type,
        "diskSizeGb": _DISK_GIB,
        "labels": plan.labels().as_dict(),
        "taints": [{"key": "cloudgan-run", "value": plan.run, "effect": "NO_SCHEDULE"}],
        "maxRunDuration": f"{_life_seconds(plan, node_pool)}s",
        "accelerators": [_accelerator(found)],
    }
    if node_pool.market == "spot":
        config["spot"] = True
        config["kubeletConfig"] = {
            "shutdownGracePeriodSeconds": SPOT_GRACE_SECONDS,
            "shutdownGracePeriodCriticalPodsSeconds": SYSTEM_GRACE_SECONDS,
        }
    if node_pool.reservation:
        config["reservationAffinity"] = reservations.affinity(node_pool.reservation)
    body: dict[str, Any] = {
        "name": node_pool.name,
        "initialNodeCount": nodes,
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": nodes},
        "locations": [plan.target.zone],
        "config": config,
    }
    if network.is_internal(plan.target):
        body["networkConfig"] = {"enablePrivateNodes": True}
    body |= _without_upgrades(plan.target)
    return _flex_start(body, node_pool) if node_pool.flex_start else body


def _without_upgrades(target: Target) -> dict[str, Any]:
    """Returns the fields by which GKE does not upgrade, and so drain, the nodes of a run.

    In a release channel automatic upgrades cannot be switched off (https://github.com/nkoson/gke-tutorial/issues/8);
    the pool excludes them until its version is out of support (discovery document of container.v1, revision
    20261027; https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/pull/2655, both
    read 2026-11-25). So it holds for any length of a run, in a cluster of the user too.
    """
    if target.details.get(CHANNEL) == NO_CHANNEL:
        return {"management": {"autoRepair": True, "autoUpgrade": False}}
    return {"maintenancePolicy": {"exclusionUntilEndOfSupport": {"enabled": True}}}


def _flex_start(body: dict[str, Any], node_pool: NodePool) -> dict[str, Any]:
    """Returns a pool of flex-start nodes, which start empty and grow for waiting pods.

    The fields translate gcloud's flags to container.v1, also for a pool that grows only by a
    ProvisioningRequest, whose parameter `maxRunDurationSeconds` ends its nodes:
    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest (as of 2026-04-08, read
    2026-11-23). GKE adds the taint cloud.google.com/gke-queued to such a pool.
    """
    if node_pool.queued:
        config = {name: one for name, one in body["config"].items() if name != "maxRunDuration"}
        body = body | {"queuedProvisioning": {"enabled": True}, "config": config}
    return body | {
        "initialNodeCount": 0,
        "autoscaling": body["autoscaling"] | {"locationPolicy": "ANY"},
        "management": {"autoRepair": False, "autoUpgrade": True},
        "config": body["config"]
        | {"flexStart": True, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}},
    }


def _node(machine_type: str, project: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "machineType": machine_type,
        "serviceAccount": account_email(NODES_ACCOUNT, project),
        "oauthScopes": list(_SCOPES),
        "resourceLabels": labels,
        # Pods use their own identity, never the node's.
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }


def _accelerator(found: Machine) -> dict[str, Any]:
    """Returns the GPUs with the node image's default driver; newer ones dropped P100 and V100."""
    return {
        "acceleratorType": found.kind.name,
        "acceleratorCount": str(found.accelerators),
        "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
    }


def _life_seconds(plan: Plan, node_pool: NodePool) -> int:
    """Returns a node's maximum lifetime: gang timeout, job deadline and a margin.

    Nodes that wait for a next run live for its deadline too.
    """
    limits = plan.limits
    jobs = (limits.deadline_seconds + node_pool.keep_seconds) * node_pool.served_runs
    wanted = int(jobs + limits.gang_timeout_seconds + _SPARE_SECONDS)
    if node_pool.flex_start and wanted > _LONGEST_FLEX_SECONDS:
        hours = (_LONGEST_FLEX_SECONDS - limits.gang_timeout_seconds - _SPARE_SECONDS) // 3600
        raise PlanError(
            f"flex-start nodes end after 7 days, and this run may take"
            f" {limits.deadline_seconds / 3600:.0f} h; pass --max-hours={hours:.0f}, or omit"
            " --flex-start"
        )
    return min(wanted, _LONGEST_SECONDS)


__all__ = ["keep_steps", "node_pool", "setup_steps", "steps", "store_url", "target", "workers"]
