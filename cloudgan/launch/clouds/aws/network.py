"""Zone, subnets and Kubernetes version of a run, and network resources that deleted clusters left.

EKS and its network plugin tag what they create with the cluster's name
(https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html,
https://github.com/aws/amazon-vpc-cni-k8s, read 2026-11-21). Orphans are free, but keep a VPC alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clouds import CLUSTER
from cloudgan.core.errors import CloudganError, PlanError
from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.planner import cluster_name
from cloudgan.launch.clouds.aws.reservations import reserved_zone
from cloudgan.launch.clouds.aws.resource_handler import (
    ORPHAN_RANK,
    UnplannedHandler,
    request_if_exists,
    tags_of,
)
from cloudgan.schema.plan import ZONES
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.launch.clouds.aws.clusters import Clusters
    from cloudgan.schema.plan import Plan

_NO_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-21)."""

INTERFACE: Final = "network interface"
SECURITY_GROUP: Final = "security group"
_INTERFACE_TAG: Final = "cluster.k8s.amazonaws.com/name"
_GROUP_TAG: Final = "aws:eks:cluster-name"

Subnet = dict[str, Any]


def select_network(account: Account, clusters: Clusters, plan: Plan) -> Mapping[str, str]:
    """Returns zone, subnets and Kubernetes version of a plan, by placeholder.

    All nodes share one zone, since traffic between zones is billed.

    Raises:
        PlanError: The region has no suitable subnets, or no such instances.
    """
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    region = str(plan.target.region)
    cluster = clusters.describe(cluster_name(plan.target))
    subnets = (
        _cluster_subnets(account, region, cluster) if cluster else _default_subnets(account, region)
    )
    zones = _zones_with(account, region, plan.node_pool.node_type)
    wanted = None if plan.target.zone in (None, naming.ZONE) else plan.target.zone
    if plan.node_pool.reservation:
        zone = reserved_zone(account, plan)
        if wanted not in (None, zone):
            raise PlanError(
                f"reservation {plan.node_pool.reservation} is in {zone}: give --zone={zone}, or omit --zone"
            )
        wanted = zone
    fitting = [
        one
        for one in subnets
        if one["AvailabilityZone"] in zones and wanted in (None, one["AvailabilityZone"])
    ]
    if not zones:
        raise PlanError(_not_offered(account, region, plan.node_pool.node_type))
    if not fitting:
        raise PlanError(_no_subnet(plan, zones, subnets))
    first = fitting[0]
    others = [one for one in subnets if one["AvailabilityZone"] != first["AvailabilityZone"]]
    if not others and not cluster:
        raise PlanError(
            f"AWS: an EKS cluster needs subnets in two zones, and the default network of {region}"
            f" has one in {first['AvailabilityZone']} only; add one, or pass another --region"
        )
    return {
        naming.ZONE: first["AvailabilityZone"],
        ZONES: " ".join(dict.fromkeys(one["AvailabilityZone"] for one in fitting)),
        naming.SUBNET: first["SubnetId"],
        naming.SECOND_SUBNET: (others or [first])[0]["SubnetId"],
        naming.VERSION: cluster["version"] if cluster else _version(account, region),
    }


def _default_subnets(account: Account, region: str) -> list[Subnet]:
    default = [{"Name": "default-for-az", "Values": ["true"]}]
    found = _subnets(account, region, default)
    if not found:
        raise PlanError(
            f"AWS: {region} has no default VPC for the cluster; create one (console: VPC, Actions,"
            " Create default VPC), pass an existing cluster by --cluster, or another --region"
        )
    return [one for one in found if one["AvailabilityZoneId"] not in _NO_CONTROL_PLANE]


def _cluster_subnets(account: Account, region: str, cluster: Mapping[str, Any]) -> list[Subnet]:
    """Returns the public subnets of the cluster's VPC, or else the cluster's own subnets."""
    network = cluster["resourcesVpcConfig"]
    in_it = [{"Name": "vpc-id", "Values": [network["vpcId"]]}]
    found = _subnets(account, region, in_it)
    public = [one for one in found if one.get("MapPublicIpOnLaunch")]
    return public or [one for one in found if one["SubnetId"] in network["subnetIds"]]


