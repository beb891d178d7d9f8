"""GKE clusters and node pools, and the VMs and disks that deleted pools left.

GKE copies a pool's `resourceLabels` to the machines and disks that it creates (discovery document of
container.v1, revision 20261027), and deletes them with the pool. A VM or disk with a run's label but
without a pool is orphaned and bills unseen.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.gcp.addresses import COMPUTE, CONTAINER, clusters
from cloudgan.launch.clouds.gcp.error_mapping import (
    BusyError,
    TakenError,
    cause,
    sentence,
)
from cloudgan.launch.clouds.gcp.machines import node_type_of
from cloudgan.schema.resource import Listing, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Step
    from cloudgan.schema.resource import ResourceCause, ResourceState

CLUSTER_KIND, POOL_KIND = "GKE cluster", "GKE node pool"
INSTANCE_KIND, DISK_KIND = "Compute Engine instance", "disk"
FEE = "GKE standard"
_POOL_RANK, _INSTANCE_RANK, _DISK_RANK, _CLUSTER_RANK = 10, 20, 30, 50
_ENGINE_STATES: dict[str, ResourceState] = {
    "PROVISIONING": "creating",
    "RUNNING": "ready",
    "RECONCILING": "ready",
    "DEGRADED": "ready",
    "RUNNING_WITH_ERROR": "ready",
    "STOPPING": "deleting",
    "ERROR": "failed",
}
_COMPUTE_STATES: dict[str, ResourceState] = {
    "PENDING": "creating",
    "PROVISIONING": "creating",
    "STAGING": "creating",
    "STOPPING": "deleting",
    "DEPROVISIONING": "deleting",
    "CREATING": "creating",
    "RESTORING": "creating",
    "DELETING": "deleting",
}
_TABLES = {INSTANCE_KIND: "instances", DISK_KIND: "disks"}
_PARTIAL = ("UNREACHABLE", "PARTIAL_SUCCESS")
"""Codes of warnings in place of resources; an empty zone has NO_RESULTS_ON_PAGE."""
_OFF = ("STOPPED", "SUSPENDED", "TERMINATED")


class KubernetesEngine:
    """The GKE clusters and node pools of one project.

    Args:
        api: Google's APIs.
        project: Project ID.
        busy_seconds: Limit for waiting while a cluster runs another operation.
        poll_seconds: Interval between two attempts meanwhile.
    """

    host = "container.googleapis.com"
    kinds = (CLUSTER_KIND, POOL_KIND)

    def __init__(
        self,
        api: GoogleApi,
        project: str,
        *,
        busy_seconds: float = 900.0,
        poll_seconds: float = 5.0,
    ) -> None:
        self._api, self._project = api, project
        self._busy_seconds, self._poll_seconds = busy_seconds, poll_seconds
        self._operations: dict[str, str] = {}

    def clusters(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Returns all clusters of the project with their pools, and the zones that did not answer.

        `missingZones`: "the list of clusters returned may be missing those zones" (discovery document of
        container.v1, revision 20261027).
        """
        found = self._api.send("GET", clusters(self._project, "-"))
        return list(found.get("clusters", ())), list(found.get("missingZones", ()))

    def find(self, step: Step) -> Resource | None:
        """Returns the cluster or pool of a step, or its failure."""
        assert step.find is not None  # noqa: S101  all steps of Google's have one
        found = self._get(step.find)
        if found is not None and found.state != "creating":
            return found
        failure = self._failure(step.find)
        if failure is None:
            return found
        known = found or _resource(step.find.removeprefix(f"{CONTAINER}/"), {})
        return replace(known, state="failed", reason=failure, cause=cause(failure))

    def create(self, step: Step) -> None:
        """Sends a step's request; waits while the cluster is busy."""
        began = monotonic_seconds()
        while True:
            try:
                answer = self._api.send(step.method, step.path, step.body, what=step.ensure)
            except TakenError:
                return
            except BusyError:
                if monotonic_seconds() - began > self._busy_seconds:
                    raise
                time.sleep(self._poll_seconds)
                continue
            if step.find and answer.get("name"):
                location = step.path.partition("/clusters")[0]
                self._operations[step.find] = f"{location}/operations/{answer['name']}"
            return

    def list_resources(self, run: str | None) -> Listing:
        """Lists cloudgan's clusters and pools, pools with their current node count."""
        there, silent = self.clusters()
        found = []
        for one in there:
            path = f"projects/{self._project}/locations/{one['location']}/clusters/{one['name']}"
            cluster = _cluster(path, one)
            if cluster.shared and run is None:
                found.append(cluster)
            for body in one.get("nodePools", ()):
                pool = _pool(f"{path}/nodePools/{body['name']}", body)
                if pool.run and run in (None, pool.run):
                    found.append(self._counted(pool, body))
        return Listing(found, silent)

    def delete(self, resource: Resource) -> None:
        """Requests deletion."""
        self._api.delete(f"{CONTAINER}/{resource.name}", f"{resource.kind} {resource.name}")

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a cluster or pool."""
        return self._get(f"{CONTAINER}/{resource.name}")

    def _get(self, url: str) -> Resource | None:
        body = self._api.find(url)
        if body is None:
            return None
        found = _resource(url.removeprefix(f"{CONTAINER}/"), body)
        return self._explained(found, body) if found.state == "creating" else found

    def _failure(self, find: str) -> str | None:
        """Returns the error of this process's create operation, if it ended with one."""
        operation = self._operations.get(find)
        found = self._api.find(operation) if operation else None
        if found is None or found.get("status") != "DONE":
            return None
        error = (found.get("error") or {}).get("message") or found.get("statusMessage")
        return sentence(error) if error else None

    def _explained(self, resource: Resource, pool: dict[str, Any]) -> Resource:
        """Adds the errors of the instance group, which reports them long before the pool does."""
        for group in pool.get("instanceGroupUrls", ()):
            page = self._api.find(f"{_compute(group)}/listErrors") or {}
            for one in reversed(page.get("items", ())):
                error = one.get("error") or {}
                message = sentence(f"{error.get('code', '')}: {error.get('message', '')}")
                return replace(resource, reason=message, cause=cause(message))
        return resource

    def _counted(self, resource: Resource, pool: dict[str, Any]) -> Resource:
        groups = pool.get("instanceGroupUrls", ())
        if not groups:
            return resource
        try:
            sizes = [(self._api.find(_compute(one)) or {}).get("targetSize", 0) for one in groups]
        except LaunchError:
            return resource  # with the number of nodes that was requested
        return replace(resource, nodes=sum(sizes))


