"""Queued resources and machines of Cloud TPU as all clouds' things are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.thing import Thing
from cloudgan.providers.gcp.refusal import cause
from cloudgan.providers.gcp.tpu_requests import KIND
from cloudgan.providers.gcp.tpu_state import PREEMPTED, WAITING, failure, state_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.thing import ThingCause, ThingState

NODE_KIND: Final = "TPU machine"
_RANK = 10
_EXHAUSTED, _UNAVAILABLE, _TOO_LATE = 8, 14, 4
_NODE_STATES: dict[str, ThingState] = {
    "CREATING": "making",
    "DELETING": "leaving",
    "PREEMPTED": "failed",
    "TERMINATED": "failed",
}


def queued_thing(body: Mapping[str, Any]) -> Thing:
    """Returns a queued resource as all clouds' things are."""
    spec, name, state = spec_of(body), str(body["name"]), state_name(body)
    node = spec.get("node") or {}
    why, kind = _why(body, state)
    return Thing(
        kind=KIND,
        name=name,
        state=_state(state),
        labels=node.get("labels") or {},
        region=name.split("/")[3],
        why=why,
        cause=kind,
        rank=_RANK,
        made=body.get("createTime"),
        node_type=node.get("acceleratorType"),
        nodes=1 if state in ("PROVISIONING", "ACTIVE", "SUSPENDING", "DELETING") else 0,
        market="spot" if "spot" in body else "on_demand",
    )


def node_thing(body: Mapping[str, Any]) -> Thing:
    """Returns the machines of a slice; their parent is the queued resource that asked for them."""
    name = str(body["name"])
    return Thing(
        kind=NODE_KIND,
        name=name,
        state=_NODE_STATES.get(str(body.get("state")), "ready"),
        labels=body.get("labels") or {},
        region=name.split("/")[3],
        rank=_RANK,
        made=body.get("createTime"),
        node_type=body.get("acceleratorType"),
        nodes=1,
        market="spot" if (body.get("schedulingConfig") or {}).get("spot") else "on_demand",
        parent=str(body.get("queuedResource", "")),
    )


def _state(state: str) -> ThingState:
    if state in WAITING:
        return "making"
    if state == "ACTIVE":
        return "ready"
    return "leaving" if state == "DELETING" else "failed"


def _why(body: Mapping[str, Any], state: str) -> tuple[str, ThingCause]:
    if state in PREEMPTED:
        return "Google took its machines back", ""
    if state != "FAILED":
        return WAITING.get(state, ""), ""
    code, said = failure(body)
    if kind := cause(said):
        return said, kind
    return said, "capacity" if code in (_EXHAUSTED, _UNAVAILABLE, _TOO_LATE) else ""


def spec_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the one node that a queued resource asks for."""
    specs: list[dict[str, Any]] = (body.get("tpu") or {}).get("nodeSpec") or []
    return specs[0] if specs else {}
