"""What `check` finds out before anything is made; nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.core.thing import Finding
from cloudgan.providers.aws import naming
from cloudgan.providers.aws.machines import machine
from cloudgan.providers.aws.network import places_of
from cloudgan.providers.aws.rights import check_rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.core.plan import Plan
    from cloudgan.providers.aws.account import Account
    from cloudgan.providers.aws.clusters import Clusters
    from cloudgan.providers.aws.iam_roles import IamRoles

_SERVICE: Final = "ec2"


def findings(
    account: Account,
    who: Mapping[str, str],
    plan: Plan | None,
    *,
    clusters: Clusters,
    roles: IamRoles,
) -> Iterator[Finding]:
    """Yields what was found: login, rights, roles and, for a plan, its place and its quota."""
    yield Finding("AWS login", "ok", f"{who['who']} of account {who['account']}")
    yield check_rights(account, who["who"])
    yield from _roles(roles)
    if plan is not None and plan.rental is not None:
        yield _place(account, clusters, plan)
        yield _quota(account, plan)


def _roles(roles: IamRoles) -> Iterator[Finding]:
    try:
        missing = [role for role in naming.ROLES if roles.look(role) is None]
    except CredentialsError as error:
        yield Finding("AWS roles", "unknown", str(error))
        return
    if missing:
        yield Finding(
            "AWS roles",
            "missing",
            f"{', '.join(missing)}: made once per account; type: cloudgan setup --provider=aws",
        )
    else:
        yield Finding("AWS roles", "ok", f"{', '.join(naming.ROLES)} are there")


def _place(account: Account, clusters: Clusters, plan: Plan) -> Finding:
    subject = f"AWS place {plan.place.region}"
    try:
        found = places_of(account, clusters, plan)
    except PlanError as error:
        return Finding(subject, "missing", str(error))
    except CloudganError as error:
        return Finding(subject, "unknown", str(error))
    return Finding(subject, "ok", f"{found[naming.ZONE]}, Kubernetes {found[naming.VERSION]}")


def _quota(account: Account, plan: Plan) -> Finding:
    """Quotas of EC2 count vCPUs, those of all machines of a family together."""
    assert plan.rental is not None  # noqa: S101  the caller looked
    hired, region = machine(plan.rental.node_type), str(plan.place.region)
    quota = hired.quota(plan.rental.market)
    subject = f"quota {quota.name} in {region}"
    wanted = hired.vcpus * plan.workers.nodes
    needs = f"{plan.workers.nodes} x {hired.name} need {wanted} vCPUs"
    if quota.code is None:
        return Finding(subject, "unknown", f"{needs}; look for it under Service Quotas, EC2")
    asked = {"ServiceCode": _SERVICE, "QuotaCode": quota.code}
    try:
        found = account.ask("service-quotas", region, "GetServiceQuota", asked)["Quota"]
    except CloudganError as error:
        return Finding(subject, "unknown", f"{needs}; nobody told the limit ({error})")
    if found["Value"] < wanted:
        return Finding(
            subject,
            "missing",
            f"{needs}, and the limit is {found['Value']:g}; ask for {wanted} or more of"
            f" {quota.code} under Service Quotas, Amazon EC2, in {region}",
        )
    return Finding(
        subject, "ok", f"{needs} of {found['Value']:g}; what else runs counts against it too"
    )
