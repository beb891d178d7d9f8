"""Checks before a launch: enabled APIs, permissions, service accounts, GPU and TPU quota.

Quota metrics: the discovery document of compute.v1 (revision 20261106). For H100 and newer it lists
spot quotas only; on demand they have one quota per GPU family that the regions do not list, named as
public repositories name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cloudgan.core import assets
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.launch.backends.tpu_vm.requests import slice_notes, slice_of
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.iam import api_states
from cloudgan.launch.clouds.gcp.machines import machine
from cloudgan.launch.clouds.gcp.planner import APIS
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.clouds.resource import Finding
from cloudgan.schema.plan import Plan

ACT_AS = "iam.serviceAccounts.actAs"
_BATCH = 100
_SET_UP = "type: cloudgan setup --provider=gcp"
_CONSOLE = "request more in the console: IAM & Admin, Quotas"
_ALL_REGIONS = "GPUS_ALL_REGIONS"


def permissions(role: str = "policy") -> tuple[str, ...]:
    """Returns the permissions of a role in deploy/gcp."""
    name = f"deploy/gcp/{role}.yaml"
    found: dict[str, Any] = parse_yaml(assets.read_text(name), name)
    return tuple(found["includedPermissions"])


def access_findings(api: GoogleApi) -> Iterator[Finding]:
    """Yields the findings on APIs, permissions and the service accounts of `setup`."""
    yield _apis(api)
    yield _permissions(api)
    yield _conditional_permissions(api)
    for name in (names.NODES_ACCOUNT, names.TRAINER_ACCOUNT):
        yield account_finding(api, name)


def _apis(api: GoogleApi) -> Finding:
    try:
        off = [name for name, is_on in api_states(api, APIS).items() if not is_on]
    except CloudganError as error:
        return Finding("APIs", "unknown", str(error))
    if off:
        how = f"{_SET_UP}, or: gcloud services enable {' '.join(off)}"
        return Finding("APIs", "missing", f"not enabled in {api.project}: {', '.join(off)}; {how}")
    return Finding("APIs", "ok", "all are enabled")


def _permissions(api: GoogleApi) -> Finding:
    wanted = permissions()
    if missing := _missing(api, f"{names.PROJECTS}/projects/{api.project}", wanted):
        message = (
            f"this login lacks {', '.join(missing)}; an owner of the project grants the role of"
            " deploy/gcp/policy.yaml"
        )
        return Finding("permissions", "missing", message)
    return Finding("permissions", "ok", f"all {len(wanted)} are granted")


def _conditional_permissions(api: GoogleApi) -> Finding:
    """A project that is asked does not fulfil a condition on the names of its resources."""
    subject, wanted = "permissions on cloudgan's resources", permissions("resources")
    if _missing(api, f"{names.PROJECTS}/projects/{api.project}", wanted):
        return Finding(
            subject,
            "unknown",
            "not granted for the whole project; the role of deploy/gcp/resources.yaml grants them on"
            " the condition in resources-condition.yaml, which Google evaluates when they are used",
        )
    return Finding(subject, "ok", f"all {len(wanted)} are granted, for the whole project")


def _missing(api: GoogleApi, url: str, wanted: Sequence[str]) -> list[str]:
    """Returns which permissions this login lacks on a resource."""
    granted: set[str] = set()
    for first in range(0, len(wanted), _BATCH):
        body = {"permissions": wanted[first : first + _BATCH]}
        granted |= set(api.send("POST", f"{url}:testIamPermissions", body).get("permissions", ()))
    return [one for one in wanted if one not in granted]


def account_finding(api: GoogleApi, name: str) -> Finding:
    """Returns whether a service account exists and this login may use it.

    Nodes and TPU VMs get theirs attached; pods of a cluster act as the trainer's.
    """
    subject, email = f"service account {name}", names.account_email(name, api.project)
    url = f"{names.IAM}/projects/{api.project}/serviceAccounts/{email}"
    try:
        found = api.find(url)
    except CredentialsError as error:
        return Finding(subject, "unknown", str(error))
    if found is None:
        return Finding(subject, "missing", f"it does not exist; {_SET_UP}")
    if name == names.TRAINER_ACCOUNT:
        wanted, may = permissions("identity"), "let pods act as it"
        how = (
            "an owner grants the role of deploy/gcp/identity.yaml on this account (docs/clouds.md)"
        )
    else:
        wanted, may = (ACT_AS,), "attach it to machines"
        how = (
            f"gcloud iam service-accounts add-iam-policy-binding {email}"
            " --role=roles/iam.serviceAccountUser --member=YOU"
        )
    if missing := _missing(api, url, wanted):
        return Finding(subject, "missing", f"this login lacks {', '.join(missing)} on it; {how}")
    return Finding(subject, "ok", f"it exists, and this login may {may}")


def quota_findings(api: GoogleApi, plan: Plan) -> Iterator[Finding]:
    """Yields the findings on the quotas of a plan's accelerators: GPUs, or TPU chips of nodes."""
    pool = pool_of(plan)
    found = machine(pool.node_type)
    region, needed = plan.target.region or "", found.accelerators * plan.workers.nodes
    if pool.reservation:
        name = f"reservation {pool.reservation}"
        yield Finding(name, "ok", f"it is in {plan.target.zone} and has enough free capacity")
        return
    is_spot, is_tpu = pool.market == "spot" or pool.flex_start, bool(found.topologies)
    metric = found.quota or (f"{found.quota_family}_GPUS" if is_spot and not is_tpu else "")
    if metric:
        quotas = _quotas(api, f"{names.COMPUTE}/projects/{api.project}/regions/{region}")
        yield _regional_quota(metric, region, needed, quotas, is_spot=is_spot)
    else:
        unit = "TPU" if is_tpu else "GPU"
        of = f"{unit.lower()}_family {found.quota_family}"
        name = f"{unit}S-PER-{unit}-FAMILY-per-project-region ({of})"
        why = f"Compute Engine does not list it; {needed} are needed. If refused, {_CONSOLE}"
        yield Finding(f"quota {name} in {region}", "unknown", why)
    if is_tpu:
        return
    quotas = _quotas(api, f"{names.COMPUTE}/projects/{api.project}")
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
    message = f"{left} left and {needed} needed; {_CONSOLE}, {name}"
    return Finding(subject, "missing", message, is_quota=True)