class OrphanedMachines:
    """The VMs and disks of one project that no node pool owns.

    Args:
        api: Google's APIs.
        project: Project ID.
        say: Receives the reason if the list is unavailable.
    """

    kinds = (INSTANCE_KIND, DISK_KIND)

    def __init__(
        self, api: GoogleApi, project: str, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._api, self._project, self._say = api, project, say

    def list_resources(self, run: str | None, held: Collection[str | None]) -> Listing:
        """Lists orphaned VMs, and disks that no VM uses.

        Args:
            run: Name of a run; None: of all.
            held: Runs with pools, which own their machines.
        """
        silent: list[str] = []
        try:
            found = [
                (_machine(kind, body), body)
                for kind in self.kinds
                for body in self._labelled(_TABLES[kind], run, silent)
            ]
        except CredentialsError as error:  # must not hide the pools
            self._say(f"cannot list machines and disks without a pool: {error}")
            return Listing()
        own = (one for one, body in found if one.run not in held and not body.get("users"))
        return Listing(own, silent)

    def delete(self, resource: Resource) -> None:
        """Requests deletion; a VM's boot disk goes with it."""
        self._api.delete(f"{COMPUTE}/{resource.name}", f"{resource.kind} {resource.name}")

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a VM or disk."""
        body = self._api.find(f"{COMPUTE}/{resource.name}")
        return _machine(resource.kind, body) if body else None

    def _labelled(self, table: str, run: str | None, silent: list[str]) -> Iterator[dict[str, Any]]:
        """Yields what zones list; adds those that do not answer to `silent`.

        `unreachables` and `warning`: discovery document of compute.v1, revision
        20261106.
        """
        url = f"{COMPUTE}/projects/{self._project}/aggregated/{table}"
        wanted = f"labels.{RUN}={run}" if run else f"labels.{RUN}:*"
        for page in self._api.pages(url, filter=wanted):
            silent += map(_last, page.get("unreachables", ()))
            for zone, listed in {f"a zone of {table}": page, **page.get("items", {})}.items():
                if (listed.get("warning") or {}).get("code") in _PARTIAL:
                    silent.append(_last(zone) or zone)
                yield from listed.get(table, ())


def _resource(name: str, body: dict[str, Any]) -> Resource:
    return (_pool if "/nodePools/" in name else _cluster)(name, body)


def _cluster(name: str, body: dict[str, Any]) -> Resource:
    why, kind = _conditions(body)
    return Resource(
        kind=CLUSTER_KIND,
        name=name,
        state=_ENGINE_STATES.get(body.get("status", ""), "creating"),
        labels=body.get("resourceLabels") or {},
        region=body.get("location", ""),
        reason=why,
        cause=kind,
        deletion_order=_CLUSTER_RANK,
        created_at=body.get("createTime"),
        fee=FEE,
    )


def _pool(name: str, body: dict[str, Any]) -> Resource:
    config = body.get("config") or {}
    why, kind = _conditions(body)
    state = _ENGINE_STATES.get(body.get("status", ""), "creating")
    if state == "ready" and kind and body.get("status") == "RUNNING_WITH_ERROR":
        state = "failed"  # machines are missing, and a gang needs all
    zones = body.get("locations") or [name.split("/")[3]]
    return Resource(
        kind=POOL_KIND,
        name=name,
        state=state,
        labels=config.get("resourceLabels") or {},
        region=zones[0],
        reason=why,
        cause=kind,
        deletion_order=_POOL_RANK,
        node_type=node_type_of(config),
        nodes=int(body.get("initialNodeCount", 0)),
        market="spot" if config.get("spot") else "on_demand",
        parent=name.partition("/nodePools/")[0],
    )


def _machine(kind: str, body: dict[str, Any]) -> Resource:
    name = str(body["selfLink"]).partition("/compute/v1/")[2]
    common: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "state": _COMPUTE_STATES.get(str(body.get("status")), "ready"),
        "labels": body.get("labels") or {},
        "region": name.split("/")[3],
        "created_at": body.get("creationTimestamp"),
    }
    if kind == DISK_KIND:
        return Resource(**common, deletion_order=_DISK_RANK, fee=_last(body.get("type")))
    gpus = [
        {"acceleratorType": _last(one.get("acceleratorType")), "acceleratorCount": count}
        for one in body.get("guestAccelerators", ())
        if (count := one.get("acceleratorCount"))
    ]
    scheduling, is_off = body.get("scheduling") or {}, body.get("status") in _OFF
    return Resource(
        **common,
        deletion_order=_INSTANCE_RANK,
        node_type=node_type_of({"machineType": _last(body["machineType"]), "accelerators": gpus}),
        nodes=0 if is_off else 1,
        fee="disks of a stopped machine" if is_off else None,
        market="spot" if scheduling.get("provisioningModel") == "SPOT" else "on_demand",
    )


def _conditions(body: dict[str, Any]) -> tuple[str, ResourceCause]:
    """Returns the error message of a cluster or pool, and its cause."""
    for one in body.get("conditions", ()):
        text = f"{one.get('code', '')}: {one.get('message', '')}".strip(": ")
        if text:
            return sentence(text), cause(text)
    text = body.get("statusMessage", "")
    return sentence(text), cause(text)


def _compute(url: str) -> str:
    """Returns an instance group's URL at today's host; GKE still reports the former one."""
    return COMPUTE + re.sub(r"^https://[^/]+/compute/v1", "", url)


def _last(url: str | None) -> str:
    return str(url or "").rpartition("/")[2]
