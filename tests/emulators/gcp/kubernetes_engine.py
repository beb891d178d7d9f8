"""Kubernetes Engine: clusters, node pools, their operations and constraints."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route
from emulators.nodes import Nodes

Object = dict[str, Any]
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_LABEL = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_OLD_GPUS = ("nvidia-tesla-v100", "nvidia-tesla-p100")
_TPU = "cloud.google.com/gke-tpu-"
_CHIPS = re.compile(r"ct(5lp|5p|6e)-[a-z]+-(\d)t")
_SLICES = {"5lp": "tpu-v5-lite-podslice", "5p": "tpu-v5p-slice", "6e": "tpu-v6e-slice"}
_ONE_HOST = {"1": "1x1", "4": "2x2", "8": "2x4"}
STOCK_OUT = (
    "The zone does not have enough resources available to fulfill the request:"
    " ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
)
_METHODS = "container.projects.locations"
_ACT_AS = "iam.serviceAccounts.actAs"
_PERMISSIONS = {
    "clusters.create": ("container.clusters.create", _ACT_AS),
    # Endpoint and certificate authority are in what container.clusters.get shows, which is why
    # roles/container.clusterViewer suffices for `gcloud container clusters get-credentials`:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl (read 2026-11-22).
    # container.clusters.getCredentials adds the client certificates of old clusters.
    "clusters.get": ("container.clusters.get",),
    "clusters.list": ("container.clusters.list",),
    "clusters.delete": ("container.clusters.delete",),
    "clusters.nodePools.create": ("container.clusters.update", _ACT_AS),
    "clusters.nodePools.get": ("container.clusters.get",),
    "clusters.nodePools.delete": ("container.clusters.update",),
    "operations.get": ("container.operations.get",),
}
"""https://cloud.google.com/kubernetes-engine/docs/reference/api-permissions
(a stored copy read 2026-11-21; that a new pool takes actAs too is assumed, as for its cluster)."""


@dataclass
class Kept:
    """A cluster or a pool, and when it was created."""

    body: Object
    tick: int
    pools: dict[str, Kept] = field(default_factory=dict)


class KubernetesEngine:
    """What exists in one project.

    Attributes:
        operation_ticks: Requests until an operation is done.
        stock_out: Whether no machine is available.
        failure: Error of the next creation after its start; empty: none.
        nodes: Those of all clusters.
        accounts: E-mail addresses of service accounts that exist; None: all do.
        silent_zones: Zones whose clusters are not listed: `missingZones` of container.v1's ListClustersResponse
            (discovery document, revision 20261027).
    """

    def __init__(self, server: GoogleServer) -> None:
        self._server = server
        self.operation_ticks = 2
        self.stock_out, self.failure = False, ""
        self.nodes = Nodes()
        self.version = "1.35.2-gke.100"
        self.accounts: set[str] | None = None
        self.silent_zones: set[str] = set()
        self.clusters: dict[tuple[str, str], Kept] = {}
        self.operations: dict[str, Object] = {}
        self.refuse_reservation: Callable[[Object], None] = lambda pool: None
        self.refuse_network: Callable[[Object, str], None] = lambda asked, zone: None
        self._busy_until = 0
        handlers = {
            "clusters.create": self._create_cluster,
            "clusters.get": lambda call: self._shown(self._cluster(call)),
            "clusters.list": self._list,
            "clusters.delete": self._delete_cluster,
            "clusters.nodePools.create": self._create_pool,
            "clusters.nodePools.get": lambda call: self._pool(call).body,
            "clusters.nodePools.delete": self._delete_pool,
            "operations.get": self._operation,
        }
        server.add({f"{_METHODS}.{k}": Route(handlers[k], _PERMISSIONS[k]) for k in handlers})

    def pools(self) -> list[Object]:
        """Returns all pools but those that clusters were made with."""
        return [
            pool.body
            for cluster in self.clusters.values()
            for name, pool in cluster.pools.items()
            if name != "system"
        ]

    def become_busy(self, ticks: int) -> None:
        """Clusters refuse changes for so many requests, as during an upgrade."""
        self._busy_until = self._server.ticks + ticks

    # Clusters.

    def _create_cluster(self, call: Call) -> Object:
        body, where = call.body["cluster"], call.path["locationsId"]
        name = body.get("name", "")
        _check_name(name)
        if (where, name) in self.clusters:
            raise Refusal(409, f"Already exists: projects/lab/zones/{where}/clusters/{name}.")
        self.refuse_network(body, where)
        for pool in body.get("nodePools", ()):
            self._check_pool(pool)
        made = body | {
            "status": "PROVISIONING",
            "location": where,
            "network": body.get("network", "default"),
            "subnetwork": body.get("subnetwork", "default"),
            "createTime": self._server.moment(),
            "currentMasterVersion": self.version,
        }
        kept = Kept(made, self._server.ticks)
        kept.pools = {
            one["name"]: Kept(one | {"status": "PROVISIONING"}, kept.tick)
            for one in made.pop("nodePools", ())
        }
        self.clusters[where, name] = kept

        def done() -> None:
            made["status"] = "RUNNING"
            made["endpoint"] = self.nodes.url.removeprefix("https://")
            made["masterAuth"] = {"clusterCaCertificate": self.nodes.authority}
            for pool in kept.pools.values():
                pool.body["status"] = "RUNNING"

        def failed(why: str) -> None:
            made["status"] = "ERROR"
            made["conditions"] = [{"canonicalCode": "INTERNAL", "message": why}]
            for pool in kept.pools.values():
                pool.body["status"] = "ERROR"

        return self._start("CREATE_CLUSTER", where, done, failed)

    def _list(self, call: Call) -> Object:
        found = [
            self._shown(one)
            for (where, _), one in self.clusters.items()
            if call.path["locationsId"] in ("-", where) and self._server.is_shown(one.tick)
            if where not in self.silent_zones
        ]
        missing = {"missingZones": sorted(self.silent_zones)} if self.silent_zones else {}
        return ({"clusters": found} if found else {}) | missing

    def _delete_cluster(self, call: Call) -> Object:
        kept, where = self._cluster(call), call.path["locationsId"]
        self._refuse_busy()
        if any(
            one.body["status"] in ("PROVISIONING", "STOPPING")
            for one in (kept, *kept.pools.values())
        ):
            raise _busy("Cluster is running incompatible operation operation-1")
        kept.body["status"] = "STOPPING"

        def gone() -> None:
            for pool in kept.pools.values():
                self._go(pool.body)
            del self.clusters[where, call.path["clustersId"]]

        return self._start("DELETE_CLUSTER", where, gone)

    # Pools.

    def _create_pool(self, call: Call) -> Object:
        cluster, pool = self._cluster(call), call.body["nodePool"]
        where, name = call.path["locationsId"], pool.get("name", "")
        # https://github.com/turbot/steampipe-plugin-gcp/issues/591 (read 2026-11-25)
        if cluster.body.get("autopilot", {}).get("enabled"):
            raise Refusal(400, "Autopilot node pools cannot be accessed or modified.")
        self._check_pool(pool)
        _check_upgrades(pool, cluster.body)
        if name in cluster.pools:
            raise Refusal(409, f"Already exists: node pool {name}.")
        self._refuse_busy()
        if cluster.body["status"] != "RUNNING":
            raise _busy("Operation operation-1 is currently creating cluster")
        group = f"projects/lab/zones/{where}/instanceGroupManagers/gke-{name}-grp"
        made = pool | {
            "status": "PROVISIONING",
            "instanceGroupUrls": [f"https://www.googleapis.com/compute/v1/{group}"],
        }
        cluster.pools[name] = Kept(made, self._server.ticks)

        def done() -> None:
            made["status"] = "RUNNING"
            self._come(made)

        def failed(why: str) -> None:
            made["status"] = "ERROR"
            code = {"code": "GCE_STOCKOUT"} if self.stock_out else {"canonicalCode": "INTERNAL"}
            made["conditions"] = [code | {"message": why}]

        return self._start("CREATE_NODE_POOL", where, done, failed)

    def _come(self, pool: Object) -> None:
        config = pool["config"]
        gpus = sum(int(one["acceleratorCount"]) for one in config.get("accelerators", ()))
        taints = [one | {"effect": "NoSchedule"} for one in config.get("taints", ())]
        if gpus:
            taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
        tpus = {}
        if chips := _CHIPS.search(config["machineType"]):
            # "About TPUs in GKE" (2026-04-08): labels, taint and resource of TPU nodes.
            labels = {f"{_TPU}accelerator": _SLICES[chips[1]], f"{_TPU}topology": _topology(pool)}
            config = config | {"labels": config["labels"] | labels}
            taints.append({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"})
            tpus = {"google.com/tpu": chips[2]}
        for name in _machines(pool):
            self.nodes.come(name, gpus=gpus, labels=config["labels"], taints=taints, amounts=tpus)

    def _go(self, pool: Object) -> None:
        for name in _machines(pool):
            self.nodes.go(name)

    def _delete_pool(self, call: Call) -> Object:
        cluster, pool = self._cluster(call), self._pool(call)
        self._refuse_busy()
        if pool.body["status"] == "PROVISIONING":
            raise _busy("Operation operation-2 is currently creating a node pool")
        pool.body["status"] = "STOPPING"

        def gone() -> None:
            if cluster.pools.pop(call.path["nodePoolsId"], None):
                self._go(pool.body)

        return self._start("DELETE_NODE_POOL", call.path["locationsId"], gone)

    def _check_pool(self, pool: Object) -> None:
        """Refuses bodies that Google refuses although the schema allows them."""
        _check_name(pool.get("name", ""))
        config = pool.get("config", {})
        for key, value in config.get("resourceLabels", {}).items():
            if not _LABEL.fullmatch(key) or not _VALUE.fullmatch(value):
                raise Refusal(400, f"Invalid resource label {key}={value}.")
        email = config.get("serviceAccount", "")
        if self.accounts is not None and email and email not in self.accounts:
            raise Refusal(400, f'Service account "{email}" does not exist.')
        for one in config.get("accelerators", ()):
            driver = one.get("gpuDriverInstallationConfig", {}).get("gpuDriverVersion")
            if one.get("acceleratorType") in _OLD_GPUS and driver == "LATEST":
                raise Refusal(400, f"Driver LATEST does not support {one['acceleratorType']}.")
        _check_slice(pool)
        if "reservationAffinity" in config:
            self.refuse_reservation(pool)
        if config.get("spot") and config.get("flexStart"):
            raise Refusal(400, "flex_start is not supported with spot.")
        if config.get("flexStart") and pool.get("initialNodeCount"):
            raise Refusal(400, "flex_start node pools must have initial node count 0.")
        check_queued(pool)
        grace = config.get("kubeletConfig", {}).get("shutdownGracePeriodSeconds")
        if grace is not None and (not config.get("spot") or grace not in (0, 30, 120)):
            raise Refusal(400, "shutdown_grace_period_seconds is for Spot VMs: 0, 30 or 120.")
        scaling = pool.get("autoscaling", {})
        if scaling.get("maxNodeCount", 1) < max(1, scaling.get("minNodeCount", 0)):
            raise Refusal(400, "max_node_count must be >= min_node_count.")

    # All.

    def _start(
        self,
        kind: str,
        where: str,
        done: Callable[[], None],
        failed: Callable[[str], None] = lambda why: None,
    ) -> Object:
        name = f"operation-{len(self.operations) + 1}"
        operation = {"name": name, "operationType": kind, "status": "RUNNING", "location": where}
        self.operations[name] = operation
        why = ""
        if kind.startswith("CREATE"):
            why, self.failure = self.failure, ""
        if kind == "CREATE_NODE_POOL" and self.stock_out:
            why = STOCK_OUT

        def end() -> None:
            operation["status"] = "DONE"
            if why:
                operation["error"] = {"code": 8, "message": why}
                failed(why)
            else:
                done()

        self._server.later(self.operation_ticks, end)
        return dict(operation)

    def _operation(self, call: Call) -> Object:
        found = self.operations.get(call.path["operationsId"])
        if found is None:
            raise Refusal(404, "Not found: operation.")
        return found

    def _cluster(self, call: Call) -> Kept:
        found = self.clusters.get((call.path["locationsId"], call.path["clustersId"]))
        if found is None or not self._server.is_shown(found.tick):
            raise Refusal(404, f"Not found: clusters/{call.path['clustersId']}.")
        return found

    def _pool(self, call: Call) -> Kept:
        found = self._cluster(call).pools.get(call.path["nodePoolsId"])
        if found is None or not self._server.is_shown(found.tick):
            raise Refusal(404, f"Not found: nodePools/{call.path['nodePoolsId']}.")
        return found

    def _shown(self, kept: Kept) -> Object:
        pools = [one.body for one in kept.pools.values() if self._server.is_shown(one.tick)]
        return kept.body | ({"nodePools": pools} if pools else {})

    def _refuse_busy(self) -> None:
        if self._server.ticks < self._busy_until:
            raise _busy("Operation operation-0 is currently upgrading cluster")


def _machines(pool: Object) -> list[str]:
    return [f"gke-{pool['name']}-{number}" for number in range(pool.get("initialNodeCount", 0))]


def _busy(why: str) -> Refusal:
    text = f"{why}. Please wait and try again once it is done."
    return Refusal(400, text, "FAILED_PRECONDITION")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refusal(400, f"Invalid name {name!r}: at most 40 characters, [a-z0-9-].")


def _check_upgrades(pool: Object, cluster: Object) -> None:
    """Refuses node upgrades that are switched off in a release channel, or excluded outside of one.

    The first: https://github.com/nkoson/gke-tutorial/issues/8 (read 2026-11-25). The second is assumed: all
    exclusions of minor or node upgrades are of clusters in a channel
    (https://cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions).
    """
    has_channel = cluster.get("releaseChannel", {}).get("channel", "UNSPECIFIED") != "UNSPECIFIED"
    if has_channel and not pool.get("management", {}).get("autoUpgrade", True):
        raise Refusal(400, "Auto_upgrade must be true when release_channel is set.")
    excluded = pool.get("maintenancePolicy", {}).get("exclusionUntilEndOfSupport", {})
    if excluded.get("enabled") and not has_channel:
        raise Refusal(400, "A maintenance exclusion of this scope needs a release channel.")


def check_queued(pool: Object) -> None:
    """Refuses a pool with queued provisioning that Google's page does not describe.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest (as of 2026-04-08, read
    2026-11-23): --num-nodes=0, --enable-autoscaling, --location-policy=ANY, --reservation-affinity=none and
    --no-enable-autorepair. That Google refuses other values is assumed.
    """
    if not pool.get("queuedProvisioning", {}).get("enabled"):
        return
    config, scaling = pool["config"], pool.get("autoscaling", {})
    affinity = config.get("reservationAffinity", {}).get("consumeReservationType")
    wrong = {
        "initialNodeCount": pool.get("initialNodeCount"),
        "spot": config.get("spot"),
        "no accelerators": not config.get("accelerators"),
        "no autoscaling": not scaling.get("enabled"),
        "autoscaling.locationPolicy": scaling.get("locationPolicy") != "ANY",
        "management.autoRepair": pool.get("management", {}).get("autoRepair", True),
        "reservationAffinity": affinity != "NO_RESERVATION",
    }
    if found := [name for name, is_wrong in wrong.items() if is_wrong]:
        raise Refusal(400, f"Queued provisioning does not support: {', '.join(found)}.")


def _topology(pool: Object) -> str:
    """Returns the topology of TPU nodes; a pool of one node states none."""
    chips = _CHIPS.search(pool["config"]["machineType"])
    found = pool.get("placementPolicy", {}).get("tpuTopology")
    return str(found or ("2x2x1" if chips and chips[1] == "5p" else _ONE_HOST[chips[2]]))


def _check_slice(pool: Object) -> None:
    """Refuses a pool of TPU nodes that is no slice."""
    if pool.get("placementPolicy", {}).get("tpuTopology") and pool["initialNodeCount"] == 1:
        raise Refusal(400, "TPU topology must not be set for a single-host node pool.")
    if chips := _CHIPS.search(pool.get("config", {}).get("machineType", "")):
        wanted = math.prod(map(int, _topology(pool).split("x")))
        if wanted != int(chips[2]) * pool["initialNodeCount"]:
            raise Refusal(400, "The number of nodes does not match the TPU topology.")
