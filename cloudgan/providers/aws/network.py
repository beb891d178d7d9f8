"""Where in a region a run's nodes can be: zones that have the machine, subnets, and EKS' versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import PlanError
from cloudgan.providers.aws import naming
from cloudgan.providers.aws.requests import cluster_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Plan
    from cloudgan.providers.aws.account import Account
    from cloudgan.providers.aws.clusters import Clusters

_NO_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-21)."""

Subnet = dict[str, Any]


def places_of(account: Account, clusters: Clusters, plan: Plan) -> Mapping[str, str]:
    """Returns the zone, the subnets and the version that a plan leaves open, by placeholder.

    All nodes are in one zone: between zones each byte that workers exchange is charged.

    Raises:
        PlanError: The region has no network for it, or no such machine.
    """
    assert plan.rental is not None  # noqa: S101  a plan of a cloud has one
    region = str(plan.place.region)
    there = clusters.describe(cluster_name(plan.place))
    subnets = _of_cluster(account, region, there) if there else _default(account, region)
    zones = _zones_with(account, region, plan.rental.node_type)
    wanted = None if plan.place.zone in (None, naming.ZONE) else plan.place.zone
    fitting = [
        one
        for one in subnets
        if one["AvailabilityZone"] in zones and wanted in (None, one["AvailabilityZone"])
    ]
    if not fitting:
        raise PlanError(_why_nowhere(plan, zones, subnets))
    first = fitting[0]
    others = [one for one in subnets if one["AvailabilityZone"] != first["AvailabilityZone"]]
    if not others and not there:
        raise PlanError(
            f"AWS: an EKS cluster needs subnets in two zones, and the default network of {region}"
            f" has one in {first['AvailabilityZone']} only; add one, or take another --region"
        )
    return {
        naming.ZONE: first["AvailabilityZone"],
        naming.SUBNET: first["SubnetId"],
        naming.SECOND_SUBNET: (others or [first])[0]["SubnetId"],
        naming.VERSION: there["version"] if there else _version(account, region),
    }


def _default(account: Account, region: str) -> list[Subnet]:
    default = [{"Name": "default-for-az", "Values": ["true"]}]
    found = _subnets(account, region, default)
    if not found:
        raise PlanError(
            f"AWS: {region} has no default VPC, in which cloudgan would make its cluster; make one"
            " (console: VPC, Actions, Create default VPC), name a cluster of yours by --cluster, or"
            " take another --region"
        )
    return [one for one in found if one["AvailabilityZoneId"] not in _NO_CONTROL_PLANE]


def _of_cluster(account: Account, region: str, there: Mapping[str, Any]) -> list[Subnet]:
    """Those of its network from which nodes reach the internet, else the cluster's own."""
    network = there["resourcesVpcConfig"]
    in_it = [{"Name": "vpc-id", "Values": [network["vpcId"]]}]
    found = _subnets(account, region, in_it)
    public = [one for one in found if one.get("MapPublicIpOnLaunch")]
    return public or [one for one in found if one["SubnetId"] in network["subnetIds"]]


def _subnets(account: Account, region: str, filters: list[dict[str, Any]]) -> list[Subnet]:
    found = account.all("ec2", region, "DescribeSubnets", of="Subnets", Filters=filters)
    return sorted(found, key=lambda one: (one["AvailabilityZone"], one["SubnetId"]))


def _zones_with(account: Account, region: str, node_type: str) -> list[str]:
    filters = [{"Name": "instance-type", "Values": [node_type]}]
    found = account.all(
        "ec2",
        region,
        "DescribeInstanceTypeOfferings",
        of="InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=filters,
    )
    return sorted(one["Location"] for one in found)


def _version(account: Account, region: str) -> str:
    """The version that EKS itself would take: neither too new for add-ons nor soon too old."""
    found = account.all(
        "eks", region, "DescribeClusterVersions", of="clusterVersions", defaultOnly=True
    )
    versions = [one["clusterVersion"] for one in found]
    if not versions:
        raise PlanError(
            f"AWS: EKS names no version of Kubernetes in {region}; take another --region"
        )
    return str(versions[0])


def _why_nowhere(plan: Plan, zones: list[str], subnets: list[Subnet]) -> str:
    assert plan.rental is not None  # noqa: S101  a plan of a cloud has one
    node_type, region = plan.rental.node_type, plan.place.region
    if not zones:
        return f"AWS: {region} has no {node_type}; take another --region"
    known = sorted({one["AvailabilityZone"] for one in subnets})
    asked = f" in --zone={plan.place.zone}" if plan.place.zone != naming.ZONE else ""
    return (
        f"AWS: no subnet{asked} is in a zone with {node_type}, which {', '.join(zones)} have;"
        f" subnets are in {', '.join(known)}. Take another --zone or --region"
    )
