"""Clusters and node pools of Kubernetes Engine."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.addresses import COMPUTE, CONTAINER, clusters
from cloudgan.providers.gcp.machines import node_type_of
from cloudgan.providers.gcp.refusal import (
    AbsentError,
    BusyError,
    TakenError,
    cause,
    sentence,
)

if TYPE_CHECKING:
    from cloudgan.core.plan import Step
    from cloudgan.core.thing import ThingCause, ThingState
    from cloudgan.providers.gcp.api import GoogleApi

CLUSTER_KIND, POOL_KIND = "GKE cluster", "GKE node pool"
FEE = "GKE standard"
_POOL_RANK, _CLUSTER_RANK = 10, 50
_STATES: dict[str, ThingState] = {
    "PROVISIONING": "making",
    "RUNNING": "ready",
    "RECONCILING": "ready",
    "DEGRADED": "ready",
    "RUNNING_WITH_ERROR": "ready",
    "STOPPING": "leaving",
    "ERROR": "failed",
}


class Engine:
    """What Kubernetes Engine has of one project.

    Args:
        api: That is asked.
        project: Its id.
        busy_seconds: How long a cluster may do something else before it takes a request.
        poll_seconds: Between two tries then.
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

    def clusters(self) -> list[dict[str, Any]]:
        """Returns all clusters of the project, each with its pools."""
        found = self._api.send("GET", clusters(self._project, "-"))
        return list(found.get("clusters", ()))

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, or how it failed to become."""
        assert step.find is not None  # noqa: S101  all steps of Google's can be found
        found = self._look_at(step.find)
        if found is not None and found.state != "making":
            return found
        failure = self._failure(step.find)
        if failure is None:
            return found
        known = found or _thing(step.find.removeprefix(f"{CONTAINER}/"), {})
        return replace(known, state="failed", why=failure, cause=cause(failure))

    def create(self, step: Step) -> None:
        """Sends a step's request; a cluster that is busy is waited for."""
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
                where = step.path.partition("/clusters")[0]
                self._operations[step.find] = f"{where}/operations/{answer['name']}"
            return

    def things(self, run: str | None) -> tuple[Thing, ...]:
        """Lists what is cloudgan's: pools with how many nodes they have now."""
        found = []
        for one in self.clusters():
            path = f"projects/{self._project}/locations/{one['location']}/clusters/{one['name']}"
            cluster = _cluster_thing(path, one)
            if cluster.shared and run is None:
                found.append(cluster)
            for pool in one.get("nodePools", ()):
                thing = _pool_thing(f"{path}/nodePools/{pool['name']}", pool)
                if thing.run and run in (None, thing.run):
                    found.append(self._counted(thing, pool))
        return tuple(found)

    def delete(self, thing: Thing) -> None:
        """Asks for deletion."""
        try:
            self._api.send("DELETE", f"{CONTAINER}/{thing.name}", what=f"{thing.kind} {thing.name}")
        except AbsentError:
            return

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now."""
        return self._look_at(f"{CONTAINER}/{thing.name}")

    def _look_at(self, url: str) -> Thing | None:
        body = self._api.find(url)
        if body is None:
            return None
        thing = _thing(url.removeprefix(f"{CONTAINER}/"), body)
        return self._explained(thing, body) if thing.state == "making" else thing

    def _failure(self, find: str) -> str | None:
        """Why what this process asked for will not come; None: nothing says so."""
        operation = self._operations.get(find)
        found = self._api.find(operation) if operation else None
        if found is None or found.get("status") != "DONE":
            return None
        error = (found.get("error") or {}).get("message") or found.get("statusMessage")
        return sentence(error) if error else None

    def _explained(self, thing: Thing, pool: dict[str, Any]) -> Thing:
        """Adds why machines do not come, as the group that makes them tells long before the pool."""
        for group in pool.get("instanceGroupUrls", ()):
            page = self._api.find(f"{_compute(group)}/listErrors") or {}
            for one in reversed(page.get("items", ())):
                error = one.get("error") or {}
                said = sentence(f"{error.get('code', '')}: {error.get('message', '')}")
                return replace(thing, why=said, cause=cause(said))
        return thing

    def _counted(self, thing: Thing, pool: dict[str, Any]) -> Thing:
        groups = pool.get("instanceGroupUrls", ())
        if not groups:
            return thing
        sizes = [(self._api.find(_compute(group)) or {}).get("targetSize", 0) for group in groups]
        return replace(thing, nodes=sum(sizes))


def _thing(name: str, body: dict[str, Any]) -> Thing:
    return (_pool_thing if "/nodePools/" in name else _cluster_thing)(name, body)


def _cluster_thing(name: str, body: dict[str, Any]) -> Thing:
    why, kind = _conditions(body)
    return Thing(
        kind=CLUSTER_KIND,
        name=name,
        state=_STATES.get(body.get("status", ""), "making"),
        labels=body.get("resourceLabels") or {},
        region=body.get("location", ""),
        why=why,
        cause=kind,
        rank=_CLUSTER_RANK,
        made=body.get("createTime"),
        fee=FEE,
    )


def _pool_thing(name: str, body: dict[str, Any]) -> Thing:
    config = body.get("config") or {}
    why, kind = _conditions(body)
    state = _STATES.get(body.get("status", ""), "making")
    if state == "ready" and kind and body.get("status") == "RUNNING_WITH_ERROR":
        state = "failed"  # it lacks machines, and a gang needs all
    zones = body.get("locations") or [name.split("/")[3]]
    return Thing(
        kind=POOL_KIND,
        name=name,
        state=state,
        labels=config.get("resourceLabels") or {},
        region=zones[0],
        why=why,
        cause=kind,
        rank=_POOL_RANK,
        node_type=node_type_of(config),
        nodes=int(body.get("initialNodeCount", 0)),
        market="spot" if config.get("spot") else "on_demand",
        parent=name.partition("/nodePools/")[0],
    )


def _conditions(body: dict[str, Any]) -> tuple[str, ThingCause]:
    """What is wrong with a cluster or pool, in Google's words, and what kind of thing that is."""
    for one in body.get("conditions", ()):
        text = f"{one.get('code', '')}: {one.get('message', '')}".strip(": ")
        if text:
            return sentence(text), cause(text)
    text = body.get("statusMessage", "")
    return sentence(text), cause(text)


def _compute(url: str) -> str:
    """The address of an instance group, whose old host Kubernetes Engine still tells."""
    return COMPUTE + re.sub(r"^https://[^/]+/compute/v1", "", url)
