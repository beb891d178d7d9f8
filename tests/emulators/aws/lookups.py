"""Read-only data: regions, subnets, offers, orphaned resources, quotas, permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

from emulators.aws.iam_policies import Authorization, Document, is_allowed
from emulators.aws.state import ACCOUNT, REGIONS, Body, Service, State, now
from emulators.aws.wire import Call, Refusal

OFFERED = {"g4dn.xlarge": "abc", "g5.xlarge": "ab", "p4de.24xlarge": "a", "p5.48xlarge": "b"}
"""Zones of each region in which an instance type is sold."""
ONLY_IN = {"p4de.24xlarge": "us-west-2"}
"""Region of an instance type that the others do not have."""
SPOT_USD = "0.2386"


class Ec2(Service):
    """Answers for the parts of EC2 that a run uses."""

    def __init__(self, state: State) -> None:
        self._state = state

    def answer(self, call: Call) -> Body:
        if found := ON_LEFT.fullmatch(call.operation):
            does = self._left if found[1] == "Describe" else self._delete
            return does(call.region, found[2], call.asked)
        return super().answer(call)

    def DescribeRegions(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"Regions": [{"RegionName": one} for one in REGIONS]}

    def DescribeSubnets(self, region: str, asked: Body) -> Body:  # noqa: N802
        found = self._state.networks[region].subnets
        for one in asked.get("Filters", ()):
            key = {"default-for-az": "DefaultForAz", "vpc-id": "VpcId"}[one["Name"]]
            values = [str(value).lower() for value in one["Values"]]
            found = [subnet for subnet in found if str(subnet[key]).lower() in values]
        return {"Subnets": found}

    def DescribeInstanceTypeOfferings(self, region: str, asked: Body) -> Body:  # noqa: N802
        (name,) = asked["Filters"][0]["Values"]
        zones = OFFERED.get(name, "") if ONLY_IN.get(name, region) == region else ""
        how = {"InstanceType": name, "LocationType": asked["LocationType"]}
        return {"InstanceTypeOfferings": [how | {"Location": f"{region}{one}"} for one in zones]}

    def DescribeSpotPriceHistory(self, region: str, asked: Body) -> Body:  # noqa: N802
        zones = [(name, one) for name in asked["InstanceTypes"] for one in OFFERED.get(name, "")]
        how = {"ProductDescription": "Linux/UNIX", "SpotPrice": SPOT_USD, "Timestamp": now()}
        outcome = [
            how | {"InstanceType": name, "AvailabilityZone": f"{region}{one}"}
            for name, one in zones
        ]
        return {"SpotPriceHistory": outcome}

    def DescribeCapacityReservations(self, region: str, asked: Body) -> Body:  # noqa: N802
        there = self._state.networks[region].reservations
        names = asked["CapacityReservationIds"]
        if missing := [one for one in names if one not in there]:
            text = f"The capacity reservation '{missing[0]}' does not exist"
            raise Refusal("InvalidCapacityReservationId.NotFound", text)
        return {"CapacityReservations": [there[one] for one in names]}

    def CreateLaunchTemplate(self, region: str, asked: Body) -> Body:  # noqa: N802
        name, there = asked["LaunchTemplateName"], self._state.networks[region].templates
        if name in there:
            text = "Launch template name already in use."
            raise Refusal("InvalidLaunchTemplateName.AlreadyExistsException", text)
        tags = [tag for one in asked.get("TagSpecifications", ()) for tag in one["Tags"]]
        there[name] = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": asked["LaunchTemplateData"],
            "CreateTime": now(),
            "Tags": tags,
        }
        return {"LaunchTemplate": _shown(there[name])}

    def DescribeLaunchTemplates(self, region: str, asked: Body) -> Body:  # noqa: N802
        there = self._state.networks[region].templates
        names = asked.get("LaunchTemplateNames", list(there))
        if missing := [one for one in names if one not in there]:
            text = (
                f"The specified launch template, with template name {missing[0]}, does not exist."
            )
            raise Refusal("InvalidLaunchTemplateName.NotFoundException", text)
        keys = {value for one in asked.get("Filters", ()) for value in one["Values"]}
        found = [_shown(there[one]) for one in names]
        fitting = [one for one in found if keys <= {tag["Key"] for tag in one["Tags"]}]
        return {"LaunchTemplates": fitting}

    def DeleteLaunchTemplate(self, region: str, asked: Body) -> Body:  # noqa: N802
        name, there = asked["LaunchTemplateName"], self._state.networks[region].templates
        if name not in there:
            raise Refusal("InvalidLaunchTemplateName.NotFoundException", f"no template {name}")
        return {"LaunchTemplate": _shown(there.pop(name))}

    def _left(self, region: str, what: str, asked: Body) -> Body:
        """Describes what clusters left; EC2 describes instances in the reservations that started them."""
        row = LEFT[what]
        known = (*self._of_groups(region, what), *getattr(self._state.networks[region], row.place))
        found = [one for one in known if _fits(one, asked, row)]
        if what == "Instance":
            return {"Reservations": [{"Instances": [one]} for one in found]}
        return {f"{what}s": found}

    def _of_groups(self, region: str, what: str) -> list[Body]:
        """The instances of node groups: they have the tags of EKS itself, not those of their node group."""
        return [
            {
                "InstanceId": name,
                "InstanceType": pool.group.node_type,
                "State": {"Code": 16, "Name": "running"},
                "Tags": [
                    {"Key": "eks:cluster-name", "Value": cluster},
                    {"Key": "eks:nodegroup-name", "Value": own},
                ],
            }
            for (at, cluster), plane in self._state.planes.items()
            for own, pool in plane.pools.items()
            for name in pool.group.machines
            if at == region and what == "Instance"
        ]

    def _delete(self, region: str, what: str, asked: Body) -> Body:
        """Deletes one; instances stay in the list, as EC2's do for about an hour."""
        network, row = self._state.networks[region], LEFT[what]
        named = asked.get(row.key) or asked["InstanceIds"][0]
        there = getattr(network, row.place)
        found = next((one for one in there if one[row.key] == named), None)
        if what == "SecurityGroup" and network.cards:
            raise Refusal("DependencyViolation", "resource has a dependent object")
        if found is None:
            raise Refusal(row.absent)
        if what == "Volume" and found["State"] == "in-use":
            raise Refusal("VolumeInUse", "Volume is currently attached to an instance")
        if what == "Instance":
            found["State"] = {"Code": 48, "Name": "terminated"}
            return {"TerminatingInstances": []}
        there.remove(found)
        return {}


