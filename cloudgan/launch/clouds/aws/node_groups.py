"""EKS node groups: created empty, given a scheduled end, then scaled to the run's size."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import LaunchError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.clusters import issues
from cloudgan.launch.clouds.aws.error_mapping import cause_of, is_permanent
from cloudgan.launch.clouds.aws.resource_handler import POOL_RANK, request_if_exists, send
from cloudgan.schema.resource import Resource, ResourceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Step
    from cloudgan.schema.resource import ResourceCause

_STATES: Final[Mapping[str, ResourceState]] = {
    "ACTIVE": "ready",
    "CREATING": "creating",
    "UPDATING": "creating",
    "DELETING": "deleting",
    "CREATE_FAILED": "failed",
    "DELETE_FAILED": "failed",
    "DEGRADED": "failed",
}
_END, _SIZE = "PutScheduledUpdateGroupAction", "UpdateNodegroupConfig"
_LATE_SECONDS: Final = 600
"""Tolerance for the scheduled end of a previous attempt."""


class NodeGroups:
    """Handler of node groups and their Auto Scaling groups, which start the instances."""

    kind = "EKS node group"

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Resource | None:
        """Returns the node group, if it has the scheduled end or the size of the step."""
        name = str(step.find)
        if step.method == _END:
            return self._end(name, _seconds(step))
        if step.method == _SIZE:
            return self._filled(name, _size(step))
        return self.refresh(name)

    def create(self, step: Step) -> None:
        """Sends a step's request; fills in the Auto Scaling group that EKS has named."""
        if step.method != _END:
            send(self._account, step)
            return
        group = self._group_of(str(step.find))
        if group is None:
            raise LaunchError(f"node group {step.find} has no Auto Scaling group, or is gone")
        at = utc_moment() + dt.timedelta(seconds=_seconds(step))
        sent = {"AutoScalingGroupName": group, "StartTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        send(self._account, step, (step.body if isinstance(step.body, dict) else {}) | sent)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a node group with its number of instances."""
        found = self._describe(name)
        if found is None:
            return None
        resource = _node_group(name, found)
        group = self._group(name.partition("/")[0], _group_name(found))
        return replace(resource, nodes=len(group.get("Instances", ())) if group else 0)

    def delete(self, name: str) -> None:
        """Requests deletion, including instances and Auto Scaling group."""
        region, cluster, pool = name.split("/")
        which = {"clusterName": cluster, "nodegroupName": pool}
        request_if_exists(self._account, "eks", region, "DeleteNodegroup", **which)

    def names(self, cluster: str) -> Iterator[str]:
        """Yields the names of a cluster's node groups."""
        region, _, name = cluster.partition("/")
        listed = self._account.list_all(
            "eks", region, "ListNodegroups", "nodegroups", clusterName=name
        )
        for pool in listed:
            yield f"{cluster}/{pool}"

    def _end(self, name: str, seconds: float) -> Resource | None:
        """Returns the group, if its scheduled end is not before the job's deadline."""
        found = self._describe(name)
        if found is None:
            return None
        query = {"AutoScalingGroupName": _group_name(found)}
        planned = self._account.list_all(
            "autoscaling",
            name.partition("/")[0],
            "DescribeScheduledActions",
            "ScheduledUpdateGroupActions",
            **query,
        )
        earliest = utc_moment() + dt.timedelta(seconds=seconds - _LATE_SECONDS)
        ends = [one["StartTime"] for one in planned if one.get("DesiredCapacity") == 0]
        return _node_group(name, found) if ends and min(ends) >= earliest else None

    def _filled(self, name: str, wanted: int) -> Resource | None:
        """Returns the group of the wanted size; None before the request for that size."""
        found = self._describe(name)
        if found is None:
            return None
        region, resource = name.partition("/")[0], replace(_node_group(name, found), nodes=wanted)
        if resource.state in ("deleting", "failed"):
            return resource
        group = self._group(region, _group_name(found)) or {}
        if group.get("DesiredCapacity") != wanted:
            return resource if found["status"] == "UPDATING" else None
        up = [one for one in group["Instances"] if one["LifecycleState"] == "InService"]
        if len(up) >= wanted:
            return replace(resource, state="ready")
        why, cause = self._why_not(region, str(group["AutoScalingGroupName"]))
        if cause or is_permanent(why):
            return replace(resource, state="failed", reason=why, cause=cause)
        waiting = f"{len(up)} of {wanted} instances run"
        return replace(resource, state="creating", reason=f"{waiting}: {why}" if why else waiting)

    def _why_not(self, region: str, group: str) -> tuple[str, ResourceCause]:
        """Returns why the latest start of an instance failed; EKS reports it much later."""
        query = {"AutoScalingGroupName": group, "MaxRecords": 20}
        found = self._account.request("autoscaling", region, "DescribeScalingActivities", query)
        newest = max(found["Activities"], key=lambda one: one["StartTime"], default=None)
        if newest is None or newest["StatusCode"] != "Failed":
            return "", ""
        message = " ".join(str(newest.get("StatusMessage", "")).split())
        return message, cause_of(message)

    def _describe(self, name: str) -> dict[str, Any] | None:
        region, cluster, pool = name.split("/")
        which = {"clusterName": cluster, "nodegroupName": pool}
        found = request_if_exists(self._account, "eks", region, "DescribeNodegroup", **which)
        return found["nodegroup"] if found else None

    def _group_of(self, name: str) -> str | None:
        found = self._describe(name)
        return _group_name(found) or None if found else None

    def _group(self, region: str, name: str) -> dict[str, Any] | None:
        if not name:
            return None
        query = {"AutoScalingGroupNames": [name]}
        found = self._account.request("autoscaling", region, "DescribeAutoScalingGroups", query)
        return next(iter(found["AutoScalingGroups"]), None)


def _node_group(name: str, found: Mapping[str, Any]) -> Resource:
    why = issues(found)
    created = found.get("createdAt")
    return Resource(
        kind=NodeGroups.kind,
        name=name,
        state=_STATES.get(found["status"], "creating"),
        labels=found.get("tags", {}),
        region=name.partition("/")[0],
        reason=why,
        cause=cause_of(why),
        deletion_order=POOL_RANK,
        created_at=created.isoformat() if created else None,
        node_type=next(
            iter(found.get("instanceTypes") or ()), found.get("tags", {}).get(naming.NODE_TYPE)
        ),
        market="spot" if found.get("capacityType") == "SPOT" else "on_demand",
        parent=name.rpartition("/")[0],
    )


def _group_name(found: Mapping[str, Any]) -> str:
    groups = (found.get("resources") or {}).get("autoScalingGroups") or [{}]
    return str(groups[0].get("name", ""))


def _size(step: Step) -> int:
    body: Any = step.body
    return int(body["scalingConfig"]["desiredSize"])


def _seconds(step: Step) -> float:
    """Returns the delay that the plan holds in place of a time."""
    body: Any = step.body
    found = re.search(r"\d+", body["StartTime"])
    assert found is not None  # noqa: S101  planner.py writes it
    return float(found.group())