def _subnets(account: Account, region: str, filters: list[dict[str, Any]]) -> list[Subnet]:
    found = account.list_all("ec2", region, "DescribeSubnets", "Subnets", Filters=filters)
    return sorted(found, key=lambda one: (one["AvailabilityZone"], one["SubnetId"]))


def _zones_with(account: Account, region: str, node_type: str) -> list[str]:
    filters = [{"Name": "instance-type", "Values": [node_type]}]
    found = account.list_all(
        "ec2",
        region,
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=filters,
    )
    return sorted(one["Location"] for one in found)


def _not_offered(account: Account, region: str, node_type: str) -> str:
    """Says which enabled regions offer an instance type that `region` does not."""
    enabled = account.request("ec2", region, "DescribeRegions")["Regions"]
    found, silent = [], []
    for other in sorted({one["RegionName"] for one in enabled} - {region}):
        try:
            if _zones_with(account, other, node_type):
                found.append(other)
        except CloudganError:  # an organisation may deny it
            silent.append(other)
    if found:
        return f"AWS: {region} has no {node_type}; --region can be: {', '.join(found)}"
    if silent:
        return f"AWS: no region that answered has {node_type}; no answer: {', '.join(silent)}"
    return f"AWS: no region has {node_type}; pass another --accelerator (see `cloudgan offers`)"


def _version(account: Account, region: str) -> str:
    """Returns the default version of EKS."""
    found = account.list_all(
        "eks", region, "DescribeClusterVersions", "clusterVersions", defaultOnly=True
    )
    versions = [one["clusterVersion"] for one in found]
    if not versions:
        raise PlanError(f"AWS: EKS lists no Kubernetes version in {region}; pass another --region")
    return str(versions[0])


def _no_subnet(plan: Plan, zones: list[str], subnets: list[Subnet]) -> str:
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    node_type = plan.node_pool.node_type
    known = sorted({one["AvailabilityZone"] for one in subnets})
    zone = f" in --zone={plan.target.zone}" if plan.target.zone != naming.ZONE else ""
    return (
        f"AWS: no subnet{zone} is in a zone with {node_type} ({', '.join(zones)});"
        f" subnets are in {', '.join(known)}. Pass another --zone or --region"
    )


class OrphanedNetwork(UnplannedHandler):
    """Handler of network interfaces or security groups of deleted clusters.

    Args:
        account: The AWS login.
        kind: ``network interface`` or ``security group``.
    """

    def __init__(self, account: Account, kind: str) -> None:
        self._account, self.kind = account, kind
        self._is_interface = kind == INTERFACE
        self._id = "NetworkInterfaceId" if self._is_interface else "GroupId"

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of one."""
        region, _, one = name.partition("/")
        field = "network-interface-id" if self._is_interface else "group-id"
        filters = [{"Name": field, "Values": [one]}]
        return next((self._resource(region, each) for each in self._listed(region, filters)), None)

    def delete(self, name: str) -> None:
        """Deletes one; AWS refuses while it is in use."""
        region, _, one = name.partition("/")
        operation = "DeleteNetworkInterface" if self._is_interface else "DeleteSecurityGroup"
        request_if_exists(self._account, "ec2", region, operation, **{self._id: one})

    def list_resources(self, region: str, clusters: set[str]) -> Iterator[Resource]:
        """Yields those of a region whose cluster was cloudgan's and is not in `clusters`."""
        if f"{region}/{CLUSTER}" in clusters:
            return
        tag = _INTERFACE_TAG if self._is_interface else _GROUP_TAG
        filters: list[dict[str, Any]] = [{"Name": f"tag:{tag}", "Values": [CLUSTER]}]
        if self._is_interface:
            filters.append({"Name": "status", "Values": ["available"]})
        for found in self._listed(region, filters):
            yield self._resource(region, found)

    def _listed(self, region: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        key = "NetworkInterfaces" if self._is_interface else "SecurityGroups"
        yield from self._account.list_all("ec2", region, f"Describe{key}", key, Filters=filters)

    def _resource(self, region: str, found: dict[str, Any]) -> Resource:
        tags = tags_of(found.get("TagSet" if self._is_interface else "Tags"))
        return Resource(
            kind=self.kind,
            name=f"{region}/{found[self._id]}",
            state="ready",
            labels=tags | {SHARED: "leftover"},
            region=region,
            deletion_order=ORPHAN_RANK,
            is_free=True,
        )
