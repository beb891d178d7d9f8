"""State of the account in addition to moto's."""

from __future__ import annotations

import datetime as dt
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

from emulators.aws.wire import Call

ACCOUNT = "123456789012"  # moto's
REGIONS = ("us-east-1", "us-west-2", "eu-west-1")
VERSION = "1.34"
Body = dict[str, Any]


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def roles() -> dict[str, Any]:
    """Returns moto's roles by ARN."""
    from moto.iam.models import iam_backends

    return {one.arn: one for one in iam_backends[ACCOUNT]["aws"].roles.values()}


class Service:
    """A service whose operations are methods."""

    def answer(self, call: Call) -> Body:
        result: Body = getattr(self, call.operation)(call.region, call.asked)
        return result


@dataclass
class Group:
    """A scaling group of EC2, and its machines."""

    name: str
    region: str
    node_type: str
    spot: bool
    labels: dict[str, str]
    largest: int
    smallest: int = 0
    desired: int = 0
    machines: list[str] = field(default_factory=list)
    activities: list[Body] = field(default_factory=list)
    planned: dict[str, Body] = field(default_factory=dict)
    reservation: str = ""


@dataclass
class Pool:
    """A node group of EKS; `pending` requests see it in `status`, the later ones in `after`."""

    body: Body
    group: Group
    status: str = "CREATING"
    after: str = "ACTIVE"
    pending: int = 0
    issues: list[Body] = field(default_factory=list)
    made: dt.datetime = field(default_factory=now)


@dataclass
class Plane:
    """A cluster of EKS."""

    body: Body
    region: str
    status: str = "CREATING"
    after: str = "ACTIVE"
    pending: int = 0
    pools: dict[str, Pool] = field(default_factory=dict)
    add_ons: dict[str, Body] = field(default_factory=dict)
    identities: dict[str, Body] = field(default_factory=dict)
    made: dt.datetime = field(default_factory=now)


@dataclass
class Network:
    """The default network of a region."""

    subnets: list[Body]
    cards: list[Body] = field(default_factory=list)
    security_groups: list[Body] = field(default_factory=list)
    instances: list[Body] = field(default_factory=list)
    """Those that no scaling group has; `Ec2` adds those of scaling groups."""
    volumes: list[Body] = field(default_factory=list)
    templates: dict[str, Body] = field(default_factory=dict)
    """Launch templates by name."""
    reservations: dict[str, Body] = field(default_factory=dict)


@dataclass
class ScheduleGroup:
    """A schedule group of EventBridge Scheduler."""

    tags: list[Body]
    status: str = "ACTIVE"
    schedules: dict[str, Body] = field(default_factory=dict)
    made: dt.datetime = field(default_factory=now)


@dataclass
class State:
    """The state of an account, and how slowly it changes."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    planes: dict[tuple[str, str], Plane] = field(default_factory=dict)
    ends: dict[tuple[str, str], ScheduleGroup] = field(default_factory=dict)
    networks: dict[str, Network] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    sold_out: dict[str, str] = field(default_factory=dict)
    """Response to a scaling group for an instance type."""
    closed: dict[str, str] = field(default_factory=dict)
    """Regions that the policy of an organisation closes to all its users."""
    pending: int = 1
    """How many requests, after the first, see a resource being created, changed or deleted."""

    def __post_init__(self) -> None:
        for region in REGIONS:
            self.networks[region] = Network([_subnet(region, index) for index in range(3)])

    def groups(self) -> list[Group]:
        return [pool.group for plane in self.planes.values() for pool in plane.pools.values()]

    def reserve(self, name: str, node_type: str, count: int, zone: str, **how: Any) -> Body:
        """Reserves capacity; returns the reservation."""
        made = {
            "CapacityReservationId": name,
            "InstanceType": node_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": zone,
            "TotalInstanceCount": count,
            "AvailableInstanceCount": count,
            "State": "active",
            "ReservationType": "default",
            "InstanceMatchCriteria": "targeted",
        }
        self.networks[zone[:-1]].reservations[name] = made | how
        return self.networks[zone[:-1]].reservations[name]

    def left(self) -> list[str]:
        """Names of all clusters, node groups, launch templates, schedule groups and machines."""
        found = [f"schedule group {region}/{name}" for region, name in self.ends]
        for (region, name), plane in self.planes.items():
            found.append(f"cluster {region}/{name}")
            found += [f"node group {region}/{name}/{pool}" for pool in plane.pools]
        for region, network in self.networks.items():
            found += [f"launch template {region}/{name}" for name in network.templates]
        return found + [one for group in self.groups() for one in group.machines]


def machine_id() -> str:
    return f"i-{secrets.token_hex(8)}"


def _subnet(region: str, index: int) -> Body:
    zone = f"{region}{'abc'[index]}"
    short = "".join(part[0] for part in region.split("-")[:2]) + region[-1]
    return {
        "SubnetId": f"subnet-{short}{index:08d}",
        "VpcId": f"vpc-{short}0001",
        "AvailabilityZone": zone,
        "AvailabilityZoneId": f"{short.replace('ue', 'use').replace('uw', 'usw')}-az{index + 4}",
        "DefaultForAz": True,
        "MapPublicIpOnLaunch": True,
        "State": "available",
    }
