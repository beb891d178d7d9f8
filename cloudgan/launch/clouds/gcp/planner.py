"""The GCP planner: targets, node pools, the requests of a plan and of `setup`. Pure, needs no SDK.

Fields of clusters and pools: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1
(revision 20261027, whose discovery document the tests check the bodies against).
"""

from __future__ import annotations

from typing import Any, Final

from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.durations import DAY_SECONDS, HOUR_SECONDS
from cloudgan.core.errors import ConfigError, PlanError, counted
from cloudgan.core.labels import RUN, SHARED
from cloudgan.core.machines import Machine
from cloudgan.launch.backends.kubernetes.checks import review_step
from cloudgan.launch.backends.tpu_vm import requests as tpu_requests
from cloudgan.launch.clouds.gcp import iam, kinds, names, network
from cloudgan.launch.clouds.gcp.machines import host_of, machine, topology_of
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
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

APIS = (
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
    "tpu.googleapis.com",
)
"""APIs that runs use."""
NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""Roles of nodes: write metrics and logs, pull the project's images."""
TPU_ROLES = ("roles/tpu.admin", "roles/artifactregistry.reader")
"""Roles of TPU VMs: delete themselves, pull the project's images. Google has no smaller role for the
first, and documents no permissions of queued resources for a custom role."""
STORE_ROLE = "roles/storage.objectUser"
IDENTITY_ROLE = "roles/iam.workloadIdentityUser"
SYSTEM_NODE: Final = "e2-medium"
SPOT_GRACE_SECONDS, SYSTEM_GRACE_SECONDS = 120, 15
"""Shutdown grace of a spot node, and the part of it that system pods use."""
DISK_GIB, SYSTEM_DISK_GIB, SYSTEM_DISK = 100, 32, "pd-standard"
_SPARE_SECONDS: Final = 1800
"""Time for node start, driver installation and image pulls."""
_LONGEST_SECONDS: Final = 120 * DAY_SECONDS
_LONGEST_FLEX_SECONDS: Final = 7 * DAY_SECONDS
_LONGEST_POOL = 40
_TPUS = ("v2-", "v3-", "v4-", "v5litepod-", "v5p-", "v6e-")
"""Slices of Cloud TPU VMs."""
_TPU_LABEL = "cloud.google.com/gke-tpu-"
"""GKE sets such labels of accelerator and topology, the taint google.com/tpu, and in pods of a headless Service that
select both TPU_WORKER_ID and TPU_WORKER_HOSTNAMES. From GKE 1.28 on they need neither privileges nor capabilities
("About TPUs in GKE", https://docs.cloud.google.com/kubernetes-engine/docs/concepts/tpus, of 2026-04-08, read
2026-11-30). Fields of a pool: discovery document of container.v1; a pool of one node has no topology
(https://github.com/AI-Hypercomputer/xpk/issues/825)."""
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
    if found.topologies:
        _check_slice(wanted, found)
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


def _check_slice(wanted: NodePoolRequest, found: Machine) -> None:
    """Refuses TPU nodes in a number that is no slice, and what is not built for them."""
    topology_of(found, wanted.nodes)
    asked = {
        "--flex-start": wanted.flex_start,
        "--reservation": wanted.reservation,
        "--keep-nodes": wanted.keep_seconds,
    }
    if given := " and ".join(flag for flag, value in asked.items() if value):
        raise PlanError(
            f"{given}: not built for TPU nodes of GKE such as {found.node_type}; omit it, or use a Cloud TPU VM:"
            f" `cloudgan offers --accelerator={found.accelerator.lower()}`"
        )


def _notes(wanted: NodePoolRequest, found: Machine) -> tuple[str, ...]:
    notes: tuple[str, ...] = (network.NO_ADDRESSES,) if wanted.internal_ips else ()
    if _is_queued(wanted):
        notes += (_LATE,)
    return notes + unused_network(wanted, found.network)


def _is_queued(wanted: NodePoolRequest) -> bool:
    """Whether the nodes are requested together; Google recommends it for several nodes with GPUs."""
    return wanted.flex_start and wanted.nodes > 1


