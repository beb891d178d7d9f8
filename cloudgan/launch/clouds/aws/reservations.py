"""Capacity reservations of EC2: On-Demand Capacity Reservations (ODCRs) and Capacity Blocks.

A node group uses a reservation only by a launch template that names it; a Capacity Block also needs the
instance type and a market type there, and the node group the capacity type CAPACITY_BLOCK
(https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html). A block is paid in advance,
and no operation of EC2 states its price: `DescribeCapacityBlocks` and `DescribeCapacityReservations` have
no such member in botocore's model. AWS ends its instances from 30 minutes before the end of a block on,
60 for UltraServers (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html; all read
2026-11-22).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import ConfigError, PlanError, shorten
from cloudgan.launch.clouds.aws.resource_handler import (
    ORPHAN_RANK,
    PlannedHandler,
    request_if_exists,
    tags_of,
)
from cloudgan.launch.clouds.planner import billed_by_reservation
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Plan

_ID: Final = re.compile(r"(block:)?(cr-[0-9a-f]{8,17})")
_END_SECONDS: Final = 30 * 60
_ULTRA_END_SECONDS: Final = 60 * 60


class Reservation(NamedTuple):
    """A reservation by its id.

    Attributes:
        name: Such as cr-0123456789abcdef0.
        is_block: Whether it is a Capacity Block, not an ODCR.
    """

    name: str
    is_block: bool

    @property
    def note(self) -> str:
        """Note on the cost of its nodes."""
        if not self.is_block:
            return billed_by_reservation(self.name)
        return (
            f"Capacity Block {self.name} was paid in advance, and no API of AWS states its price: the cost"
            " of these nodes is unknown, and the block costs the same without this run"
        )


def parse(text: str) -> Reservation:
    """Returns the reservation that --reservation names.

    Raises:
        ConfigError: It is no id.
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"--reservation={shorten(text)} is not valid: give the id of an On-Demand Capacity Reservation,"
            " such as cr-0123456789abcdef0, or block: and the id of a Capacity Block"
        )
    return Reservation(found[2], bool(found[1]))


def template_name(plan: Plan) -> str:
    """Returns the name of a plan's launch template: another reservation needs another one."""
    pool = plan.node_pool
    assert pool is not None  # noqa: S101  the caller has one with a reservation
    return f"{pool.name}-{parse(str(pool.reservation)).name.removeprefix('cr-')}"


def template_body(plan: Plan, disk_gib: int) -> dict[str, Any]:
    """Returns the launch template of a node group; it has what the node group may then not have."""
    pool = plan.node_pool
    assert pool is not None  # noqa: S101  the caller has one with a reservation
    one = parse(str(pool.reservation))
    disk = {"VolumeSize": disk_gib, "VolumeType": "gp3", "DeleteOnTermination": True}
    data: dict[str, Any] = {
        "InstanceType": pool.node_type,
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": disk}],
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": one.name}
        },
    }
    if one.is_block:
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    labels = [{"Key": key, "Value": value} for key, value in plan.labels().as_dict().items()]
    return {
        "LaunchTemplateName": template_name(plan),
        "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": labels}],
    }


def reserved_zone(account: Account, plan: Plan) -> str:
    """Returns the zone of a plan's reservation.

    Raises:
        PlanError: The reservation does not exist in the plan's region, or cannot serve the plan.
    """
    assert plan.node_pool is not None  # noqa: S101  the caller checked
    region, one = str(plan.target.region), parse(str(plan.node_pool.reservation))
    query = {"CapacityReservationIds": [one.name]}
    found = request_if_exists(account, "ec2", region, "DescribeCapacityReservations", **query)
    listed = found["CapacityReservations"] if found else []
    if not listed:
        raise PlanError(f"this account has no capacity reservation {one.name} in {region}")
    if problem := _problem(listed[0], one, plan):
        raise PlanError(f"reservation {one.name} {problem}")
    return str(listed[0]["AvailabilityZone"])


def _problem(found: Mapping[str, Any], one: Reservation, plan: Plan) -> str:
    """Returns why a reservation cannot serve a plan; empty: it can."""
    assert plan.node_pool is not None  # noqa: S101  the caller checked
    is_block = found.get("ReservationType") == "capacity-block"
    kind, nodes = plan.node_pool.node_type, plan.workers.nodes
    if is_block != one.is_block:
        right = f"block:{one.name}" if is_block else one.name
        which = "a Capacity Block" if is_block else "no Capacity Block"
        return f"is {which}: give --reservation={right}"
    if found["InstanceType"] != kind:
        return f"is of {found['InstanceType']}, and the run needs {kind}"
    if found["State"] != "active":
        start = found.get("StartDate")
        when = f"; it starts at {start:%Y-%m-%d %H:%M} UTC" if start else ""
        return f"is {found['State']}, not active{when}"
    if found["AvailableInstanceCount"] < nodes:
        return f"has {found['AvailableInstanceCount']} free instances, and the run needs {nodes}"
    end = found.get("EndDate")
    return _late(end, kind, plan) if is_block and end else ""


def _late(end: dt.datetime, kind: str, plan: Plan) -> str:
    margin = _ULTRA_END_SECONDS if "-gb" in kind else _END_SECONDS
    left = (end - utc_moment()).total_seconds() - margin - plan.limits.gang_timeout_seconds
    if left >= plan.limits.deadline_seconds:
        return ""
    advice = f": give --max-hours={left / 3600:.1f}" if left > 360 else ""  # noqa: PLR2004
    return f"ends at {end:%Y-%m-%d %H:%M} UTC, before the deadline of the job{advice}"


class LaunchTemplates(PlannedHandler):
    """Handler of the launch templates of node groups that use a reservation."""

    kind = "EC2 launch template"

    def refresh(self, name: str) -> Resource | None:
        """Returns a template; None if it is gone."""
        region, _, own = name.partition("/")
        query = {"LaunchTemplateNames": [own]}
        found = request_if_exists(self._account, "ec2", region, "DescribeLaunchTemplates", **query)
        listed = found["LaunchTemplates"] if found else []
        return _template(region, listed[0]) if listed else None

    def delete(self, name: str) -> None:
        """Deletes one."""
        region, _, own = name.partition("/")
        query = {"LaunchTemplateName": own}
        request_if_exists(self._account, "ec2", region, "DeleteLaunchTemplate", **query)

    def list_resources(self, region: str, tag: str) -> Iterator[Resource]:
        """Yields the templates of a region that have a tag."""
        filters = [{"Name": "tag-key", "Values": [tag]}]
        for found in self._account.list_all(
            "ec2", region, "DescribeLaunchTemplates", "LaunchTemplates", Filters=filters
        ):
            yield _template(region, found)


def _template(region: str, found: Mapping[str, Any]) -> Resource:
    created = found.get("CreateTime")
    return Resource(
        kind=LaunchTemplates.kind,
        name=f"{region}/{found['LaunchTemplateName']}",
        state="ready",
        labels=tags_of(found.get("Tags")),
        region=region,
        deletion_order=ORPHAN_RANK,
        created_at=created.isoformat() if created else None,
        is_free=True,
    )
