"""Checks before a launch: enabled APIs, permissions, service accounts, GPU and TPU quota.

Quota metrics: the discovery document of compute.v1 (revision 20261106). For H100 and newer it lists
spot quotas only; on demand they have one quota per GPU family that the regions do not list, named as
public repositories name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core import assets
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.launch.clouds.gcp.addresses import (
    COMPUTE,
    IAM,
    NODES_ACCOUNT,
    PROJECTS,
    TRAINER_ACCOUNT,
    account_email,
)
from cloudgan.launch.clouds.gcp.identities import api_states
from cloudgan.launch.clouds.gcp.machines import machine
from cloudgan.launch.clouds.gcp.prerequisites import APIS
from cloudgan.schema.resource import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.clouds.gcp.api import GoogleApi
    from cloudgan.schema.plan import Plan

ACT_AS = "iam.serviceAccounts.actAs"
_IDENTITY = "deploy/gcp/identity.yaml"
_BATCH = 100
_SET_UP = "type: cloudgan setup --provider=gcp"
_CONSOLE = "request more in the console: IAM & Admin, Quotas"
_ALL_REGIONS = "GPUS_ALL_REGIONS"


def permissions(role: str = "policy") -> tuple[str, ...]:
    """Returns the permissions of a role in deploy/gcp."""
    name = f"deploy/gcp/{role}.yaml"
    found: dict[str, Any] = parse_yaml(assets.read_text(name), name)
    return tuple(found["includedPermissions"])


def access_findings(api: GoogleApi, project: str) -> Iterator[Finding]:
    """Yields the findings on APIs, permissions and the service accounts of `setup`."""
    yield _apis(api, project)
    yield _permissions(api, project)
    yield _conditional_permissions(api, project)
    for name in (NODES_ACCOUNT, TRAINER_ACCOUNT):
        yield account_finding(api, project, name)


def _apis(api: GoogleApi, project: str) -> Finding:
    try:
        off = [name for name, is_on in api_states(api, project, APIS).items() if not is_on]
    except CloudganError as error:
        return Finding("APIs", "unknown", str(error))
    if off:
        how = f"{_SET_UP}, or: gcloud services enable {' '.join(off)}"
        return Finding("APIs", "missing", f"not enabled in {project}: {', '.join(off)}; {how}")
    return Finding("APIs", "ok", "all are enabled")


def _permissions(api: GoogleApi, project: str) -> Finding:
    wanted = permissions()
    if missing := _missing(api, project, wanted):
        message = (
            f"this login lacks {', '.join(missing)}; an owner of the project grants the role of"
            " deploy/gcp/policy.yaml"
        )
        return Finding("permissions", "missing", message)
    return Finding("permissions", "ok", f"all {len(wanted)} are granted")


def _conditional_permissions(api: GoogleApi, project: str) -> Finding:
    """A project that is asked does not fulfil a condition on the names of its resources."""
    subject, wanted = "permissions on cloudgan's resources", permissions("resources")
    if _missing(api, project, wanted):
        return Finding(
            subject,
            "unknown",
            "not granted for the whole project; the role of deploy/gcp/resources.yaml grants them on"
            " the condition in resources-condition.yaml, which Google evaluates when they are used",
        )
    return Finding(subject, "ok", f"all {len(wanted)} are granted, for the whole project")


def _missing(api: GoogleApi, project: str, wanted: tuple[str, ...]) -> list[str]:
    granted: set[str] = set()
    for first in range(0, len(wanted), _BATCH):
        body = {"permissions": wanted[first : first + _BATCH]}
        url = f"{PROJECTS}/projects/{project}:testIamPermissions"
        granted |= set(api.send("POST", url, body).get("permissions", ()))
    return [one for one in wanted if one not in granted]


def account_finding(api: GoogleApi, project: str, name: str) -> Finding:
    """Returns whether a service account exists and this login may attach it to machines."""
    subject, email = f"service account {name}", account_email(name, project)
    url = f"{IAM}/projects/{project}/serviceAccounts/{email}"
    try:
        found = api.find(url)
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    if found is None:
        return Finding(subject, "missing", f"it does not exist; {_SET_UP}")
    if name == TRAINER_ACCOUNT:
        return _identity_finding(api, subject, url)
    granted = api.send("POST", f"{url}:testIamPermissions", {"permissions": [ACT_AS]})
    if ACT_AS in granted.get("permissions", ()):
        return Finding(subject, "ok", "it exists, and this login may attach it to machines")
    how = f"gcloud iam service-accounts add-iam-policy-binding {email}"
    return Finding(
        subject,
        "missing",
        f"this login lacks {ACT_AS} on it; {how} --role=roles/iam.serviceAccountUser --member=YOU",
    )


def _identity_finding(api: GoogleApi, subject: str, url: str) -> Finding:
    """Returns whether this login may let the pods of a cluster act as the account."""
    wanted = permissions("identity")
    answer = api.send("POST", f"{url}:testIamPermissions", {"permissions": list(wanted)})
    missing = [one for one in wanted if one not in answer.get("permissions", ())]
    if not missing:
        return Finding(subject, "ok", "it exists, and this login may let pods act as it")
    return Finding(
        subject,
        "missing",
        f"this login lacks {', '.join(missing)} on it; an owner grants the role of {_IDENTITY} on this"
        " account (docs/gcp.md)",
    )


def quota_findings(api: GoogleApi, project: str, plan: Plan) -> Iterator[Finding]:
    """Yields the findings on the quotas of a plan's accelerators."""
    assert plan.node_pool is not None  # noqa: S101
    found = machine(plan.node_pool.node_type)
    region, needed = plan.target.region or "", found.accelerators * plan.workers.nodes
    if plan.node_pool.reservation:
        name = f"reservation {plan.node_pool.reservation}"
        yield Finding(name, "ok", f"it is in {plan.target.zone} and has enough free capacity")
        return
    is_spot = plan.node_pool.market == "spot" or plan.node_pool.flex_start
    metric = found.kind.quota or (f"{found.kind.family}_GPUS" if is_spot else "")
    if metric:
        quotas = _quotas(api, f"{COMPUTE}/projects/{project}/regions/{region}")
        yield _regional_quota(metric, region, needed, quotas, is_spot=is_spot)
    else:
        name = f"GPUS-PER-GPU-FAMILY-per-project-region (gpu_family {found.kind.family})"
        yield _unlisted_quota(name, region, needed)
    quotas = _quotas(api, f"{COMPUTE}/projects/{project}")
    yield _quota(_ALL_REGIONS, "all regions together", needed, quotas)


