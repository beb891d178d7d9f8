"""Checks before a launch: login, permissions (by IAM simulation), roles, network and quota."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.account_kinds import ROLE
from cloudgan.launch.clouds.aws.kinds import ADD_ON, CLUSTER, is_managed
from cloudgan.launch.clouds.aws.network import select_network
from cloudgan.launch.clouds.aws.planner import machine, policy
from cloudgan.launch.clouds.aws.requests import GLOBAL_REGION, Aws
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.schema.plan import Plan
from cloudgan.schema.resource import Finding

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
