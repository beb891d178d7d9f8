"""Checks before a launch: login, permissions (by IAM simulation), roles, network and quota."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core import assets
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.clusters import is_managed
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.aws.network import select_network
from cloudgan.launch.clouds.aws.planner import ENABLE_POLICIES, NETWORK_PLUGIN, cluster_name
from cloudgan.schema.resource import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.launch.clouds.aws.clusters import AddOns, Clusters
    from cloudgan.launch.clouds.aws.iam_roles import IamRoles
    from cloudgan.schema.plan import Plan

POLICY: Final = "deploy/aws/policy.json"
_PERMISSIONS: Final = "AWS permissions"
_REGION: Final = "us-east-1"


def findings(
    account: Account,
    who: Mapping[str, str],
    plan: Plan | None,
    *,
    clusters: Clusters,
    add_ons: AddOns,
    roles: IamRoles,
) -> Iterator[Finding]:
    """Yields the findings on login, permissions, roles and, for a plan, network and quota."""
    yield Finding("AWS login", "ok", f"{who['who']} of account {who['account']}")
    yield _permissions(account, who["who"])
    yield from _roles(roles)
    if plan is not None and plan.node_pool is not None:
        yield _network(account, clusters, plan)
        yield _network_policy(clusters, add_ons, plan)
        yield _quota(account, plan)


def _roles(roles: IamRoles) -> Iterator[Finding]:
    try:
        missing = [role for role in naming.ROLES if roles.refresh(role) is None]
    except CredentialsError as error:
        yield Finding("AWS roles", "unknown", str(error))
        return
    if missing:
        yield Finding(
            "AWS roles",
            "missing",
            f"{', '.join(missing)}: created once per account; type: cloudgan setup --provider=aws",
        )
    else:
        yield Finding("AWS roles", "ok", f"{', '.join(naming.ROLES)} exist")


def _network(account: Account, clusters: Clusters, plan: Plan) -> Finding:
    subject = f"AWS network in {plan.target.region}"
    try:
        found = select_network(account, clusters, plan)
    except PlanError as error:
        return Finding(subject, "missing", str(error))
    except CloudganError as error:
        return Finding(subject, "unknown", str(error))
    return Finding(subject, "ok", f"{found[naming.ZONE]}, Kubernetes {found[naming.VERSION]}")


def _network_policy(clusters: Clusters, add_ons: AddOns, plan: Plan) -> Finding:
    """Checks that a NetworkPolicy has an effect: EKS stores the objects and enforces none by default.

    Another policy engine, such as Calico, may enforce them: what is not known to be on is unknown.
    On EKS Auto Mode the switch is a ConfigMap, and nodes of node groups still need the add-on
    (https://docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html, read 2026-11-22).
    """
    name = cluster_name(plan.target)
    subject = f"NetworkPolicy in {name}"
    cluster, is_on = clusters.refresh(name), add_ons.enforces_policies(name)
    if is_on:
        return Finding(subject, "ok", f"the add-on {NETWORK_PLUGIN} enforces it")
    if is_on is None and (cluster is None or is_managed(cluster)):
        return Finding(subject, "ok", f"`deploy` switches it on by the add-on {NETWORK_PLUGIN}")
    return Finding(
        subject,
        "unknown",
        f"the add-on {NETWORK_PLUGIN} does not enforce it, and another policy engine may; `deploy`"
        " tests it before it starts several workers. To switch it on: aws eks update-addon"
        f" --cluster-name {plan.target.cluster} --addon-name {NETWORK_PLUGIN} --resolve-conflicts"
        f" PRESERVE --configuration-values '{json.dumps(ENABLE_POLICIES)}'; on EKS Auto Mode set"
        ' enable-network-policy-controller: "true" in ConfigMap kube-system/amazon-vpc-cni',
    )


def _quota(account: Account, plan: Plan) -> Finding:
    """Checks the EC2 quota, which counts the vCPUs of all instances of a family."""
    assert plan.node_pool is not None  # noqa: S101  the caller checked
    node, region = machine(plan.node_pool.node_type), str(plan.target.region)
    if plan.node_pool.reservation:
        name = f"reservation {plan.node_pool.reservation}"
        return Finding(name, "ok", f"it is in {plan.target.zone} and has enough free instances")
    quota = node.quota(plan.node_pool.market)
    subject = f"quota {quota.name} in {region}"
    needed = node.vcpus * plan.workers.nodes
    needs = f"{plan.workers.nodes} x {node.name} need {needed} vCPUs"
    if quota.code is None:
        return Finding(subject, "unknown", f"{needs}; see Service Quotas, EC2")
    query = {"ServiceCode": "ec2", "QuotaCode": quota.code}
    try:
        found = account.request("service-quotas", region, "GetServiceQuota", query)["Quota"]
    except CloudganError as error:
        return Finding(subject, "unknown", f"{needs}; the limit is unavailable ({error})")
    if found["Value"] < needed:
        return Finding(
            subject,
            "missing",
            f"{needs}, and the limit is {found['Value']:g}; request {needed} or more of"
            f" {quota.code} under Service Quotas, Amazon EC2, in {region}",
        )
    return Finding(
        subject,
        "ok",
        f"{needs} of {found['Value']:g}; other running instances count against it too",
    )


def statements() -> list[dict[str, Any]]:
    """Returns the statements of the launcher's policy."""
    found: list[dict[str, Any]] = parse_json(assets.read_text(POLICY), POLICY)["Statement"]
    return found


def _permissions(account: Account, login: str) -> Finding:
    """Simulates each permission of the policy for a login's ARN."""
    if login.endswith(":root"):
        return Finding(_PERMISSIONS, "ok", "the root user has all permissions")
    try:
        missing = sorted(set(_missing(account, _principal(login))))
    except CloudganError as error:
        return Finding(
            _PERMISSIONS,
            "unknown",
            f"IAM does not simulate them ({error}); {POLICY} lists those required",
        )
    if missing:
        return Finding(
            _PERMISSIONS,
            "missing",
            f"{login} may not: {', '.join(missing)}; an administrator of the account grants {POLICY}",
        )
    return Finding(_PERMISSIONS, "ok", f"{login} has all of {POLICY}")


def _missing(account: Account, principal: str) -> Iterator[str]:
    for statement in statements():
        resources = statement["Resource"]
        listed = [resources] if isinstance(resources, str) else resources
        query = {
            "PolicySourceArn": principal,
            "ActionNames": statement["Action"],
            "ResourceArns": [one if one == "*" else _example(one, principal) for one in listed],
            "ContextEntries": list(_context(statement, principal)),
        }
        operation, key = "SimulatePrincipalPolicy", "EvaluationResults"
        for one in account.list_all("iam", _REGION, operation, key, **query):
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
