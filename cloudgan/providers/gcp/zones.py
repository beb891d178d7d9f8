"""In which zones Google has a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import PlanError
from cloudgan.providers.gcp.addresses import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Collection

    from cloudgan.providers.gcp.api import GoogleApi
    from cloudgan.providers.gcp.machines import Machine


def zones_of(api: GoogleApi, project: str, kind: Machine) -> tuple[str, ...]:
    """Returns all zones that have a machine, or the GPUs that are attached to it."""
    table, name = (
        ("acceleratorTypes", kind.kind.name)
        if kind.is_attached
        else ("machineTypes", kind.machine_type)
    )
    url = f"{COMPUTE}/projects/{project}/aggregated/{table}"
    found = {
        zone.partition("/")[2]
        for page in api.pages(url, filter=f"name={name}")
        for zone, listed in page.get("items", {}).items()
        if listed.get(table)
    }
    return tuple(sorted(found))


def chosen_zone(
    kind: Machine, region: str, asked: str | None, zones: Collection[str], liked: Collection[str]
) -> str:
    """Returns the zone for all nodes of a run.

    Args:
        kind: Of the machines.
        region: That is asked.
        asked: The only zone that will do; None: any of the region.
        zones: That have them.
        liked: Those of them where something of ours is already.

    Raises:
        PlanError: There is none; says which there are.
    """
    there = [zone for zone in sorted(zones) if asked in (None, zone)]
    there = [zone for zone in there if zone.startswith(f"{region}-")]
    if there:
        return next((zone for zone in there if zone in liked), there[0])
    others = sorted({zone if asked else zone.rpartition("-")[0] for zone in zones})
    flag, where = ("--zone", asked) if asked else ("--region", region)
    listed = ", ".join(others) or "none, for this project"
    raise PlanError(f"{kind.node_type} is not in {where}; {flag} can be: {listed}")