def _fees(found: Machine, *, internal_ips: bool) -> tuple[PoolFee, ...]:
    disks = (
        PoolFee(kind="disk", product=found.disk, quantity=DISK_GIB),
        PoolFee(kind="disk", product=SYSTEM_DISK, quantity=SYSTEM_DISK_GIB, per_node=False),
    )
    if internal_ips:
        return (*disks, network.NAT)
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
    resource = workers.resource
    if found.topologies:
        resource = tpu_requests.RESOURCE
        selector[f"{_TPU_LABEL}accelerator"] = found.cloud_accelerator
        selector[f"{_TPU_LABEL}topology"] = topology_of(found, workers.nodes)
        taints.append(Toleration(key=resource))
    changes: dict[str, Any] = {
        "accelerators_per_node": found.accelerators,
        "resource": resource,
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
    if machine(pool.node_type).topologies and not plan.config.uses_jax:
        raise PlanError(
            f"{pool.node_type}: TPU nodes of GKE train with JAX only; give -- train --engine=jax, or a Cloud TPU VM"
            " such as --accelerator=v5litepod-4"
        )
    cluster = (cluster_step(plan), review_step(plan.target), pod_identity_step(plan.target))
    return (*before, *cluster, pool_step(plan, pool))


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the Job that holds the nodes; after its deadline the autoscaler removes them."""
    return (hold_step(plan),)


def store_url(target: Target) -> str:
    """Returns the URL of the project's bucket in a target's region."""
    return f"gs://{names.bucket_name(target.account or names.PROJECT, target.region or '')}"


def bucket_step(target: Target) -> Step:
    """Returns the step for the bucket: public access prevention, in the nodes' region."""
    project, region = target.account or names.PROJECT, target.region or ""
    name = names.bucket_name(project, region)
    body = {
        "name": name,
        "location": region.upper(),
        "storageClass": "STANDARD",
        "labels": {SHARED: "bucket"},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
        # Soft delete would bill each replaced checkpoint for seven more days.
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
    }
    path = f"{names.STORAGE}/b?project={project}"
    return kinds.BUCKET.step(f"bucket {name}", {"name": name}, path, body)


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the steps of `cloudgan setup`; all are idempotent.

    A binding step adds its members to the existing policy and removes none.
    """
    project, region = target.account or names.PROJECT, target.region or ""
    nodes = names.account_email(names.NODES_ACCOUNT, project)
    trainer, tpu = (
        names.account_email(name, project) for name in (names.TRAINER_ACCOUNT, names.TPU_ACCOUNT)
    )
    bucket = names.bucket_name(project, region)
    services = f"{names.SERVICES}/projects/{project}/services:batchEnable"
    accounts = {
        names.NODES_ACCOUNT: "nodes of cloudgan runs",
        names.TRAINER_ACCOUNT: "training pods of cloudgan runs",
        names.TPU_ACCOUNT: "TPU VMs of cloudgan runs",
    }
    titles = ", ".join(name.partition(".")[0] for name in APIS)
    return (
        kinds.APIS.step(f"APIs {titles}", {}, services, {"serviceIds": list(APIS)}),
        *(_account(project, name, description) for name, description in accounts.items()),
        bucket_step(target),
        *(
            _binding("project", project, project, role, f"serviceAccount:{email}")
            for email, roles in ((nodes, NODE_ROLES), (tpu, TPU_ROLES))
            for role in roles
        ),
        _binding("bucket", bucket, project, STORE_ROLE, f"serviceAccount:{trainer}"),
        _binding("bucket", bucket, project, STORE_ROLE, f"serviceAccount:{tpu}"),
    )


def pod_identity_step(target: Target) -> Step:
    """Returns the step that lets pods act as the trainer's service account.

    It follows the cluster: GKE creates the project's identity pool with the first cluster that has
    workload identity, and IAM refuses members of a pool that does not exist
    (https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916 and
    https://github.com/jenkins-x/jx/issues/7627, read 2026-11-22).
    """
    project = target.account or names.PROJECT
    trainer = names.account_email(names.TRAINER_ACCOUNT, project)
    pods = f"serviceAccount:{project}.svc.id.goog[{NAMESPACE}/{SERVICE_ACCOUNT}]"
    return _binding("account", trainer, project, IDENTITY_ROLE, pods)


def _account(project: str, name: str, description: str) -> Step:
    account = {"displayName": name, "description": description}
    body = {"accountId": name, "serviceAccount": account}
    path = f"{names.IAM}/projects/{project}/serviceAccounts"
    ref = {"name": names.account_email(name, project)}
    return kinds.ACCOUNT.step(f"service account {name}", ref, path, body)


def _binding(of: str, name: str, project: str, role: str, member: str) -> Step:
    row, policy = iam.POLICIES[of], {"bindings": [{"role": role, "members": [member]}]}
    method, end = row.write
    account = member.partition(":")[2].partition("@")[0]
    return kinds.BINDING.step(
        f"{role} on {name} for {account}",
        {"of": of, "name": name},
        f"{row.url.format(project=project, name=name)}{end}",
        {"policy": policy} if row.is_wrapped else policy,
        method,
    )


def _cluster_ref(plan: Plan) -> dict[str, str]:
    return {
        "project": plan.target.account or names.PROJECT,
        "location": plan.target.details.get(LOCATION, names.ZONE),
        "cluster": plan.target.cluster or CLUSTER,
    }


def cluster_step(plan: Plan) -> Step:
    """Returns the step for the cluster."""
    ref = _cluster_ref(plan)
    body = {"cluster": cluster_body(ref["cluster"], ref["project"], plan.target)}
    path = names.clusters(ref["project"], ref["location"])
    return kinds.CLUSTER.step(f"cluster {ref['cluster']}", ref, path, body)


def pool_step(plan: Plan, node_pool: NodePool) -> Step:
    """Returns the step for the run's node pool."""
    ref, machine_type = _cluster_ref(plan), host_of(machine(node_pool.node_type))
    nodes = "flex-start nodes" if node_pool.flex_start else counted(plan.workers.nodes, "node")
    return kinds.POOL.step(
        f"pool {node_pool.name} of {nodes} {machine_type}",
        ref | {"name": node_pool.name},
        f"{names.clusters(ref['project'], ref['location'])}/{ref['cluster']}/nodePools",
        {"nodePool": pool_body(plan, node_pool)},
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
                | {"diskType": SYSTEM_DISK, "diskSizeGb": SYSTEM_DISK_GIB},
            }
        ],
    }


