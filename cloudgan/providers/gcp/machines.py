"""Google's machines with accelerators, by the name that the price list has for them.

Google's own tables were not at hand. Which GPU is in which machine, and TPUs of one host with their
labels and topologies, are as in Google's tools: AI-Hypercomputer/xpk,
src/xpk/core/system_characteristics.py, and the table of TPU types for Saxml on GKE in
GoogleCloudPlatform/applied-ai-engineering-samples (both read 2026-11-21). How many GPUs the machines
have is from the price list. Disk types, and which a3-highgpu are sold on demand, are from memory.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cloudgan.core.errors import PlanError, nearest

GPU = "nvidia.com/gpu"
TPU = "google.com/tpu"
PD, HYPERDISK = "pd-balanced", "hyperdisk-balanced"


class Kind(NamedTuple):
    """A kind of accelerator.

    Attributes:
        name: As Google's APIs call it; of a TPU, the value of its node label.
        quota: Metric of the region's quota, such as NVIDIA_V100_GPUS; empty where the region does
            not list it, because it is counted by `family`.
        family: In the quota of GPUs per family, such as NVIDIA_H100.
        needs_own_image: Why TensorFlow's public image does not do; empty: it does.
    """

    name: str
    quota: str = ""
    family: str = ""
    needs_own_image: str = ""


class Machine(NamedTuple):
    """A type of node.

    Attributes:
        node_type: As the price list calls it.
        machine_type: As Google calls it.
        kind: Of its accelerators.
        accelerators: How many GPUs, or TPU chips.
        resource: As Kubernetes counts them.
        disk_type: Of its boot disk: newer machines take no other.
        topology: Of TPU chips; empty for GPUs.
        is_on_demand: Whether it is sold otherwise than as spot or flex-start.
    """

    node_type: str
    machine_type: str
    kind: Kind
    accelerators: int
    resource: str = GPU
    disk_type: str = PD
    topology: str = ""
    is_on_demand: bool = True

    @property
    def is_attached(self) -> bool:
        """Whether the GPUs are added to a machine that is sold without any."""
        return "+" in self.node_type


_BLACKWELL = (
    "the public image's TensorFlow is built for no Blackwell GPU; give --image=REF of a build that"
    " is, or take h200:8"
)
GPUS = {
    "T4": Kind("nvidia-tesla-t4", "NVIDIA_T4_GPUS"),
    "P100": Kind("nvidia-tesla-p100", "NVIDIA_P100_GPUS"),
    "V100": Kind("nvidia-tesla-v100", "NVIDIA_V100_GPUS"),
    "L4": Kind("nvidia-l4", "NVIDIA_L4_GPUS"),
    "A100-40GB": Kind("nvidia-tesla-a100", "NVIDIA_A100_GPUS"),
    "A100-80GB": Kind("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS"),
    "H100": Kind("nvidia-h100-80gb", family="NVIDIA_H100"),
    "H200": Kind("nvidia-h200-141gb", family="NVIDIA_H200"),
    "B200": Kind("nvidia-b200", family="NVIDIA_B200", needs_own_image=_BLACKWELL),
}
_V5E, _V6E = Kind("tpu-v5-lite-podslice"), Kind("tpu-v6e-slice")
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
        _of("a3-ultragpu-8g", "H200", 8)._replace(disk_type=HYPERDISK),
        _of("a4-highgpu-8g", "B200", 8)._replace(disk_type=HYPERDISK),
        *(_tpu(f"v5litepod-{n}", f"ct5lp-hightpu-{n}t", _V5E, PD) for n in _CHIPS),
        *(_tpu(f"v6e-{n}", f"ct6e-standard-{n}t", _V6E, HYPERDISK) for n in _CHIPS),
    ]
    return {row.node_type: row for row in rows}


def _of(name: str, gpu: str, count: int) -> Machine:
    return Machine(name, name, GPUS[gpu], count)


def _tpu(node_type: str, machine_type: str, kind: Kind, disk: str) -> Machine:
    chips = int(node_type.rpartition("-")[2])
    return Machine(node_type, machine_type, kind, chips, TPU, disk, _CHIPS[chips])


_WHOLE = 8
_CHIPS = {1: "1x1", 4: "2x2", 8: "2x4"}
"""Of one host, and how they are wired; more chips than eight are more than one host."""
_L4 = (
    *((f"g2-standard-{n}", 1) for n in (4, 8, 12, 16, 32)),
    ("g2-standard-24", 2),
    ("g2-standard-48", 4),
    ("g2-standard-96", 8),
)
MACHINES = _table()


def machine(node_type: str) -> Machine:
    """Returns a machine by its name in the price list, such as ``n1-standard-8+1xV100``.

    Raises:
        PlanError: No node pool has such machines; one sentence why, and what there is.
    """
    if found := MACHINES.get(node_type):
        return found
    if found_n1 := _N1.fullmatch(node_type):
        host, count, gpu = found_n1.groups()
        return Machine(node_type, host, GPUS[gpu], int(count))
    raise PlanError(_why_not(node_type))


def node_type_of(config: dict[str, Any]) -> str:
    """Returns the price list's name of the nodes that a pool's configuration describes."""
    machine_type = str(config.get("machineType", ""))
    for one in config.get("accelerators", ()):
        gpu = next((n for n, kind in GPUS.items() if kind.name == one.get("acceleratorType")), "")
        if gpu and machine_type.startswith("n1-"):
            return f"{machine_type}+{one.get('acceleratorCount')}x{gpu}"
    known = (row.node_type for row in MACHINES.values() if row.machine_type == machine_type)
    return next(known, machine_type)


def _why_not(node_type: str) -> str:
    if node_type.startswith(("tpu7x", "v7x")):
        return (
            f"{node_type}: there is no TensorFlow for TPU7x (tensorflow-tpu ends at 2.20); take"
            " --accelerator=tpu-v6e:8"
        )
    if re.match(r"(ct[234]\w*-|v[234]-)", node_type):
        return (
            f"{node_type}: TPU v2, v3 and v4 are no node pools for TensorFlow; as TPU VMs they are"
            " called v2-8, v3-8 and v4-8, without --image"
        )
    if re.match(r"(v5litepod|v5p|v6e|ct5p)-", node_type):
        return (
            f"{node_type}: a TPU slice of several hosts in Kubernetes has no way for TensorFlow to"
            " reach its other hosts; take at most 8 chips, such as --accelerator=tpu-v6e:8"
        )
    return f"Google Cloud has no machine {node_type!r} with accelerators.{nearest(node_type, MACHINES)}"
