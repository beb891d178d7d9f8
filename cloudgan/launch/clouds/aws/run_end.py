"""The end of a run that no launcher follows: EventBridge Scheduler deletes its node group, then the cluster.

A run has a schedule group with its tags, since schedules have none, and in it two schedules that call EKS
once an hour for a day: DeleteNodegroup for the node group of the run, and DeleteCluster. EKS refuses
DeleteCluster while a node group is attached ("you must delete them first",
https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCluster.html), so the schedule of one run cannot
end the cluster of another that has nodes. No program of ours runs: a schedule calls the operation itself
(https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html), with the role
`cloudgan-end`. Members of its input are in PascalCase: a public configuration reports a ValidationException
for EKS' own camelCase. All read 2026-11-23.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.labels import derived_name
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.error_mapping import RefusedError
from cloudgan.launch.clouds.aws.resource_handler import (
    END_RANK,
    GONE,
    request_if_exists,
    send,
    tags_of,
)
from cloudgan.schema.plan import Step
from cloudgan.schema.resource import Resource, ResourceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Plan

_LONGEST_GROUP: Final = 64
_CLUSTER_SECONDS: Final = 2400
"""Longest wait for a new cluster."""
_SPARE_SECONDS: Final = 3600
"""For the copy of the results by a launcher that works."""
_DAY_SECONDS: Final = 24 * 3600
_LATE_SECONDS: Final = 600
"""Tolerance for the schedules of a previous attempt."""
_STATES: Final[Mapping[str, ResourceState]] = {"ACTIVE": "ready", "DELETING": "deleting"}


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps that end a run without a launcher, before anything that is billed.

    With --keep-cluster only the node group ends.
    """
    pool = plan.node_pool
    assert pool is not None  # noqa: S101  a plan of a cloud has one
    limits, region = plan.limits, str(plan.target.region)
    jobs = (limits.deadline_seconds + pool.keep_seconds) * pool.served_runs
    seconds = jobs + 2 * limits.gang_timeout_seconds + _CLUSTER_SECONDS + _SPARE_SECONDS
    name = group_name(plan)
    tags = [{"Key": key, "Value": value} for key, value in plan.labels().as_dict().items()]
    own = {"ClusterName": plan.target.cluster, "NodegroupName": pool.name}
    found = [
        _step("schedules", "CreateScheduleGroup", region, name, {"Name": name, "Tags": tags}),
        _schedule(plan, "nodes", "deleteNodegroup", own, seconds),
    ]
    if not pool.keep_cluster:
        named = {"Name": plan.target.cluster}
        found.append(_schedule(plan, "cluster", "deleteCluster", named, seconds))
    return tuple(found)


def group_name(plan: Plan) -> str:
    """Returns the name of a run's schedule group."""
    longest = _LONGEST_GROUP - len(naming.PREFIX)
    return naming.PREFIX + derived_name(plan.run, plan.spec_hash, longest)


def _schedule(
    plan: Plan, name: str, operation: str, arguments: Mapping[str, Any], seconds: float
) -> Step:
    group = group_name(plan)
    body = {
        "Name": name,
        "GroupName": group,
        "ScheduleExpression": "rate(1 hours)",
        "StartDate": f"<now + {seconds:.0f} s>",
        "EndDate": f"<now + {seconds + _DAY_SECONDS:.0f} s>",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": f"arn:aws:scheduler:::aws-sdk:eks:{operation}",
            "RoleArn": naming.role_arn(str(plan.target.account), naming.END_ROLE),
            "Input": json.dumps(arguments),
            "RetryPolicy": {"MaximumRetryAttempts": 0},  # the next hour is the next attempt
        },
    }
    what = {"nodes": "node group", "cluster": "unused cluster"}[name]
    ensure = f"{what} is deleted after {seconds / 3600:.3g} h without a launcher"
    return _step(ensure, "CreateSchedule", str(plan.target.region), f"{group}/{name}", body)


def _step(ensure: str, method: str, region: str, find: str, body: dict[str, Any]) -> Step:
    path = naming.endpoint("scheduler", region)
    full = f"{region}/{find}"
    return Step(ensure=ensure, method=method, path=path, find=full, at="cloud", body=body)


class RunEnds:
    """Handler of the schedule groups of runs; a resource's name is region and group."""

    kind = "EventBridge schedule group"

    def __init__(self, account: Account) -> None:
        self._account = account
        self._ensured: dict[str, dict[str, Step]] = {}
        """Steps by group, in order: the group, then its schedules."""

    def find(self, step: Step) -> Resource | None:
        """Returns the group, if it has the schedule of the step, not much earlier than that."""
        region, group, *schedule = str(step.find).split("/")
        self._ensured.setdefault(group, {})[str(step.find)] = step
        found = self.refresh(f"{region}/{group}")
        if found is None or not schedule or found.state != "ready":
            return found
        query = {"GroupName": group, "Name": schedule[0]}
        there = request_if_exists(self._account, "scheduler", region, "GetSchedule", **query)
        earliest = _moment(step, "StartDate") - dt.timedelta(seconds=_LATE_SECONDS)
        return found if there and there["StartDate"] >= earliest else None

    def create(self, step: Step) -> None:
        """Creates the group or a schedule; a schedule of a previous attempt is moved.

        A group that was being deleted is gone with its schedules: all are created again.
        """
        try:
            self._send(step)
        except RefusedError as error:
            group = self._ensured.get(str(step.find).split("/")[1], {})
            if step.method != "CreateSchedule" or error.code not in GONE or not group:
                raise
            for one in group.values():
                self._send(one)

    def _send(self, step: Step) -> None:
        if step.method != "CreateSchedule":
            send(self._account, step)
            return
        body: Any = step.body
        sent = body | {name: _moment(step, name) for name in ("StartDate", "EndDate")}
        try:
            send(self._account, step, sent)
        except RefusedError as error:
            if error.code != "ConflictException":
                raise
            region = step.path.partition("/")[2]
            self._account.request("scheduler", region, "UpdateSchedule", sent)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a group."""
        region, _, group = name.partition("/")
        found = request_if_exists(
            self._account, "scheduler", region, "GetScheduleGroup", Name=group
        )
        return self._resource(region, found) if found else None

    def delete(self, name: str) -> None:
        """Deletes a group with its schedules."""
        region, _, group = name.partition("/")
        request_if_exists(self._account, "scheduler", region, "DeleteScheduleGroup", Name=group)

    def list_resources(self, region: str) -> Iterator[Resource | None]:
        """Yields the groups of runs in a region."""
        for found in self._account.list_all(
            "scheduler", region, "ListScheduleGroups", "ScheduleGroups", NamePrefix=naming.PREFIX
        ):
            yield self._resource(region, found)

    def _resource(self, region: str, found: Mapping[str, Any]) -> Resource | None:
        tags = request_if_exists(
            self._account, "scheduler", region, "ListTagsForResource", ResourceArn=found["Arn"]
        )
        if tags is None:
            return None
        return Resource(
            kind=self.kind,
            name=f"{region}/{found['Name']}",
            state=_STATES[found["State"]],
            labels=tags_of(tags.get("Tags")),
            region=region,
            deletion_order=END_RANK,
            created_at=found["CreationDate"].isoformat(),
            is_free=True,
        )


def _moment(step: Step, name: str) -> dt.datetime:
    """Returns a time for the delay that the plan holds in its place."""
    body: Any = step.body
    found = re.search(r"\d+", body[name])
    assert found is not None  # noqa: S101  `_schedule` writes it
    return utc_moment() + dt.timedelta(seconds=float(found.group()))