class Left(NamedTuple):
    """A kind of what clusters leave: its list in `Network`, key, filter by key, code of its absence."""

    place: str
    key: str
    name: str
    absent: str


LEFT = {
    "NetworkInterface": Left(
        "cards", "NetworkInterfaceId", "network-interface-id", "InvalidNetworkInterfaceID.NotFound"
    ),
    "SecurityGroup": Left("security_groups", "GroupId", "group-id", "InvalidGroup.NotFound"),
    "Instance": Left("instances", "InstanceId", "instance-id", "InvalidInstanceID.NotFound"),
    "Volume": Left("volumes", "VolumeId", "volume-id", "InvalidVolume.NotFound"),
}
ON_LEFT = re.compile(f"(Describe|Delete|Terminate)({'|'.join(LEFT)})s?")
"""Operations on what clusters leave."""


def _shown(template: Body) -> Body:
    return {key: value for key, value in template.items() if key != "LaunchTemplateData"}


def _fits(found: Body, asked: Body, row: Left) -> bool:
    tags = {one["Key"]: one["Value"] for one in found.get("TagSet") or found.get("Tags") or ()}
    for one in asked.get("Filters", ()):
        name, values = one["Name"], one["Values"]
        if name.startswith("tag:"):
            has = tags.get(name.removeprefix("tag:"))
        elif name == "status":
            has = found["State"] if row.place == "volumes" else found["Status"]
        elif name == "instance-state-name" and row.place == "instances":
            has = found["State"]["Name"]
        elif name == row.name:
            has = found[row.key]
        else:
            raise Refusal("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not any(fnmatchcase(has or "", value) for value in values):
            return False
    return True


class Quotas:
    """Answers for Service Quotas."""

    def __init__(self, state: State) -> None:
        self._state = state

    def answer(self, call: Call) -> Body:
        code = call.asked["QuotaCode"]
        if code not in self._state.quotas:
            raise Refusal("NoSuchResourceException", f"no quota {code}", 404)
        found = {"ServiceCode": call.asked["ServiceCode"], "QuotaCode": code}
        return {"Quota": found | {"Value": self._state.quotas[code]}}


PAGE = 10


class Simulator:
    """Answers which permissions a login has: those of its policies, except those that a test removed."""

    def __init__(self, state: State, grants: Callable[[], list[Document] | None]) -> None:
        self._state, self._grants = state, grants

    def answer(self, call: Call) -> Body:
        if ":assumed-role/" in call.asked["PolicySourceArn"]:
            raise Refusal("InvalidInput", "Invalid Entity Arn")
        # "IAM might return fewer than the MaxItems number of results, even when more results are available"
        # (https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html, read 2026-11-25).
        first = int(call.asked.get("Marker", 0))
        names = call.asked["ActionNames"][first : first + PAGE]
        is_truncated = len(call.asked["ActionNames"]) > first + PAGE
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": one,
                    "EvalDecision": "allowed" if self._has(one, call.asked) else "implicitDeny",
                }
                for one in names
            ],
            "IsTruncated": is_truncated,
            **({"Marker": str(first + PAGE)} if is_truncated else {}),
        }

    def _has(self, action: str, asked: Body) -> bool:
        grants = self._grants()
        context = {"aws:principalaccount": (ACCOUNT,)}
        for one in asked.get("ContextEntries", ()):
            service, slash, tag = one["ContextKeyName"].partition("/")
            context[f"{service.lower()}{slash}{tag}"] = tuple(one["ContextKeyValues"])
        return action not in self._state.denied and (
            grants is None
            or all(
                is_allowed(grants, Authorization(action, one, context))
                for one in asked["ResourceArns"]
            )
        )
