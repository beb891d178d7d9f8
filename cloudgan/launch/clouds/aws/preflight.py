"""Before a launch: zone, subnets and Kubernetes version; checks of login, permissions, roles, network and quota."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.account_kinds import ROLE
from cloudgan.launch.clouds.aws.kinds import ADD_ON, CLUSTER, is_managed
from cloudgan.launch.clouds.aws.planner import machine, policy, reservation_id
from cloudgan.launch.clouds.aws.requests import GLOBAL_REGION, Aws
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.clouds.resource import Finding
from cloudgan.schema.plan import ZONES, Plan

_NO_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-21)."""
_POLICY: Final = "deploy/aws/policy.json"
_PERMISSIONS: Final = "AWS permissions"
_POLICIES_ON: Final = re.compile(r"""enableNetworkPolicy["']?\s*:\s*["']true["']""")
"""In the JSON or YAML of an add-on's configuration values."""
_QUOTAS: Final = {
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "": "the Spot Instance Requests of P6 instances",  # without a documented code
}
"""Names in the console of vCPU quotas of an account in a region, by their codes in the Service Quotas API."""


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
    name = reservation_id(str(pool_of(plan).reservation))
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


def findings(aws: Aws, plan: Plan | None) -> Iterator[Finding]:
    """Yields the findings on login, permissions, roles and, for a plan, network and quota."""
    login = aws.login
    yield Finding("AWS login", "ok", f"{login['who']} of account {login['account']}")
    yield _permissions(aws, login["who"])
    yield _roles(aws)
    if plan is not None and plan.node_pool is not None:
        yield _network(aws, plan)
        yield _network_policy(aws, plan)
        yield _quota(aws, plan)


def _roles(aws: Aws) -> Finding:
    subject = "AWS roles"
    try:
        missing = [role for role in naming.ROLES if aws.get(ROLE, role) is None]
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    if not missing:
        return Finding(subject, "ok", f"{', '.join(naming.ROLES)} exist")
    command = "created once per account; type: cloudgan setup --provider=aws"
    return Finding(subject, "missing", f"{', '.join(missing)}: {command}")


def _network(aws: Aws, plan: Plan) -> Finding:
    subject = f"AWS network in {plan.target.region}"
    try:
        found = select_network(aws, plan)
    except PlanError as error:
        return Finding(subject, "missing", str(error))
    except CloudganError as error:
        return Finding(subject, "unknown", str(error))
    return Finding(subject, "ok", f"{found[naming.ZONE]}, Kubernetes {found[naming.VERSION]}")


def _network_policy(aws: Aws, plan: Plan) -> Finding:
    """Checks that a NetworkPolicy has an effect: EKS stores the objects and enforces none by default.

    Another policy engine, such as Calico, may enforce them: what is not known to be on is unknown.
    On EKS Auto Mode the switch is a ConfigMap, and nodes of node groups still need the add-on
    (https://docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html, read 2026-11-22).
    """
    name, plugin = f"{plan.target.region}/{plan.target.cluster}", naming.NETWORK_PLUGIN
    subject = f"NetworkPolicy in {name}"
    cluster = aws.get(CLUSTER, name)
    add_on = aws.get(ADD_ON, f"{name}/{plugin}")  # None: there is none, or a self-managed plugin
    if add_on and _POLICIES_ON.search(add_on.get("configurationValues") or ""):
        return Finding(subject, "ok", f"the add-on {plugin} enforces it")
    if add_on is None and (cluster is None or is_managed(CLUSTER.resource(name, cluster))):
        return Finding(subject, "ok", f"`deploy` switches it on by the add-on {plugin}")
    return Finding(
        subject,
        "unknown",
        f"the add-on {plugin} does not enforce it, and another policy engine may; `deploy`"
        " tests it before it starts several workers. To switch it on: aws eks update-addon"
        f" --cluster-name {plan.target.cluster} --addon-name {plugin} --resolve-conflicts"
        f" PRESERVE --configuration-values '{json.dumps(naming.ENABLE_POLICIES)}'; on EKS Auto Mode set"
        ' enable-network-policy-controller: "true" in ConfigMap kube-system/amazon-vpc-cni',
    )


