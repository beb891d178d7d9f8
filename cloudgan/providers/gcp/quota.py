"""How many accelerators a project may have, by the names under which more are asked for.

Names: the metrics that compute.v1's discovery document lists (revision 20261106). H100 and newer stand
there for spot alone; on demand they have a quota for each family, which the regions do not list, called
as those write who asked for it (public repositories; no page of Google's was read).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.thing import Finding
from cloudgan.providers.gcp.addresses import COMPUTE
from cloudgan.providers.gcp.machines import TPU, machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.plan import Plan
    from cloudgan.providers.gcp.api import GoogleApi

_CONSOLE = "ask for more in the console: IAM & Admin, Quotas"
_EVERYWHERE = "GPUS_ALL_REGIONS"


def quota_findings(api: GoogleApi, project: str, plan: Plan) -> Iterator[Finding]:
    """Yields what the quota of a plan's accelerators says."""
    assert plan.rental is not None  # noqa: S101
    kind = machine(plan.rental.node_type)
    region, needed = plan.place.region or "", kind.accelerators * plan.workers.nodes
    is_spot = plan.rental.market == "spot" or plan.rental.flex_start
    if kind.resource == TPU:
        name = f"TPU chips of {kind.machine_type}" + (" (preemptible)" if is_spot else "")
        yield _unknown(name, region, needed)
        return
    metric = kind.kind.quota or (f"{kind.kind.family}_GPUS" if is_spot else "")
    if metric:
        quotas = _quotas(api, f"{COMPUTE}/projects/{project}/regions/{region}")
        yield _of_region(metric, region, needed, quotas, is_spot=is_spot)
    else:
        name = f"GPUS-PER-GPU-FAMILY-per-project-region (gpu_family {kind.kind.family})"
        yield _unknown(name, region, needed)
    quotas = _quotas(api, f"{COMPUTE}/projects/{project}")
    yield _finding(_EVERYWHERE, "all regions together", needed, quotas)


def _of_region(
    name: str, region: str, needed: int, quotas: dict[str, float], *, is_spot: bool
) -> Finding:
    if not is_spot:
        return _finding(name, region, needed, quotas)
    found = _finding(f"PREEMPTIBLE_{name}", region, needed, quotas)
    if found.verdict == "missing" and quotas.get(name, 0) >= needed:
        # Google counts spot GPUs by the usual quota where a project has none of their own (from
        # memory), hence no verdict.
        return found._replace(verdict="unknown", says=f"{found.says}; {name} would suffice")
    return found


def _finding(name: str, where: str, needed: int, quotas: dict[str, float]) -> Finding:
    subject = f"quota {name} in {where}"
    if name not in quotas:
        return Finding(subject, "unknown", f"Google does not tell it; {needed} are needed")
    left = int(quotas[name])
    if left >= needed:
        return Finding(subject, "ok", f"{left} left, {needed} needed")
    return Finding(subject, "missing", f"{left} left and {needed} needed; {_CONSOLE}, {name}")


def _unknown(name: str, region: str, needed: int) -> Finding:
    says = f"Compute Engine does not list it; {needed} are needed. If they are refused, {_CONSOLE}"
    return Finding(f"quota {name} in {region}", "unknown", says)


def _quotas(api: GoogleApi, url: str) -> dict[str, float]:
    """What is left of each."""
    found: dict[str, Any] = api.send("GET", url, query={"fields": "quotas"})
    return {
        one["metric"]: float(one.get("limit", 0)) - float(one.get("usage", 0))
        for one in found.get("quotas", ())
    }
