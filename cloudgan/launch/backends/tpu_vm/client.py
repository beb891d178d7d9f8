"""Cloud TPU's queued resources and VMs of one project: find, create, list and delete."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import CredentialsError, PlanError
from cloudgan.launch.backends.tpu_vm.requests import KIND
from cloudgan.launch.backends.tpu_vm.slices import SLICES, notes
from cloudgan.launch.backends.tpu_vm.state import PREEMPTED, WAITING, failure, state_name
from cloudgan.launch.clouds.gcp.addresses import CLUSTER_LOCATION, TPU, TPU_ACCOUNT, ZONE
from cloudgan.launch.clouds.gcp.error_mapping import (
    DisabledApiError,
    TakenError,
    cause,
)
from cloudgan.launch.clouds.gcp.preflight import account_finding
from cloudgan.launch.clouds.gcp.reservations import reserved_zone
from cloudgan.schema.plan import ZONES
from cloudgan.schema.resource import Finding, Listing, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Plan, Step
    from cloudgan.schema.resource import ResourceCause, ResourceState

NODE_KIND: Final = "TPU machine"
_RANK = 10
_EXHAUSTED, _UNAVAILABLE, _TOO_LATE = 8, 14, 4
"""Codes of google.rpc.Code: RESOURCE_EXHAUSTED, UNAVAILABLE, DEADLINE_EXCEEDED."""
_NODE_STATES: dict[str, ResourceState] = {
    "CREATING": "creating",
    "DELETING": "deleting",
    "PREEMPTED": "failed",
    "TERMINATED": "failed",
}


class TpuVmClient:
    """Cloud TPU of one project.

    Args:
        api: Google's APIs.
        project: Project ID.
        say: Receives warnings.
    """

    host = "tpu.googleapis.com"
    kinds = (KIND, NODE_KIND)

    def __init__(
        self, api: GoogleApi, project: str, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._api, self._project, self._say = api, project, say

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns the zones that offer the plan's slice, by placeholder; first those in use by it.

        Raises:
            PlanError: No zone of the region offers it, or it has several hosts.
        """
        assert plan.node_pool is not None  # noqa: S101  a TPU plan has one
        if plan.node_pool.hosts > 1:
            raise PlanError(notes(SLICES[plan.node_pool.node_type])[-1])
        zone = plan.target.zone
        zones = [str(zone)]
        if plan.node_pool.reservation:
            zones = [reserved_zone(self._api, self._project, plan)]
        elif zone in (None, ZONE):
            zones = self._zones(plan.target.region or "", plan.node_pool.node_type)
            held = {one.region for one in self.list_resources(plan.run)}
            zones.sort(key=lambda one: (one not in held, one))
        return {ZONE: zones[0], CLUSTER_LOCATION: zones[0], ZONES: " ".join(zones)}

    def check(self, plan: Plan) -> tuple[Finding, ...]:
        """Checks service account, slice and system image, and names the required quota."""
        pool = plan.node_pool
        assert pool is not None  # noqa: S101  a TPU plan has one
        zone = f"{TPU}/projects/{self._project}/locations/{plan.target.zone}"
        kind = self._api.find(f"{zone}/acceleratorTypes/{pool.node_type}")
        image = self._api.find(f"{zone}/runtimeVersions/{pool.runtime}")
        generation, _, count = pool.node_type.rpartition("-")
        spot = "preemptible " if pool.market == "spot" else ""
        return (
            account_finding(self._api, self._project, TPU_ACCOUNT),
            _offered(f"TPU {pool.node_type} in {plan.target.zone}", is_there=kind is not None),
            _offered(f"system image {pool.runtime}", is_there=image is not None),
            Finding(
                f"quota of {spot}TPU {generation} in {plan.target.zone}",
                "unknown",
                f"{count} are needed; the console shows the limit: IAM & Admin, Quotas,"
                f" Cloud TPU API, {spot}TPU {generation} per project per zone",
            ),
        )

    def find(self, step: Step) -> Resource | None:
        """Returns the queued resource of a step, or its failure."""
        found = self._api.find(step.find or step.path)
        return queued_resource(found) if found else None

    def create(self, step: Step) -> None:
        """Sends a step's request; an existing resource is no error.

        Raises:
            CapacityError: There is no quota.
        """
        with suppress(TakenError):
            self._api.send(step.method, step.path, step.body)

    def list_resources(self, run: str | None = None) -> Listing:
        """Lists cloudgan's queued resources in all zones, and VMs without one.

        A queued resource has no labels of its own: it gets those of its node. A missing permission
        or API yields none.
        """
        try:
            return self._labelled(run)
        except DisabledApiError:
            return Listing()
        except CredentialsError as error:
            self._say(f"cannot list TPUs: {error}")
            return Listing()

    def _labelled(self, run: str | None) -> Listing:
        silent: list[str] = []
        listed = self._listed("queuedResources", silent)
        queue = {one["name"]: queued_resource(one) for one in listed}
        alone = []
        for node in map(_vm_resource, self._listed("nodes", silent)):
            parent = queue.get(node.parent)
            if parent is None:
                alone.append(node)
            elif not parent.labels:
                queue[parent.name] = replace(parent, labels=node.labels)
        found = (one for one in (*queue.values(), *alone) if one.run and run in (None, one.run))
        return Listing(found, silent)

    def delete(self, resource: Resource) -> None:
        """Requests deletion, including the VMs; an absent resource is no error."""
        force = {"force": "true"} if resource.kind == KIND else {}
        self._api.delete(f"{TPU}/{resource.name}", **force)

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""
        found = self._api.find(f"{TPU}/{resource.name}")
        if found is None:
            return None
        return queued_resource(found) if resource.kind == KIND else _vm_resource(found)

    def queued(self, name: str) -> dict[str, Any] | None:
        """Returns Google's description of a queued resource; None if absent."""
        return self._api.find(f"{TPU}/{name}")

    def node(self, queued: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns Google's description of a queued resource's VMs; None before their creation."""
        spec = _node_spec(queued)
        return self._api.find(f"{TPU}/{spec['parent']}/nodes/{spec['nodeId']}") if spec else None

    def _zones(self, region: str, node_type: str) -> list[str]:
        """Returns the zones of a region that offer slices of a type."""
        url = f"{TPU}/projects/{self._project}/locations"
        zones = [
            one["locationId"] for page in self._api.pages(url) for one in page.get("locations", ())
        ]
        near = [str(one) for one in zones if one.startswith(f"{region}-")]
        if found := [z for z in near if self._api.find(f"{url}/{z}/acceleratorTypes/{node_type}")]:
            return found
        other = SLICES[node_type].instead
        hint = f" the nearest generally available slice is {other};" if other else ""
        raise PlanError(
            f"Google offers this project no TPU {node_type} in any zone of {region};{hint}"
            " `cloudgan offers --provider=gcp` lists regions"
        )

    def _listed(self, collection: str, silent: list[str]) -> Iterator[dict[str, Any]]:
        """Yields what zones list; adds those that could not be reached to `silent`."""
        for page in self._api.pages(f"{TPU}/projects/{self._project}/locations/-/{collection}"):
            silent += (str(one).rpartition("/")[2] for one in page.get("unreachable", ()))
            yield from page.get(collection, ())


def queued_resource(body: Mapping[str, Any]) -> Resource:
    """Converts Google's description of a queued resource."""
    name, state = str(body["name"]), state_name(body)
    node = _node_spec(body).get("node") or {}
    why, kind = _why(body, state)
    return Resource(
        kind=KIND,
        name=name,
        state=_state(state),
        labels=node.get("labels") or {},
        region=name.split("/")[3],
        reason=why,
        cause=kind,
        deletion_order=_RANK,
        created_at=body.get("createTime"),
        node_type=node.get("acceleratorType"),
        nodes=1 if state in ("PROVISIONING", "ACTIVE", "SUSPENDING", "DELETING") else 0,
        market="spot" if "spot" in body else "on_demand",
    )


def _vm_resource(body: Mapping[str, Any]) -> Resource:
    """Converts Google's description of a slice's VMs, whose parent is the queued resource."""
    name = str(body["name"])
    return Resource(
        kind=NODE_KIND,
        name=name,
        state=_NODE_STATES.get(str(body.get("state")), "ready"),
        labels=body.get("labels") or {},
        region=name.split("/")[3],
        deletion_order=_RANK,
        created_at=body.get("createTime"),
        node_type=body.get("acceleratorType"),
        nodes=1,
        market="spot" if (body.get("schedulingConfig") or {}).get("spot") else "on_demand",
        parent=str(body.get("queuedResource", "")),
    )


def _state(state: str) -> ResourceState:
    if state in WAITING:
        return "creating"
    if state == "ACTIVE":
        return "ready"
    return "deleting" if state == "DELETING" else "failed"


def _why(body: Mapping[str, Any], state: str) -> tuple[str, ResourceCause]:
    if state in PREEMPTED:
        return "Google preempted the TPU", ""
    if state != "FAILED":
        return WAITING.get(state, ""), ""
    code, message = failure(body)
    if kind := cause(message):
        return message, kind
    return message, "capacity" if code in (_EXHAUSTED, _UNAVAILABLE, _TOO_LATE) else ""


def _node_spec(queued: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the one node that a queued resource requests."""
    specs: list[dict[str, Any]] = (queued.get("tpu") or {}).get("nodeSpec") or []
    return specs[0] if specs else {}


def _offered(subject: str, *, is_there: bool) -> Finding:
    if is_there:
        return Finding(subject, "ok", "offered to this project")
    return Finding(
        subject, "missing", "Google does not offer it to this project; pass another --zone"
    )
