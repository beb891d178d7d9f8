"""Cloud TPU: queued resources that become active after some requests, or never."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route

ZONES = ("europe-west4-a", "us-central1-a", "us-central1-b")
OFFERED = ("v2-8", "v3-8", "v5litepod-8", "v6e-8")
IMAGES = ("tpu-ubuntu2204-base", "v2-alpha-tpuv5-lite", "v2-alpha-tpuv6e")
_PART = "tpu.projects.locations."


class Tpus:
    """Queued resources and nodes of one project.

    Attributes:
        wait_ticks: Requests until machines are made, and until they are there.
        has_capacity: False: queued resources wait until their time limit.
        delete_ticks: Requests until what is deleted is gone.
        silent_zones: Zones that cannot be reached: `unreachable` of tpu.v2's lists (discovery document, revision
            20261001).
        shows_labels: Whether a queued resource shows the labels of its node.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.wait_ticks, self.delete_ticks = 2, 2
        self.has_capacity, self.shows_labels = True, True
        self.silent_zones: set[str] = set()
        self.refuse_network: Callable[[dict[str, Any], str], None] = lambda asked, zone: None
        self._made: dict[str, int] = {}
        self.server = server
        server.add(self._routes())

    def _routes(self) -> dict[str, Route]:
        found = {
            "queuedResources.create": self._create,
            "queuedResources.get": self._get,
            "queuedResources.list": self._list,
            "queuedResources.delete": self._delete,
            "nodes.get": self._get_node,
            "nodes.list": self._list_nodes,
            "nodes.delete": self._delete_node,
            "acceleratorTypes.get": self._offered,
            "runtimeVersions.get": self._image,
        }
        routes = {_PART + name: Route(handler) for name, handler in found.items()}
        return routes | {"tpu.projects.locations.list": Route(self._zones)}

    # For tests.

    def turn(self, state: str, **data: Any) -> None:
        """Sets the state of all queued resources; data such as ``failedData={...}``."""
        for name in list(self.resources):
            self._turn(name, state, **data)

    def orphan(self) -> None:
        """Deletes the queued resources and leaves their nodes."""
        self.resources.clear()

    # What Google does.

    def _create(self, call: Call) -> dict[str, Any]:
        parent = _parent(call)
        name = f"{parent}/queuedResources/{call.query['queuedResourceId']}"
        if name in self.resources:
            raise Refusal(409, f"Resource '{name}' already exists.")
        (spec,) = call.body["tpu"]["nodeSpec"]
        if "schedulingConfig" in spec["node"]:
            # Stricter than documented: gcloud states the tier in the queued resource only
            # (googlecloudsdk/command_lib/compute/tpus/queued_resources/util.py, read 2026-11-22).
            raise Refusal(400, "The tier belongs in the queued resource, not in its node.")
        self.refuse_network(spec["node"]["networkConfig"], call.path["locationsId"])
        reservation = call.body.get("reservationName")
        if reservation is not None and not re.fullmatch(
            rf"projects/[^/]+/locations/{call.path['locationsId']}/reservations/[^/]+", reservation
        ):
            # The format of the discovery document; the words are made up.
            raise Refusal(400, f"Invalid reservation name {reservation}.")
        if reservation is not None and "spot" in call.body:
            raise Refusal(400, "A Spot request cannot use a reservation.")
        moment = self.server.moment()
        self.resources[name] = call.body | {"name": name, "createTime": moment}
        self._made[name] = self.server.ticks
        self._turn(name, "ACCEPTED")
        self.server.later(1, lambda: self._begin(name))
        return _operation(parent)

    def _begin(self, name: str) -> None:
        self._turn(name, "WAITING_FOR_RESOURCES")
        if self.has_capacity:
            self.server.later(self.wait_ticks, lambda: self._provision(name))
            return
        error = {"code": 8, "message": "The request was not fulfilled before its valid until time."}
        self.server.later(
            3 * self.wait_ticks, lambda: self._turn(name, "FAILED", failedData={"error": error})
        )

    def _provision(self, name: str) -> None:
        if name not in self.resources or self._state(name) != "WAITING_FOR_RESOURCES":
            return
        (spec,) = self.resources[name]["tpu"]["nodeSpec"]
        node = f"{spec['parent']}/nodes/{spec['nodeId']}"
        moment = self.server.moment()
        made = {"name": node, "createTime": moment, "queuedResource": name, "state": "READY"}
        tier = {"schedulingConfig": {"spot": True}} if "spot" in self.resources[name] else {}
        self.nodes[node] = spec["node"] | made | tier
        self._turn(name, "PROVISIONING")
        self.server.later(self.wait_ticks, lambda: self._activate(name))

    def _activate(self, name: str) -> None:
        if name in self.resources and self._state(name) == "PROVISIONING":
            self._turn(name, "ACTIVE")

    def _turn(self, name: str, state: str, **data: Any) -> None:
        if name in self.resources:
            self.resources[name]["state"] = {"state": state, **data}

    def _state(self, name: str) -> str:
        return str(self.resources[name]["state"]["state"])

    def _get(self, call: Call) -> dict[str, Any]:
        name = f"{_parent(call)}/queuedResources/{call.path['queuedResourcesId']}"
        if name not in self.resources or not self.server.is_shown(self._made[name]):
            raise Refusal(404, f"Resource '{name}' was not found")
        return self._shown(name)

    def _list(self, call: Call) -> dict[str, Any]:
        shown = [n for n in self.resources if self.server.is_shown(self._made[n])]
        found = [self._shown(name) for name in shown if self._is_in(name, call)]
        return ({"queuedResources": found} if found else {}) | self._unreachable()

    def _shown(self, name: str) -> dict[str, Any]:
        if self.shows_labels:
            return self.resources[name]
        (spec,) = self.resources[name]["tpu"]["nodeSpec"]
        node = {k: v for k, v in spec["node"].items() if k not in ("labels", "metadata")}
        return self.resources[name] | {"tpu": {"nodeSpec": [spec | {"node": node}]}}

    def _delete(self, call: Call) -> dict[str, Any]:
        name = self._get(call)["name"]
        (spec,) = self.resources[name]["tpu"]["nodeSpec"]
        node = f"{spec['parent']}/nodes/{spec['nodeId']}"
        if node in self.nodes and call.query.get("force") != "true":
            raise Refusal(400, f"{name} has nodes", "FAILED_PRECONDITION")
        self._turn(name, "DELETING")

        def gone() -> None:
            self.resources.pop(name, None)
            self.nodes.pop(node, None)

        self.server.later(self.delete_ticks, gone)
        return _operation(_parent(call))

    def _get_node(self, call: Call) -> dict[str, Any]:
        name = f"{_parent(call)}/nodes/{call.path['nodesId']}"
        if name not in self.nodes:
            raise Refusal(404, f"Resource '{name}' was not found")
        return self.nodes[name]

    def _list_nodes(self, call: Call) -> dict[str, Any]:
        found = [node for name, node in self.nodes.items() if self._is_in(name, call)]
        return ({"nodes": found} if found else {}) | self._unreachable()

    def _is_in(self, name: str, call: Call) -> bool:
        zone = name.split("/")[3]
        return call.path["locationsId"] in ("-", zone) and zone not in self.silent_zones

    def _unreachable(self) -> dict[str, Any]:
        found = [f"projects/lab/locations/{zone}" for zone in sorted(self.silent_zones)]
        return {"unreachable": found} if found else {}

    def _delete_node(self, call: Call) -> dict[str, Any]:
        self.nodes.pop(self._get_node(call)["name"])
        return _operation(_parent(call))

    def _zones(self, call: Call) -> dict[str, Any]:
        parent = f"projects/{call.path['projectsId']}/locations"
        places = [{"name": f"{parent}/{zone}", "locationId": zone} for zone in ZONES]
        return {"locations": places}

    def _offered(self, call: Call) -> dict[str, Any]:
        kind = call.path["acceleratorTypesId"]
        if kind not in OFFERED or call.path["locationsId"] == "us-central1-a":
            raise Refusal(404, f"accelerator type {kind} was not found")
        return {"name": f"{_parent(call)}/acceleratorTypes/{kind}", "type": kind}

    def _image(self, call: Call) -> dict[str, Any]:
        version = call.path["runtimeVersionsId"]
        if version not in IMAGES:
            raise Refusal(404, f"runtime version {version} was not found")
        return {"name": f"{_parent(call)}/runtimeVersions/{version}", "version": version}


def _parent(call: Call) -> str:
    return f"projects/{call.path['projectsId']}/locations/{call.path['locationsId']}"


def _operation(parent: str) -> dict[str, Any]:
    return {"name": f"{parent}/operations/operation-1", "done": False}
