"""Node groups of EKS: made empty, given an end, made as large as a run needs them."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import LaunchError
from cloudgan.core.thing import Thing, ThingState
from cloudgan.providers.aws.clusters import issues
from cloudgan.providers.aws.kind import POOL_RANK, ask_if_there, send
from cloudgan.providers.aws.refusal import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.core.plan import Step
    from cloudgan.core.thing import ThingCause
    from cloudgan.providers.aws.account import Account

_STATES: Final[Mapping[str, ThingState]] = {
    "ACTIVE": "ready",
    "CREATING": "making",
    "UPDATING": "making",
    "DELETING": "leaving",
    "CREATE_FAILED": "failed",
    "DELETE_FAILED": "failed",
    "DEGRADED": "failed",
}
_END, _SIZE = "PutScheduledUpdateGroupAction", "UpdateNodegroupConfig"
_LATE_SECONDS: Final = 600
"""An end that a try before this one arranged will do if it is not much earlier."""


class NodeGroups:
    """Node groups with the scaling groups behind them, which really make the machines."""

    kind = "EKS node group"

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Thing | None:
        """Returns the node group, its arranged end, or its machines, whichever the step wants."""
        name = str(step.find)
        if step.method == _END:
            return self._end(name, _seconds(step))
        if step.method == _SIZE:
            return self._filled(name, _wanted(step))
        return self.look(name)

    def create(self, step: Step) -> None:
        """Sends a step's request; only now it is known how EKS named the scaling group."""
        if step.method != _END:
            send(self._account, step)
            return
        group = self._group_of(str(step.find))
        if group is None:
            raise LaunchError(f"node group {step.find} has no scaling group, or is gone")
        at = utc_moment() + dt.timedelta(seconds=_seconds(step))
        sent = {"AutoScalingGroupName": group, "StartTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        send(self._account, step, (step.body if isinstance(step.body, dict) else {}) | sent)

    def look(self, name: str) -> Thing | None:
        """Returns a node group as it is now, with the machines that it has."""
        found = self._describe(name)
        if found is None:
            return None
        thing = _node_group(name, found)
        group = self._group(name.partition("/")[0], _group_name(found))
        return replace(thing, nodes=len(group.get("Instances", ())) if group else 0)

    def delete(self, name: str) -> None:
        """Asks for deletion, which removes its machines and the scaling group."""
        region, cluster, pool = name.split("/")
        which = {"clusterName": cluster, "nodegroupName": pool}
        ask_if_there(self._account, "eks", region, "DeleteNodegroup", **which)

    def names(self, cluster: str) -> Iterator[str]:
        """Yields the names of a cluster's node groups, whosever they are."""
        region, _, name = cluster.partition("/")
        listed = self._account.all(
            "eks", region, "ListNodegroups", of="nodegroups", clusterName=name
        )
        for pool in listed:
            yield f"{cluster}/{pool}"

    def _end(self, name: str, seconds: float) -> Thing | None:
        """The group, where its end is arranged and not before the job may need its nodes."""
        found = self._describe(name)
        if found is None:
            return None
        asked = {"AutoScalingGroupName": _group_name(found)}
        planned = self._account.all(
            "autoscaling",
            name.partition("/")[0],
            "DescribeScheduledActions",
            of="ScheduledUpdateGroupActions",
            **asked,
        )
        earliest = utc_moment() + dt.timedelta(seconds=seconds - _LATE_SECONDS)
        ends = [one["StartTime"] for one in planned if one.get("DesiredCapacity") == 0]
        return _node_group(name, found) if ends and min(ends) >= earliest else None

    def _filled(self, name: str, wanted: int) -> Thing | None:
        """The group as large as wanted; None: nobody has asked for that yet."""
        found = self._describe(name)
        if found is None:
            return None
        region, thing = name.partition("/")[0], replace(_node_group(name, found), nodes=wanted)
        if thing.state in ("leaving", "failed"):
            return thing
        group = self._group(region, _group_name(found)) or {}
        if group.get("DesiredCapacity") != wanted:
            return thing if found["status"] == "UPDATING" else None
        up = [one for one in group["Instances"] if one["LifecycleState"] == "InService"]
        if len(up) >= wanted:
            return replace(thing, state="ready")
        why, cause = self._why_not(region, str(group["AutoScalingGroupName"]))
        if cause:
            return replace(thing, state="failed", why=why, cause=cause)
        waiting = f"{len(up)} of {wanted} machines run"
        return replace(thing, state="making", why=f"{waiting}: {why}" if why else waiting)

    def _why_not(self, region: str, group: str) -> tuple[str, ThingCause]:
        """Why the newest try to start a machine failed; EKS tells that only much later."""
        asked = {"AutoScalingGroupName": group, "MaxRecords": 20}
        found = self._account.ask("autoscaling", region, "DescribeScalingActivities", asked)
        newest = max(found["Activities"], key=lambda one: one["StartTime"], default=None)
        if newest is None or newest["StatusCode"] != "Failed":
            return "", ""
        said = " ".join(str(newest.get("StatusMessage", "")).split())
        return said, cause_of(said)

    def _describe(self, name: str) -> dict[str, Any] | None:
        region, cluster, pool = name.split("/")
        which = {"clusterName": cluster, "nodegroupName": pool}
        found = ask_if_there(self._account, "eks", region, "DescribeNodegroup", **which)
        return found["nodegroup"] if found else None

    def _group_of(self, name: str) -> str | None:
        found = self._describe(name)
        return _group_name(found) or None if found else None

    def _group(self, region: str, name: str) -> dict[str, Any] | None:
        if not name:
            return None
        asked = {"AutoScalingGroupNames": [name]}
        found = self._account.ask("autoscaling", region, "DescribeAutoScalingGroups", asked)
        return next(iter(found["AutoScalingGroups"]), None)


def _node_group(name: str, found: Mapping[str, Any]) -> Thing:
    why = issues(found)
    made = found.get("createdAt")
    return Thing(
        kind=NodeGroups.kind,
        name=name,
        state=_STATES.get(found["status"], "making"),
        labels=found.get("tags", {}),
        region=name.partition("/")[0],
        why=why,
        cause=cause_of(why),
        rank=POOL_RANK,
        made=made.isoformat() if made else None,
        node_type=next(iter(found.get("instanceTypes") or ()), None),
        market="spot" if found.get("capacityType") == "SPOT" else "on_demand",
        parent=name.rpartition("/")[0],
    )


def _group_name(found: Mapping[str, Any]) -> str:
    groups = (found.get("resources") or {}).get("autoScalingGroups") or [{}]
    return str(groups[0].get("name", ""))


def _wanted(step: Step) -> int:
    body: Any = step.body
    return int(body["scalingConfig"]["desiredSize"])


def _seconds(step: Step) -> float:
    """How long from now, as the plan writes it in place of a moment that it cannot know."""
    body: Any = step.body
    found = re.search(r"\d+", body["StartTime"])
    assert found is not None  # noqa: S101  requests.py writes it
    return float(found.group())