def _quotas(api: GoogleApi, url: str) -> dict[str, float]:
    """Returns the remaining amount of each quota."""
    found: dict[str, Any] = api.send("GET", url, query={"fields": "quotas"})
    return {
        one["metric"]: float(one.get("limit", 0)) - float(one.get("usage", 0))
        for one in found.get("quotas", ())
    }


def check_hosts(plan: Plan) -> None:
    """Refuses a TPU slice of several hosts to TensorFlow."""
    if plan.node_pool and plan.node_pool.hosts > 1 and not plan.config.uses_jax:
        raise PlanError(slice_notes(slice_of(plan.node_pool.node_type))[-1])


def tpu_zones(api: GoogleApi, plan: Plan) -> list[str]:
    """Returns the zones of a plan's region that offer its slice."""
    region, node_type = plan.target.region or "", pool_of(plan).node_type
    url = f"{names.TPU}/projects/{api.project}/locations"
    zones = [one["locationId"] for page in api.pages(url) for one in page.get("locations", ())]
    near = [str(one) for one in zones if one.startswith(f"{region}-")]
    if found := [z for z in near if api.find(f"{url}/{z}/acceleratorTypes/{node_type}")]:
        return found
    other = slice_of(node_type).replacement
    hint = f" the nearest generally available slice is {other};" if other else ""
    raise PlanError(
        f"Google offers this project no TPU {node_type} in any zone of {region};{hint}"
        " `cloudgan offers --provider=gcp` lists regions"
    )


def tpu_findings(api: GoogleApi, plan: Plan) -> Iterator[Finding]:
    """Yields the findings on service account, slice and system image, and names the required quota."""
    pool, place = pool_of(plan), plan.target.zone
    zone = f"{names.TPU}/projects/{api.project}/locations/{place}"
    offered = (
        (f"TPU {pool.node_type} in {place}", f"acceleratorTypes/{pool.node_type}"),
        (f"system image {pool.runtime}", f"runtimeVersions/{pool.runtime}"),
    )
    yield account_finding(api, names.TPU_ACCOUNT)
    for subject, path in offered:
        if api.find(f"{zone}/{path}"):
            yield Finding(subject, "ok", "offered to this project")
        else:
            why = "Google does not offer it to this project; pass another --zone"
            yield Finding(subject, "missing", why)
    generation, _, count = pool.node_type.rpartition("-")
    spot = "preemptible " if pool.market == "spot" else ""
    yield Finding(
        f"quota of {spot}TPU {generation} in {place}",
        "unknown",
        f"{count} are needed; the console shows the limit: IAM & Admin, Quotas,"
        f" Cloud TPU API, {spot}TPU {generation} per project per zone",
    )