def pool_body(plan: Plan, node_pool: NodePool) -> dict[str, Any]:
    """Returns the run's node pool.

    Two settings end its nodes without the launcher. The autoscaler scales to zero once no pod needs
    a node. `maxRunDuration` ends each machine whatever it runs; nodes that the pool creates after
    that have no pod, since the job's deadline has passed, and the autoscaler removes them too. Both
    are required.
    """
    found, nodes = machine(node_pool.node_type), plan.workers.nodes
    config = _node(host_of(found), plan.target.account or "", plan.labels().as_dict()) | {
        "diskType": found.disk,
        "diskSizeGb": DISK_GIB,
        "labels": plan.labels().as_dict(),
        "taints": [{"key": "cloudgan-run", "value": plan.run, "effect": "NO_SCHEDULE"}],
        "maxRunDuration": f"{_life_seconds(plan, node_pool)}s",
    }
    if not found.topologies:  # the machine type of TPUs says which it has
        config["accelerators"] = [
            {
                "acceleratorType": found.cloud_accelerator,
                "acceleratorCount": str(found.accelerators),
                # Of the node image; newer ones dropped P100 and V100.
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
            }
        ]
    if node_pool.market == "spot":
        config["spot"] = True
        config["kubeletConfig"] = {
            "shutdownGracePeriodSeconds": SPOT_GRACE_SECONDS,
            "shutdownGracePeriodCriticalPodsSeconds": SYSTEM_GRACE_SECONDS,
        }
    if node_pool.reservation:
        config["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [node_pool.reservation],
        }
    body: dict[str, Any] = {
        "name": node_pool.name,
        "initialNodeCount": nodes,
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": nodes},
        "locations": [plan.target.zone],
        "config": config,
    }
    if found.topologies and nodes > 1:
        topology = topology_of(found, nodes)
        body["placementPolicy"] = {"type": "COMPACT", "tpuTopology": topology}
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
    if target.details.get(names.CHANNEL) == names.NO_CHANNEL:
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
        "serviceAccount": names.account_email(names.NODES_ACCOUNT, project),
        "oauthScopes": [names.SCOPE],
        "resourceLabels": labels,
        # Pods use their own identity, never the node's.
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }


def _life_seconds(plan: Plan, node_pool: NodePool) -> int:
    """Returns a node's maximum lifetime: gang timeout, job deadline and a margin.

    Nodes that wait for a next run live for its deadline too.
    """
    limits = plan.limits
    jobs = (limits.deadline_seconds + node_pool.keep_seconds) * node_pool.served_runs
    wanted = int(jobs + limits.gang_timeout_seconds + _SPARE_SECONDS)
    if node_pool.flex_start and wanted > _LONGEST_FLEX_SECONDS:
        hours = (
            _LONGEST_FLEX_SECONDS - limits.gang_timeout_seconds - _SPARE_SECONDS
        ) // HOUR_SECONDS
        raise PlanError(
            f"flex-start nodes end after 7 days, and this run may take"
            f" {limits.deadline_seconds / HOUR_SECONDS:.0f} h; pass --max-hours={hours:.0f}, or omit"
            " --flex-start"
        )
    return min(wanted, _LONGEST_SECONDS)
