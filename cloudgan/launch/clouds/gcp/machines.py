"""Google's machine types with accelerators, by their names in the price table, and their zones.

GPUs per machine: AI-Hypercomputer/xpk, src/xpk/core/system_characteristics.py (read 2026-11-21). GPU
counts: the price table.
Of the newest, only a3-megagpu-8g is on demand: xpk's docs, whose table of capacity types says "A3 Mega
only" there (read 2026-11-22). Disk types, and which a3-highgpu are on demand: from memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import PlanError, nearest
from cloudgan.launch.clouds.gcp.addresses import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Collection

    from cloudgan.launch.clouds.gcp.api import GoogleApi

GPU = "nvidia.com/gpu"
PD, HYPERDISK = "pd-balanced", "hyperdisk-balanced"


class AcceleratorKind(NamedTuple):
    """An accelerator model.

    Attributes:
        name: Name in Google's APIs.
        quota: Metric of the regional quota, such as NVIDIA_V100_GPUS; empty if counted by `family`.
        family: Family in the quota of GPUs per family, such as NVIDIA_H100.
        needs_own_image: Why TensorFlow's wheels do not run on it; empty if they do.
    """

    name: str
    quota: str = ""
    family: str = ""
    needs_own_image: str = ""


class Machine(NamedTuple):
    """A node type.

    Attributes:
        node_type: Name in the price table.
        machine_type: Google's machine type.
        kind: Accelerator model.
        accelerators: Number of GPUs.
        disk_type: Type of the boot disk; newer machines accept one only.
        is_on_demand: Whether it is sold on demand, not only as spot or flex-start.
    """

    node_type: str
    machine_type: str
    kind: AcceleratorKind
    accelerators: int
    disk_type: str = PD
    is_on_demand: bool = True

    @property
    def has_unused_network(self) -> bool:
        """Whether its GPUs have a network of their own (GPUDirect), which node pools of cloudgan lack."""
        return self.machine_type.startswith(("a3-mega", "a3-ultra", "a4"))

    @property
    def is_attached(self) -> bool:
        """Whether the GPUs are attached to a machine type without GPUs."""
        return "+" in self.node_type


_BLACKWELL = (
    "TensorFlow's wheels do not support Blackwell GPUs; pass --image=REF of a build that does, or"
    " choose h200:8"
)
_GRACE = (
    "its processors are Arm, for which TensorFlow has no wheels with GPUs; pass --image=REF of a build"
    " for Arm and Blackwell GPUs, or choose h200:8"
)
GPUS = {
    "T4": AcceleratorKind("nvidia-tesla-t4", "NVIDIA_T4_GPUS"),
    "P100": AcceleratorKind("nvidia-tesla-p100", "NVIDIA_P100_GPUS"),
    "V100": AcceleratorKind("nvidia-tesla-v100", "NVIDIA_V100_GPUS"),
    "L4": AcceleratorKind("nvidia-l4", "NVIDIA_L4_GPUS"),
    "A100-40GB": AcceleratorKind("nvidia-tesla-a100", "NVIDIA_A100_GPUS"),
    "A100-80GB": AcceleratorKind("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS"),
    "H100": AcceleratorKind("nvidia-h100-80gb", family="NVIDIA_H100"),
    "H200": AcceleratorKind("nvidia-h200-141gb", family="NVIDIA_H200"),
    "B200": AcceleratorKind("nvidia-b200", family="NVIDIA_B200", needs_own_image=_BLACKWELL),
    "GB200": AcceleratorKind("nvidia-gb200", family="NVIDIA_GB200", needs_own_image=_GRACE),
}
_H100_MEGA = AcceleratorKind("nvidia-h100-mega-80gb", family="NVIDIA_H100_MEGA")
_N1 = re.compile(r"(n1-(?:standard|highmem)-\d+)\+(\d)x(T4|P100|V100)")


def _table() -> dict[str, Machine]:
    rows = [
        *(Machine(name, name, GPUS["L4"], count) for name, count in _L4),
        *(_of(f"a2-highgpu-{n}g", "A100-40GB", n) for n in (1, 2, 4, 8)),
        _of("a2-megagpu-16g", "A100-40GB", 16),
        *(_of(f"a2-ultragpu-{n}g", "A100-80GB", n) for n in (1, 2, 4, 8)),
        *(
            _of(f"a3-highgpu-{n}g", "H100", n)._replace(is_on_demand=n == _WHOLE)
            for n in (1, 2, 4, 8)
        ),
        Machine("a3-megagpu-8g", "a3-megagpu-8g", _H100_MEGA, 8),
        _of("a3-ultragpu-8g", "H200", 8)._replace(disk_type=HYPERDISK, is_on_demand=False),
        _of("a4-highgpu-8g", "B200", 8)._replace(disk_type=HYPERDISK, is_on_demand=False),
        _of("a4x-highgpu-4g", "GB200", 4)._replace(disk_type=HYPERDISK, is_on_demand=False),
    ]
    return {row.node_type: row for row in rows}


def _of(name: str, gpu: str, count: int) -> Machine:
    return Machine(name, name, GPUS[gpu], count)


_WHOLE = 8
_L4 = (
    *((f"g2-standard-{n}", 1) for n in (4, 8, 12, 16, 32)),
    ("g2-standard-24", 2),
    ("g2-standard-48", 4),
    ("g2-standard-96", 8),
)
MACHINES = _table()


def machine(node_type: str) -> Machine:
    """Returns a machine by its name in the price table, such as ``n1-standard-8+1xV100``.

    Raises:
        PlanError: GKE has no such node pools; names an alternative.
    """
    if found := MACHINES.get(node_type):
        return found
    if found_n1 := _N1.fullmatch(node_type):
        host, count, gpu = found_n1.groups()
        return Machine(node_type, host, GPUS[gpu], int(count))
    raise PlanError(_why_not(node_type))


def node_type_of(config: dict[str, Any]) -> str:
    """Returns the price table's name of a node configuration."""
    machine_type = str(config.get("machineType", ""))
    for one in config.get("accelerators", ()):
        gpu = next((n for n, kind in GPUS.items() if kind.name == one.get("acceleratorType")), "")
        if gpu and machine_type.startswith("n1-"):
            return f"{machine_type}+{one.get('acceleratorCount')}x{gpu}"
    known = (row.node_type for row in MACHINES.values() if row.machine_type == machine_type)
    return next(known, machine_type)


def zones_of(api: GoogleApi, project: str, kind: Machine) -> tuple[str, ...]:
    """Returns all zones that offer a machine type, or the GPUs attached to it."""
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


def select_zones(
    kind: Machine,
    region: str,
    zone: str | None,
    offered: Collection[str],
    preferred: Collection[str],
) -> tuple[str, ...]:
    """Returns the zones for a run, the preferred first: all its nodes are in one of them.

    Args:
        kind: The machine type.
        region: The target's region.
        zone: The required zone; None: any of the region.
        offered: Zones that offer the machine type.
        preferred: Zones with a cluster of cloudgan's.

    Raises:
        PlanError: None matches; names the zones or regions that do.
    """
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


def _why_not(node_type: str) -> str:
    if node_type.startswith(("tpu7x", "v7x")):
        return (
            f"{node_type}: there is no TensorFlow for TPU7x (tensorflow-tpu ends at 2.20); choose"
            " --accelerator=tpu-v6e:8"
        )
    return f"Google Cloud has no machine {node_type!r} with accelerators.{nearest(node_type, MACHINES)}"