def _quota(aws: Aws, plan: Plan) -> Finding:
    """Checks the EC2 quota, which counts the vCPUs of all instances of a family."""
    pool, region = pool_of(plan), str(plan.target.region)
    node = machine(pool.node_type)
    if pool.reservation:
        name = f"reservation {pool.reservation}"
        return Finding(name, "ok", f"it is in {plan.target.zone} and has enough free instances")
    code = node.spot_quota if pool.market == "spot" else node.quota
    subject = f"quota {_QUOTAS.get(code, code)} in {region}"
    if node.vcpu is None:
        return Finding(subject, "unknown", f"the vCPUs of {node.node_type} are unknown")
    needed = node.vcpu * plan.workers.nodes
    needs = f"{plan.workers.nodes} x {node.node_type} need {needed} vCPUs"
    if not code:
        return Finding(subject, "unknown", f"{needs}; see Service Quotas, EC2")
    query = {"ServiceCode": "ec2", "QuotaCode": code}
    try:
        found = aws.request("service-quotas", region, "GetServiceQuota", query)["Quota"]
    except CloudganError as error:
        return Finding(subject, "unknown", f"{needs}; the limit is unavailable ({error})")
    if found["Value"] < needed:
        return Finding(
            subject,
            "missing",
            f"{needs}, and the limit is {found['Value']:g}; request {needed} or more of"
            f" {code} under Service Quotas, Amazon EC2, in {region}",
            is_quota=True,
        )
    return Finding(
        subject,
        "ok",
        f"{needs} of {found['Value']:g}; other running instances count against it too",
    )


def _permissions(aws: Aws, login: str) -> Finding:
    """Simulates each permission of the policy for a login's ARN."""
    if login.endswith(":root"):
        return Finding(_PERMISSIONS, "ok", "the root user has all permissions")
    try:
        missing = sorted(set(_missing(aws, _principal(login))))
    except CloudganError as error:
        return Finding(
            _PERMISSIONS,
            "unknown",
            f"IAM does not simulate them ({error}); {_POLICY} lists those required",
        )
    if missing:
        return Finding(
            _PERMISSIONS,
            "missing",
            f"{login} may not: {', '.join(missing)}; an administrator of the account grants {_POLICY}",
        )
    return Finding(_PERMISSIONS, "ok", f"{login} has all of {_POLICY}")


def _missing(aws: Aws, principal: str) -> Iterator[str]:
    for statement in policy("policy.json")["Statement"]:
        resources = statement["Resource"]
        listed = [resources] if isinstance(resources, str) else resources
        query = {
            "PolicySourceArn": principal,
            "ActionNames": statement["Action"],
            "ResourceArns": [one if one == "*" else _example(one, principal) for one in listed],
            "ContextEntries": list(_context(statement, principal)),
        }
        operation, key = "SimulatePrincipalPolicy", "EvaluationResults"
        for one in aws.items("iam", GLOBAL_REGION, operation, key, **query):
            if one["EvalDecision"] != "allowed":
                yield one["EvalActionName"]


def _context(statement: dict[str, Any], principal: str) -> Iterator[dict[str, Any]]:
    """Yields a request context that fulfils a statement's conditions."""
    condition = statement.get("Condition", {})
    present = dict.fromkeys(
        condition.get("Null", {}), "*"
    )  # the policy has only keys that must exist
    wanted = {
        key: one for name, keys in condition.items() if name != "Null" for key, one in keys.items()
    }
    several = {
        key for name, keys in condition.items() if name.startswith("ForAllValues:") for key in keys
    }
    for key, value in (present | wanted).items():
        first = value if isinstance(value, str) else value[0]
        yield {
            "ContextKeyName": key,
            "ContextKeyValues": [_example(first, principal)],
            "ContextKeyType": "stringList" if key in several else "string",
        }


def _principal(login: str) -> str:
    """Returns the role of a session: ``role/R`` for ``arn:aws:sts::1:assumed-role/R/S``."""
    parts = login.split(":")
    kind, _, rest = parts[5].partition("/")
    if kind != "assumed-role":
        return login
    return f"arn:aws:iam::{parts[4]}:role/{rest.partition('/')[0]}"


def _example(resource: str, principal: str) -> str:
    """Returns an ARN or a value that matches a pattern."""
    account = principal.split(":")[4]
    filled = resource.replace(":*:", f":{account}:").replace("${aws:PrincipalAccount}", account)
    return filled.replace("*", "x")
