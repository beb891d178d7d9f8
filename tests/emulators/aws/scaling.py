"""Auto Scaling: groups with their instances and scheduled actions."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Any

from emulators.aws.state import Body, Group, Service, State, machine_id, now
from emulators.aws.wire import Refusal
from emulators.nodes import Nodes


class Scaling(Service):
    """Auto Scaling; its instances are `nodes` of one GPU."""

    def __init__(self, state: State) -> None:
        self._state, self.nodes = state, Nodes()

    def resize(self, group: Group, desired: int) -> None:
        """Creates or deletes machines; creates none without capacity."""
        group.desired = desired
        why = self._state.sold_out.get(group.node_type) or self._unreserved(group, desired)
        while len(group.machines) < desired:
            if why:
                self._note(group, "Failed", why)
                return
            name = machine_id()
            group.machines.append(name)
            self._note(group, "Successful", f"Launching a new EC2 instance: {name}")
            labels = group.labels | {"node.kubernetes.io/instance-type": group.node_type}
            self.nodes.come(name, hidden_gpus=1, labels=labels)
        while len(group.machines) > desired:
            self.nodes.go(group.machines.pop())

    def _unreserved(self, group: Group, desired: int) -> str:
        """Why a reservation does not serve a group; the code is that of EC2, the text is not."""
        if not group.reservation:
            return ""
        found = self._state.networks[group.region].reservations.get(group.reservation, {})
        fits = found.get("InstanceType") == group.node_type and found.get("State") == "active"
        if fits and found["AvailableInstanceCount"] >= desired:
            return ""
        return f"ReservationCapacityExceeded: {group.reservation} has no free {group.node_type}."

    def pass_time(self, seconds: float) -> None:
        """Runs the actions that are scheduled until a time."""
        until = now() + dt.timedelta(seconds=seconds)
        for group in self._state.groups():
            for plan in [one for one in group.planned.values() if one["StartTime"] <= until]:
                group.smallest = plan.get("MinSize", group.smallest)
                self.resize(group, plan.get("DesiredCapacity", group.desired))

    def DescribeAutoScalingGroups(self, region: str, asked: Body) -> Body:  # noqa: N802
        names = asked["AutoScalingGroupNames"]
        found = [one for one in self._state.groups() if one.region == region and one.name in names]
        return {"AutoScalingGroups": [_shown(one) for one in found]}

    def DescribeScalingActivities(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"Activities": self._group(region, asked).activities[::-1][: asked["MaxRecords"]]}

    def DescribeScheduledActions(self, region: str, asked: Body) -> Body:  # noqa: N802
        planned = self._group(region, asked).planned
        return {"ScheduledUpdateGroupActions": list(planned.values())}

    def PutScheduledUpdateGroupAction(self, region: str, asked: Body) -> Body:  # noqa: N802
        group = self._group(region, asked)
        asked = asked | {"StartTime": asked["StartTime"].replace(tzinfo=dt.UTC)}
        if asked["StartTime"] <= now():
            raise Refusal("ValidationError", "Given start time is in the past")
        group.planned[asked["ScheduledActionName"]] = asked
        return {}

    def _group(self, region: str, asked: Body) -> Group:
        for one in self._state.groups():
            if (one.region, one.name) == (region, asked["AutoScalingGroupName"]):
                return one
        raise Refusal("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup gone")

    @staticmethod
    def _note(group: Group, status: str, said: str) -> None:
        group.activities.append(
            {
                "ActivityId": secrets.token_hex(8),
                "AutoScalingGroupName": group.name,
                "Cause": "a difference between desired and actual capacity",
                "StartTime": now(),
                "StatusCode": status,
                "StatusMessage": said,
            }
        )


def _shown(group: Group) -> Body:
    zone = f"{group.region}a"
    machines: list[dict[str, Any]] = [
        {
            "InstanceId": name,
            "AvailabilityZone": zone,
            "LifecycleState": "InService",
            "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
        }
        for name in group.machines
    ]
    return {
        "AutoScalingGroupName": group.name,
        "MinSize": group.smallest,
        "MaxSize": group.largest,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": 300,
        "AvailabilityZones": [zone],
        "HealthCheckType": "EC2",
        "CreatedTime": now(),
        "Instances": machines,
    }
