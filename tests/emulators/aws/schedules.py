"""EventBridge Scheduler: groups of schedules that call an operation of EKS with a role."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from emulators.aws.authorizations import authorizations
from emulators.aws.eks import Eks
from emulators.aws.iam_policies import is_allowed
from emulators.aws.state import ACCOUNT, Body, ScheduleGroup, Service, State, now, roles
from emulators.aws.wire import Call, Refusal, model

TARGET = "arn:aws:scheduler:::aws-sdk:eks:"
HOURLY = "rate(1 hours)"


class Schedules(Service):
    """Answers for EventBridge Scheduler; `refusals` are those of EKS, which it does not report."""

    def __init__(self, state: State, eks: Eks) -> None:
        self._state, self._eks = state, eks
        self.refusals: list[str] = []

    def CreateScheduleGroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        name = asked["Name"]
        if (region, name) in self._state.ends:
            raise Refusal("ConflictException", f"Schedule group {name} already exists.", 409)
        self._state.ends[region, name] = ScheduleGroup(asked.get("Tags", []))
        return {"ScheduleGroupArn": _arn(region, name)}

    def GetScheduleGroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        found = self._group(region, asked["Name"])
        if found.status == "DELETING":  # gone at the next request
            del self._state.ends[region, asked["Name"]]
        return _shown(region, asked["Name"], found)

    def ListScheduleGroups(self, region: str, asked: Body) -> Body:  # noqa: N802
        prefix = asked.get("NamePrefix", "")
        found = [
            _shown(region, name, group)
            for (at, name), group in self._state.ends.items()
            if at == region and name.startswith(prefix)
        ]
        return {"ScheduleGroups": found}

    def DeleteScheduleGroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        group = self._group(region, asked["Name"])
        group.status, group.schedules = "DELETING", {}
        return {}

    def ListTagsForResource(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"Tags": self._group(region, asked["ResourceArn"].rpartition("/")[2]).tags}

    def CreateSchedule(self, region: str, asked: Body) -> Body:  # noqa: N802
        group, name = self._group(region, asked["GroupName"]), asked["Name"]
        if group.status != "ACTIVE" or name in group.schedules:
            raise Refusal("ConflictException", f"Schedule {name} already exists.", 409)
        return self._put(region, group, asked)

    def UpdateSchedule(self, region: str, asked: Body) -> Body:  # noqa: N802
        group = self._group(region, asked["GroupName"])
        self._schedule(group, asked["Name"])
        return self._put(region, group, asked)

    def GetSchedule(self, region: str, asked: Body) -> Body:  # noqa: N802
        found = self._schedule(self._group(region, asked["GroupName"]), asked["Name"])
        keys = ("Name", "GroupName", "ScheduleExpression", "StartDate", "EndDate", "Target")
        return {key: found[key] for key in keys}

    def _put(self, region: str, group: ScheduleGroup, asked: Body) -> Body:
        """Refuses what Scheduler refuses when a schedule is created.

        Members that are not in PascalCase, a role that it may not assume ("The execution role you provide
        must allow AWS EventBridge Scheduler to assume the role"), times in the wrong order:
        https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html and public
        configurations that name these answers (read 2026-11-23).
        """
        _operation(asked["Target"])
        documents, trust = _role(asked["Target"]["RoleArn"])
        principal = trust["Statement"][0]["Principal"]["Service"] if trust else ""
        if principal != "scheduler.amazonaws.com" or documents is None:
            text = (
                "The execution role you provide must allow AWS EventBridge Scheduler to assume it"
            )
            raise Refusal("ValidationException", text)
        times = {key: asked[key] for key in ("StartDate", "EndDate")}
        asked = asked | {
            key: one.replace(tzinfo=one.tzinfo or dt.UTC) for key, one in times.items()
        }
        if not now() - dt.timedelta(minutes=5) <= asked["StartDate"] < asked["EndDate"]:
            raise Refusal("ValidationException", "The StartDate must be before the EndDate")
        assert asked["ScheduleExpression"] == HOURLY, "no other expression is emulated"
        group.schedules[asked["Name"]] = asked
        return {"ScheduleArn": f"{_arn(region, asked['GroupName'])}/{asked['Name']}"}

    def pass_time(self, seconds: float) -> None:
        """Calls the targets that are due until a time, in order; a finished schedule is deleted."""
        until, hour = now() + dt.timedelta(seconds=seconds), dt.timedelta(hours=1)
        for plane in self._state.planes.values():
            for pool in plane.pools.values():
                pool.status, pool.pending = pool.after, 0  # a change takes minutes
        due: list[tuple[dt.datetime, str, Body]] = []
        for (region, _), group in self._state.ends.items():
            for one in group.schedules.values():
                at = one["StartDate"]
                while at <= min(until, one["EndDate"]):
                    due.append((at, region, one))
                    at += hour
            ended = [name for name, one in group.schedules.items() if one["EndDate"] <= until]
            for name in ended:
                del group.schedules[name]
        for _, region, one in sorted(due, key=lambda each: each[0]):
            try:
                self._call(region, one["Target"])
            except Refusal as refusal:
                self.refusals.append(f"{refusal.code}: {refusal.message}")

    def _call(self, region: str, target: Body) -> None:
        operation, arguments = _operation(target)
        call = Call("eks", region, operation, arguments, None)  # type: ignore[arg-type]
        documents, _ = _role(target["RoleArn"])
        for one in authorizations(call, self._state):
            if documents is None or not is_allowed(documents, one):
                raise Refusal("AccessDeniedException", f"not authorized to perform: {one.action}")
        self._eks.answer(call)
        call = call._replace(operation=operation.replace("Delete", "Describe"))
        try:  # the deletion, which takes minutes, ends before the next hour
            while True:
                self._eks.answer(call)
        except Refusal as refusal:
            if refusal.code != "ResourceNotFoundException":
                raise

    def _group(self, region: str, name: str) -> ScheduleGroup:
        found = self._state.ends.get((region, name))
        if found is None:
            text = f"Schedule group {name} does not exist."
            raise Refusal("ResourceNotFoundException", text, 404)
        return found

    @staticmethod
    def _schedule(group: ScheduleGroup, name: str) -> Body:
        if name not in group.schedules:
            raise Refusal("ResourceNotFoundException", f"Schedule {name} does not exist.", 404)
        return group.schedules[name]


def _operation(target: Body) -> tuple[str, Body]:
    """Returns the operation of a universal target with its arguments, as EKS names them."""
    assert target["Arn"].startswith(TARGET), "no other service is emulated"
    name = target["Arn"].removeprefix(TARGET)
    operation = name[0].upper() + name[1:]
    shape = model("eks").operation_model(operation).input_shape
    known = {one[0].upper() + one[1:]: one for one in shape.members}
    given = json.loads(target["Input"])
    missing = {one[0].upper() + one[1:] for one in shape.required_members} - set(given)
    if missing or set(given) - set(known) or name[0].isupper():
        text = f"Invalid RequestJson provided. Reason: missing or unknown members {sorted(missing)}"
        raise Refusal("ValidationException", text)
    return operation, {known[key]: value for key, value in given.items()}


def _role(arn: str) -> tuple[list[Any] | None, Any]:
    """Returns the policies of a role and its trust policy; None: there is no such role."""
    if (one := roles().get(arn)) is None:
        return None, None
    documents = [_parsed(text) for text in one.policies.values()]
    return documents, _parsed(one.assume_role_policy_document)


def _parsed(document: Any) -> Any:
    return json.loads(document) if isinstance(document, str) else document


def _arn(region: str, name: str) -> str:
    return f"arn:aws:scheduler:{region}:{ACCOUNT}:schedule-group/{name}"


def _shown(region: str, name: str, group: ScheduleGroup) -> Body:
    found = {"Arn": _arn(region, name), "Name": name, "State": group.status}
    return found | {"CreationDate": group.made, "LastModificationDate": group.made}
