"""Zone, subnets and Kubernetes version of a run, and the zone of its reservation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cloudgan.core.errors import CloudganError, PlanError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.kinds import CLUSTER
from cloudgan.launch.clouds.aws.planner import reservation
from cloudgan.launch.clouds.aws.requests import Aws
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.schema.plan import ZONES, Plan

_NO_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-21)."""


def select_network(aws: Aws, plan: Plan) -> Mapping[str, str]:
    """Returns zone, subnets and Kubernetes version of a plan, by placeholder.

    All nodes share one zone, since traffic between zones is billed.
    """
    region, pool = str(plan.target.region), pool_of(plan)
    cluster = aws.get(CLUSTER, f"{region}/{plan.target.cluster}")
    subnets = _cluster_subnets(aws, region, cluster) if cluster else _default_subnets(aws, region)
    zones = _zones_with(aws, region, pool.node_type)
    wanted = None if plan.target.zone in (None, naming.ZONE) else plan.target.zone
    if pool.reservation:
        zone = _reserved_zone(aws, plan)
        if wanted not in (None, zone):
            raise PlanError(
                f"reservation {pool.reservation} is in {zone}: give --zone={zone}, or omit --zone"
            )
        wanted = zone
    if not zones:
        raise PlanError(_not_offered(aws, region, pool.node_type))
    fitting = [
        one
        for one in subnets
        if one["AvailabilityZone"] in zones and wanted in (None, one["AvailabilityZone"])
    ]
    if not fitting:
        known = sorted({one["AvailabilityZone"] for one in subnets})
        where = f" in --zone={plan.target.zone}" if plan.target.zone != naming.ZONE else ""
        raise PlanError(
            f"AWS: no subnet{where} is in a zone with {pool.node_type} ({', '.join(zones)});"
            f" subnets are in {', '.join(known)}. Pass another --zone or --region"
        )
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
        naming.VERSION: cluster["version"] if cluster else _version(aws, region),
    }


def _reserved_zone(aws: Aws, plan: Plan) -> str:
    """Returns the zone of a plan's reservation; EKS reports what else does not fit, as its type."""
    region, nodes = str(plan.target.region), plan.workers.nodes
    name = reservation(str(pool_of(plan).reservation)).name
    query = {"CapacityReservationIds": [name]}
    found = aws.if_exists("ec2", region, "DescribeCapacityReservations", **query)
    if not found or not found["CapacityReservations"]:
        raise PlanError(f"this account has no capacity reservation {name} in {region}")
    one = found["CapacityReservations"][0]
    if one["State"] != "active":
        start = one.get("StartDate")
        when = f"; it starts at {start:%Y-%m-%d %H:%M} UTC" if start else ""
        raise PlanError(f"reservation {name} is {one['State']}, not active{when}")
    if one["AvailableInstanceCount"] < nodes:
        raise PlanError(
            f"reservation {name} has {one['AvailableInstanceCount']} free instances, and the run needs"
            f" {nodes}"
        )
    return str(one["AvailabilityZone"])


def _default_subnets(aws: Aws, region: str) -> list[dict[str, Any]]:
    found = _subnets(aws, region, "default-for-az", "true")
    if not found:
        raise PlanError(
            f"AWS: {region} has no default VPC for the cluster; create one (console: VPC, Actions,"
            " Create default VPC), pass an existing cluster by --cluster, or another --region"
        )
    return [one for one in found if one["AvailabilityZoneId"] not in _NO_CONTROL_PLANE]


def _cluster_subnets(aws: Aws, region: str, cluster: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the public subnets of the cluster's VPC, or else the cluster's own subnets."""
    network = cluster["resourcesVpcConfig"]
    found = _subnets(aws, region, "vpc-id", network["vpcId"])
    public = [one for one in found if one.get("MapPublicIpOnLaunch")]
    return public or [one for one in found if one["SubnetId"] in network["subnetIds"]]


def _subnets(aws: Aws, region: str, name: str, value: str) -> list[dict[str, Any]]:
    filters = [{"Name": name, "Values": [value]}]
    found = aws.items("ec2", region, "DescribeSubnets", "Subnets", Filters=filters)
    return sorted(found, key=lambda one: (one["AvailabilityZone"], one["SubnetId"]))


def _zones_with(aws: Aws, region: str, node_type: str) -> list[str]:
    filters = [{"Name": "instance-type", "Values": [node_type]}]
    where = "ec2", region, "DescribeInstanceTypeOfferings", "InstanceTypeOfferings"
    found = aws.items(*where, LocationType="availability-zone", Filters=filters)
    return sorted(one["Location"] for one in found)


def _not_offered(aws: Aws, region: str, node_type: str) -> str:
    """Says which enabled regions offer an instance type that `region` does not."""
    enabled = aws.request("ec2", region, "DescribeRegions")["Regions"]
    found, silent = [], []
    for other in sorted({one["RegionName"] for one in enabled} - {region}):
        try:
            if _zones_with(aws, other, node_type):
                found.append(other)
        except CloudganError:  # an organisation may deny it
            silent.append(other)
    if found:
        return f"AWS: {region} has no {node_type}; --region can be: {', '.join(found)}"
    if silent:
        return f"AWS: no region that answered has {node_type}; no answer: {', '.join(silent)}"
    return f"AWS: no region has {node_type}; pass another --accelerator (see `cloudgan offers`)"


def _version(aws: Aws, region: str) -> str:
    """Returns the default version of EKS."""
    where = "eks", region, "DescribeClusterVersions", "clusterVersions"
    found = next(aws.items(*where, defaultOnly=True), None)
    if found is None:
        raise PlanError(f"AWS: EKS lists no Kubernetes version in {region}; pass another --region")
    return str(found["clusterVersion"])
