"""Rows of Google Cloud: Kubernetes Engine, Compute Engine, Cloud Storage, IAM and Cloud TPU.

GKE copies a pool's `resourceLabels` to the machines and disks that it creates (discovery document of
container.v1, revision 20261027), and deletes them with the pool. A VM or disk with a run's label but
without a pool is orphaned and bills unseen. Service accounts, bindings and enabled APIs carry no labels:
cloudgan recognises them by name; they cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.core.labels import SHARED
from cloudgan.launch.backends.tpu_vm.state import PREEMPTED, WAITING, failure, state_name
from cloudgan.launch.clouds.gcp import iam, names
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.errors import cause, sentence
from cloudgan.launch.clouds.gcp.machines import node_type_of
from cloudgan.launch.clouds.resource import Resource, ResourceCause, ResourceState
from cloudgan.launch.clouds.rows import Body, Kind, look_up
from cloudgan.schema.plan import Step


class Address(NamedTuple):
    """`Kind.request`: where the API has a kind.

    Attributes:
        base: URL before a resource's full name; may contain ``{project}``.
        deletion: Query parameters of its deletion.
    """

    base: str
    deletion: Mapping[str, str] = {}


_ENGINE_STATES: Final[dict[str, ResourceState]] = {
    "PROVISIONING": "creating",
    **dict.fromkeys(("RUNNING", "RECONCILING", "DEGRADED", "RUNNING_WITH_ERROR"), "ready"),
    "STOPPING": "deleting",
    "ERROR": "failed",
}
_COMPUTE_STATES: Final[dict[str, ResourceState]] = {
    **dict.fromkeys(("PENDING", "PROVISIONING", "STAGING", "CREATING", "RESTORING"), "creating"),
    **dict.fromkeys(("STOPPING", "DEPROVISIONING", "DELETING"), "deleting"),
}
_QUEUED_STATES: Final[dict[str, ResourceState]] = {
    **dict.fromkeys(WAITING, "creating"),
    "ACTIVE": "ready",
    "DELETING": "deleting",
}
_OFF: Final = ("STOPPED", "SUSPENDED", "TERMINATED")
_EXHAUSTED, _UNAVAILABLE, _TOO_LATE = 8, 14, 4
"""Codes of google.rpc.Code: RESOURCE_EXHAUSTED, UNAVAILABLE, DEADLINE_EXCEEDED."""


def last(url: Any) -> str:
    """Returns the last part of a URL."""
    return str(url or "").rpartition("/")[2]


def group_url(url: str) -> str:
    """Returns an instance group's URL at today's host; GKE still reports the former one."""
    return names.COMPUTE + re.sub(r"^https://[^/]+/compute/v1", "", url)


def _conditions(body: Body) -> tuple[str, ResourceCause]:
    """Returns the error message of a cluster or pool, and its cause."""
    for one in body.get("conditions", ()):
        if text := f"{one.get('code', '')}: {one.get('message', '')}".strip(": "):
            return sentence(text), cause(text)
    text = body.get("statusMessage", "")
    return sentence(text), cause(text)


def _cluster(resource: Resource, body: Body) -> Resource:
    why, kind = _conditions(body)
    return replace(resource, reason=why, cause=kind)


def _pool(resource: Resource, body: Body) -> Resource:
    config, state, (why, kind) = body.get("config") or {}, resource.state, _conditions(body)
    if state == "ready" and kind and body.get("status") == "RUNNING_WITH_ERROR":
        state = "failed"  # machines are missing, and a gang needs all
    return replace(
        resource,
        state=state,
        region=(body.get("locations") or [resource.region])[0],
        reason=why,
        cause=kind,
        node_type=node_type_of(config),
        nodes=int(body.get("initialNodeCount", 0)),
        market="spot" if config.get("spot") else "on_demand",
        parent=resource.name.partition("/nodePools/")[0],
    )


def _find_in_engine(api: GoogleApi, step: Step) -> Resource | None:
    """Returns the cluster or pool of a step, or the failure of the operation that this process started."""
    kind = {one.name: one for one in (CLUSTER, POOL)}[str(step.kind)]
    name = kind.name_of(step.ref)
    body = api.get(kind, name)
    found = kind.explain(api, kind.resource(name, body), body) if body else None
    if name not in api.operations or (found and found.state != "creating"):
        return found
    operation = api.find(api.operations[name]) or {}
    error = look_up(operation, "error.message") or operation.get("statusMessage")
    if operation.get("status") != "DONE" or not error:
        return found
    why = sentence(error)
    return replace(found or kind.resource(name, {}), state="failed", reason=why, cause=cause(why))


def _explain(api: GoogleApi, resource: Resource, body: Body) -> Resource:
    """Adds the errors of the instance groups, which report them long before the pool does."""
    if resource.state != "creating":
        return resource
    for group in body.get("instanceGroupUrls", ()):
        page = api.find(f"{group_url(group)}/listErrors") or {}
        for one in reversed(page.get("items", ())):
            error = one.get("error") or {}
            message = sentence(f"{error.get('code', '')}: {error.get('message', '')}")
            return replace(resource, reason=message, cause=cause(message))
    return resource


def _instance(resource: Resource, body: Body) -> Resource:
    gpus = [
        {"acceleratorType": last(one.get("acceleratorType")), "acceleratorCount": count}
        for one in body.get("guestAccelerators", ())
        if (count := one.get("acceleratorCount"))
    ]
    is_off, model = body.get("status") in _OFF, look_up(body, "scheduling.provisioningModel")
    return replace(
        resource,
        node_type=node_type_of({"machineType": last(body["machineType"]), "accelerators": gpus}),
        nodes=0 if is_off else 1,
        fee="disks of a stopped machine" if is_off else None,
        market="spot" if model == "SPOT" else "on_demand",
    )


def _find_bucket(api: GoogleApi, step: Step) -> Resource | None:
    """Returns the bucket of a step; refuses another project's, whose owner could read the run's data."""
    name = BUCKET.name_of(step.ref)
    try:
        body = api.get(BUCKET, name)
    except CredentialsError as error:
        raise CredentialsError(
            f"cannot read {step.ensure}: it belongs to another project, or this login lacks"
            f" storage.buckets.get ({error})"
        ) from error
    if body is None:
        return None
    if str(body.get("projectNumber")) != api.project_number:
        raise ConfigError(
            f"{step.ensure} belongs to another project than {api.project}; pass your own bucket:"
            " --store=gs://BUCKET/prefix"
        )
    return BUCKET.resource(name, body)


def node_spec(body: Body) -> dict[str, Any]:
    """Returns the one node that a queued resource requests."""
    specs: list[dict[str, Any]] = look_up(body, "tpu.nodeSpec") or []
    return specs[0] if specs else {}


def _queued(resource: Resource, body: Body) -> Resource:
    state, node = state_name(body), node_spec(body).get("node") or {}
    reason: ResourceCause = ""
    why = WAITING.get(state, "")
    if state in PREEMPTED:
        why = "Google preempted the TPU"
    elif state == "FAILED":
        code, why = failure(body)
        is_full = code in (_EXHAUSTED, _UNAVAILABLE, _TOO_LATE)
        reason = cause(why) or ("capacity" if is_full else "")
    return replace(
        resource,
        state=_QUEUED_STATES.get(state, "failed"),
        labels=node.get("labels") or {},
        reason=why,
        cause=reason,
        node_type=node.get("acceleratorType"),
        nodes=1 if state in ("PROVISIONING", "ACTIVE", "SUSPENDING", "DELETING") else 0,
        market="spot" if "spot" in body else "on_demand",
    )


def _tpu(resource: Resource, body: Body) -> Resource:
    return replace(
        resource,
        node_type=body.get("acceleratorType"),
        nodes=1,
        market="spot" if look_up(body, "schedulingConfig.spot") else "on_demand",
        parent=str(body.get("queuedResource", "")),
    )


_IDENTITY: Final[dict[str, Any]] = {
    "order": 80,
    "otherwise": "ready",
    "labels": {SHARED: "identity"},
    "is_free": True,
}
_IN_ENGINE: Final = "projects/{project}/locations/{location}/clusters/{cluster}"
POOL = Kind(
    name="GKE node pool",
    order=10,
    path=f"{_IN_ENGINE}/nodePools/{{name}}",
    request=Address(names.CONTAINER),
    states=_ENGINE_STATES,
    labels="config.resourceLabels",
    refine=_pool,
    find=_find_in_engine,
    explain=_explain,
)
QUEUED = Kind(
    name="TPU queued resource",
    order=10,
    path="projects/{project}/locations/{location}/queuedResources/{name}",
    request=Address(names.TPU, {"force": "true"}),  # with its VMs
    states=_QUEUED_STATES,
    refine=_queued,
)
TPU_VM = Kind(
    name="TPU machine",
    order=10,
    path="projects/{project}/locations/{location}/nodes/{name}",
    request=Address(names.TPU),
    state="state",
    states={
        "CREATING": "creating",
        "DELETING": "deleting",
        "PREEMPTED": "failed",
        "TERMINATED": "failed",
    },
    otherwise="ready",
    refine=_tpu,
)
_IN_COMPUTE: Final[dict[str, Any]] = {
    "request": Address(names.COMPUTE),
    "states": _COMPUTE_STATES,
    "otherwise": "ready",
    "region": "place",
    "created": "creationTimestamp",
}
INSTANCE = Kind(
    name="Compute Engine instance",
    order=20,
    path="projects/{project}/{scope}/{place}/instances/{name}",
    refine=_instance,
    **_IN_COMPUTE,
)
DISK = Kind(
    name="disk",
    order=30,
    path="projects/{project}/{scope}/{place}/disks/{name}",
    **_IN_COMPUTE,
    refine=lambda resource, body: replace(resource, fee=last(body.get("type"))),
)
CLUSTER = Kind(
    name="GKE cluster",
    order=50,
    path=_IN_ENGINE,
    request=Address(names.CONTAINER),
    states=_ENGINE_STATES,
    labels="resourceLabels",
    fee="GKE standard",
    may_be_foreign=True,
    refine=_cluster,
    find=_find_in_engine,
    explain=_explain,
)
BUCKET = Kind(
    name="bucket",
    order=60,
    request=Address(f"{names.STORAGE}/b"),
    otherwise="ready",
    created="timeCreated",
    fee="Cloud Storage Standard",
    may_be_foreign=True,
    refine=lambda resource, body: replace(resource, region=str(body.get("location", "")).lower()),
    find=_find_bucket,
)
ACCOUNT = Kind(
    name="service account",
    request=Address(f"{names.IAM}/projects/{{project}}/serviceAccounts"),
    **_IDENTITY,
    before_delete=lambda api, resource: iam.unbind(api, f"serviceAccount:{resource.name}"),
)
BINDING: Final[Kind] = Kind(
    name="binding",
    **_IDENTITY,
    is_deletable=False,  # goes with its account
    busy_seconds=120.0,  # of a new account's propagation
    find=lambda api, step: (
        BINDING.resource(step.ref["name"], {}) if iam.is_bound(api, step) else None
    ),
    create=iam.bind,
)
APIS: Final[Kind] = Kind(
    name="APIs",
    **_IDENTITY,
    is_deletable=False,
    busy_seconds=600.0,
    find=lambda api, step: APIS.resource(APIS.name, {}) if iam.are_enabled(api, step) else None,
    create=iam.enable,
)
KINDS: Final = (POOL, QUEUED, TPU_VM, INSTANCE, DISK, CLUSTER, BUCKET, ACCOUNT, BINDING, APIS)
