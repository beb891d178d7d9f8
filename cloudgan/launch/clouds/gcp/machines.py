"""Google's machines with accelerators (core/machines.csv), their names in its APIs, and their zones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from cloudgan.core import machines
from cloudgan.core.errors import PlanError, nearest
from cloudgan.core.machines import Machine
from cloudgan.launch.clouds.gcp import names

_N1 = re.compile(r"(n1-(?:standard|highmem)-\d+)\+(\d)x(\w+)")


def machine(node_type: str) -> Machine:
    """Returns a machine by its name in the price table, such as ``n1-standard-8+1xV100``.

    Of N1 every host with every number of its GPUs is a machine, also those without a row.
    """
    known = machines.sold("gcp")
    if found := known.get(node_type):
        return found
    if attached := _N1.fullmatch(node_type):
        _, count, gpu = attached.groups()
        for one in known.values():
            if is_attached(one) and one.accelerator == gpu:
                host = {"vcpu": None, "memory_gib": None}
                return one.model_copy(
                    update={"node_type": node_type, "accelerators": int(count)} | host
                )
    raise PlanError(_why_not(node_type, known))


def is_attached(found: Machine) -> bool:
    """Returns whether the GPUs are attached to a machine type without GPUs."""
    return "+" in found.node_type


def host_of(found: Machine) -> str:
    """Returns Google's machine type."""
    return found.node_type.partition("+")[0]


def topology_of(found: Machine, nodes: int) -> str:
    """Returns the topology of a slice of TPU nodes, such as 4x4 of four with four chips each.

    Raises:
        PlanError: GKE has no slice of so many nodes.
    """
    chips = {math.prod(map(int, one.split("x"))): one for one in found.topologies.split()}
    if topology := chips.get(nodes * found.accelerators):
        return topology
    possible = ", ".join(f"{count // found.accelerators} ({one})" for count, one in chips.items())
    raise PlanError(
        f"--nodes={nodes}: a slice of {found.node_type} has another number of nodes; give --nodes=N,"
        f" where N is {possible}"
    )


def node_type_of(config: dict[str, Any]) -> str:
    """Returns the price table's name of a node configuration."""
    host = str(config.get("machineType", ""))
    for attached in config.get("accelerators", ()):
        for one in machines.sold("gcp").values():
            if is_attached(one) and one.cloud_accelerator == attached.get("acceleratorType"):
                if host.startswith("n1-"):
                    return f"{host}+{attached.get('acceleratorCount')}x{one.accelerator}"
                break
    return host


def zones_of(
    pages: Callable[..., Iterable[dict[str, Any]]], project: str, kind: Machine
) -> tuple[str, ...]:
    """Returns all zones that offer a machine type, or the GPUs attached to it."""
    table, name = (
        ("acceleratorTypes", kind.cloud_accelerator)
        if is_attached(kind)
        else ("machineTypes", kind.node_type)
    )
    url = f"{names.COMPUTE}/projects/{project}/aggregated/{table}"
    found = {
        zone.partition("/")[2]
        for page in pages(url, filter=f"name={name}")
        for zone, listed in page.get("items", {}).items()
        if listed.get(table)
    }
    return tuple(sorted(found))


def select_zones(
    kind: Machine,
    region: str,
    zone: str | None,
    offered: Collection[str],
    preferred: Collection[str],
) -> tuple[str, ...]:
    """Returns the zones for a run, the preferred first: all its nodes are in one of them."""
    found = [one for one in sorted(offered) if zone in (None, one)]
    found = [one for one in found if one.startswith(f"{region}-")]
    if found:
        return tuple(sorted(found, key=lambda one: (one not in preferred, one)))
    others = sorted({one if zone else one.rpartition("-")[0] for one in offered})
    flag, where = ("--zone", zone) if zone else ("--region", region)
    if not others:
        raise PlanError(
            f"no region has {kind.node_type} for this project; pass another --accelerator (see"
            " `cloudgan offers`)"
        )
    raise PlanError(f"{kind.node_type} is not in {where}; {flag} can be: {', '.join(others)}")


def _why_not(node_type: str, known: Collection[str]) -> str:
    if node_type.startswith(("tpu7x", "v7x")):
        return (
            f"{node_type}: there is no TensorFlow for TPU7x (tensorflow-tpu ends at 2.20); choose"
            " --accelerator=tpu-v6e:8"
        )
    return (
        f"Google Cloud has no machine {node_type!r} with accelerators.{nearest(node_type, known)}"
    )
