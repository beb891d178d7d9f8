"""EC2 instances and EBS volumes that a node group of cloudgan's cluster left behind.

The tags of a managed node group reach neither its Auto Scaling group nor its instances
(https://github.com/aws/containers-roadmap/issues/2554, read 2026-11-22); EKS itself tags the instances
with `eks:cluster-name` and `eks:nodegroup-name` (https://github.com/eksctl-io/eksctl/issues/2607,
read 2026-11-22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clouds import CLUSTER
from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws.resource_handler import (
    ORPHAN_RANK,
    UnplannedHandler,
    request_if_exists,
    tags_of,
)
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.clouds.aws.account import Account

INSTANCE: Final = "EC2 instance"
VOLUME: Final = "EBS volume"
_POOL_TAG: Final = "eks:nodegroup-name"
_CLUSTER_TAG: Final = "eks:cluster-name"
_BILLED_STATES: Final = ["pending", "running", "stopping", "stopped"]


class LeftoverInstances(UnplannedHandler):
    """Handler of instances of cloudgan's cluster whose node group does not exist."""

    kind = INSTANCE

    def __init__(self, account: Account) -> None:
        self._account = account

    def list_resources(self, region: str, pools: set[str]) -> Iterator[Resource]:
        """Yields those of a region whose node group is not in `pools` (REGION/CLUSTER/NAME)."""
        filters = [
            {"Name": f"tag:{_CLUSTER_TAG}", "Values": [CLUSTER]},
            {"Name": "instance-state-name", "Values": _BILLED_STATES},
        ]
        for found in self._listed(region, filters):
            if f"{region}/{CLUSTER}/{tags_of(found.get('Tags')).get(_POOL_TAG)}" not in pools:
                yield _instance(region, found)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of one; a terminated instance is still listed for an hour."""
        region, _, one = name.partition("/")
        filters = [{"Name": "instance-id", "Values": [one]}]
        listed = [each for each in self._listed(region, filters) if _state(each) != "terminated"]
        return _instance(region, listed[0]) if listed else None

    def delete(self, name: str) -> None:
        """Terminates one."""
        region, _, one = name.partition("/")
        request_if_exists(self._account, "ec2", region, "TerminateInstances", InstanceIds=[one])

    def _listed(self, region: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        found = self._account.list_all(
            "ec2", region, "DescribeInstances", "Reservations", Filters=filters
        )
        for reservation in found:
            yield from reservation["Instances"]


class LeftoverVolumes(UnplannedHandler):
    """Handler of volumes of cloudgan's cluster that are attached to no instance."""

    kind = VOLUME

    def __init__(self, account: Account) -> None:
        self._account = account

    def list_resources(self, region: str, pools: set[str]) -> Iterator[Resource]:
        """Yields the unattached volumes of a region, of all node groups."""
        del pools
        filters = [
            {"Name": f"tag:{_CLUSTER_TAG}", "Values": [CLUSTER]},
            {"Name": "status", "Values": ["available"]},
        ]
        for found in self._listed(region, filters):
            yield _volume(region, found)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of one."""
        region, _, one = name.partition("/")
        filters = [{"Name": "volume-id", "Values": [one]}]
        return next((_volume(region, each) for each in self._listed(region, filters)), None)

    def delete(self, name: str) -> None:
        """Deletes one; AWS refuses while it is attached."""
        region, _, one = name.partition("/")
        request_if_exists(self._account, "ec2", region, "DeleteVolume", VolumeId=one)

    def _listed(self, region: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from self._account.list_all(
            "ec2", region, "DescribeVolumes", "Volumes", Filters=filters
        )


def _instance(region: str, found: dict[str, Any]) -> Resource:
    created = found.get("LaunchTime")
    return Resource(
        kind=INSTANCE,
        name=f"{region}/{found['InstanceId']}",
        state="deleting" if _state(found) == "shutting-down" else "ready",
        labels=tags_of(found.get("Tags")) | {SHARED: "leftover"},
        region=region,
        deletion_order=ORPHAN_RANK,
        created_at=created.isoformat() if created else None,
        node_type=found["InstanceType"],
        nodes=1,
        market="spot" if found.get("InstanceLifecycle") == "spot" else "on_demand",
    )


def _state(found: dict[str, Any]) -> str:
    return str(found["State"]["Name"])


def _volume(region: str, found: dict[str, Any]) -> Resource:
    created = found.get("CreateTime")
    return Resource(
        kind=VOLUME,
        name=f"{region}/{found['VolumeId']}",
        state="ready",
        labels=tags_of(found.get("Tags")) | {SHARED: "leftover"},
        region=region,
        deletion_order=ORPHAN_RANK,
        created_at=created.isoformat() if created else None,
        fee=f"EBS {found['VolumeType']}, {found['Size']} GiB",
    )