def _regional_quota(
    name: str, region: str, needed: int, quotas: dict[str, float], *, is_spot: bool
) -> Finding:
    if not is_spot:
        return _quota(name, region, needed, quotas)
    found = _quota(f"PREEMPTIBLE_{name}", region, needed, quotas)
    if found.status == "missing" and quotas.get(name, 0) >= needed:
        # Without a preemptible quota, Google charges spot GPUs to the standard quota (from memory).
        return found._replace(status="unknown", message=f"{found.message}; {name} would suffice")
    return found


def _quota(name: str, where: str, needed: int, quotas: dict[str, float]) -> Finding:
    subject = f"quota {name} in {where}"
    if name not in quotas:
        return Finding(subject, "unknown", f"Google does not list it; {needed} are needed")
    left = int(quotas[name])
    if left >= needed:
        return Finding(subject, "ok", f"{left} left, {needed} needed")
    return Finding(subject, "missing", f"{left} left and {needed} needed; {_CONSOLE}, {name}")


def _unlisted_quota(name: str, region: str, needed: int) -> Finding:
    message = f"Compute Engine does not list it; {needed} are needed. If refused, {_CONSOLE}"
    return Finding(f"quota {name} in {region}", "unknown", message)


def _quotas(api: GoogleApi, url: str) -> dict[str, float]:
    """Returns the remaining amount of each quota."""
    found: dict[str, Any] = api.send("GET", url, query={"fields": "quotas"})
    return {
        one["metric"]: float(one.get("limit", 0)) - float(one.get("usage", 0))
        for one in found.get("quotas", ())
    }
