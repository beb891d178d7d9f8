"""TPU generations, and slices by their names in the price table.

Chips and hosts: https://docs.cloud.google.com/tpu/docs (pages v2 to v6e). System images: the table
of .../tpu/docs/runtimes for user-installed frameworks. Zones: .../tpu/docs/types-zones, whose version
with TPU7x lists v4 and later in North America, but no v2 or v3; a page of September 2025 listed them.
All read 2026-11-21 in stored copies; not tested on a TPU.

TensorFlow finds v5e, v5p and v6e only through its PJRT runtime, which environment variables select: the
instruction of Google's page in https://github.com/tensorflow/tensorflow/issues/90807 (2025-04-07) and the
tutorial of keras-rs for tensorflow-tpu 2.19.1 on v5p and v6e (2025-09-02). v2 to v4 use the older
runtime: .../tpu/docs/supported-versions names PJRT images for v5e, v5p and v6e only. Read 2026-11-22.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cloudgan.core.errors import PlanError, nearest


class Generation(NamedTuple):
    """A generation of TPUs.

    Attributes:
        runtime: System image of the VMs of a slice with one host.
        uses_pjrt: Whether TensorFlow needs its PJRT runtime; the older generations fail with it.
    """

    runtime: str
    uses_pjrt: bool


class Slice(NamedTuple):
    """One accelerator type.

    Attributes:
        name: Name in the API and the price table.
        chips: Number of chips.
        hosts: Number of VMs.
        instead: The nearest generally available slice; empty: this one is.
    """

    name: str
    chips: int
    hosts: int
    instead: str = ""

    @property
    def runtime(self) -> str:
        """System image of the VMs."""
        return _SERVERS if self.hosts > 1 else generation_of(self.name).runtime


_BASE = "tpu-ubuntu2204-base"
GENERATIONS: Final[dict[str, Generation]] = {
    "v2": Generation(_BASE, uses_pjrt=False),
    "v3": Generation(_BASE, uses_pjrt=False),
    "v4": Generation(_BASE, uses_pjrt=False),
    "v5litepod": Generation("v2-alpha-tpuv5-lite", uses_pjrt=True),
    "v5p": Generation("v2-alpha-tpuv5", uses_pjrt=True),
    "v6e": Generation("v2-alpha-tpuv6e", uses_pjrt=True),
}
"""By the part of a slice's name before its size."""
# The TensorFlow servers of a multi-host slice are part of the image: 2.18 is the newest in the
# documentation, and the name follows the documented ones of v5e.
_SERVERS = "tpu-vm-tf-2.18.0-pod-pjrt-v5p-and-below"

SLICES: Final[dict[str, Slice]] = {
    one.name: one
    for one in (
        Slice("v2-8", 4, 1, "v5litepod-4"),
        Slice("v2-32", 16, 4, "v5litepod-8"),
        Slice("v3-8", 4, 1, "v5litepod-4"),
        Slice("v3-32", 16, 4, "v6e-8"),
        Slice("v4-8", 4, 1),
        Slice("v4-32", 16, 4),
        Slice("v5litepod-1", 1, 1),
        Slice("v5litepod-4", 4, 1),
        Slice("v5litepod-8", 8, 1),
        Slice("v5litepod-16", 16, 4),
        Slice("v5p-8", 4, 1),
        Slice("v6e-1", 1, 1),
        Slice("v6e-4", 4, 1),
        Slice("v6e-8", 8, 1),
    )
}
_SEVENTH = re.compile(r"(tpu[-_]?v?|v)7x?([-_:].*)?", re.IGNORECASE)


def generation_of(node_type: str) -> Generation:
    """Returns the generation of a slice, such as ``v5litepod-8``, on a TPU VM or on GKE."""
    return GENERATIONS[node_type.partition("-")[0]]


def environment(node_type: str) -> dict[str, str]:
    """Returns the variables that TensorFlow needs for a slice.

    The third one of PJRT, TF_PLUGGABLE_DEVICE_LIBRARY_PATH, is a path in the pod: the worker sets it.
    """
    if not generation_of(node_type).uses_pjrt:
        return {}
    return {"PJRT_DEVICE": "TPU", "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true"}


def unsupported_reason(name: str) -> str | None:
    """Returns why TensorFlow cannot train on a TPU7x; None for other names.

    Args:
        name: An accelerator or node type in any spelling.
    """
    if not _SEVENTH.fullmatch(name):
        return None
    return (
        f"TensorFlow cannot train on {name}: its last release for TPUs, 2.20, is older than the"
        " TPU7x, which Cloud TPU's API lacks too; choose --accelerator=tpu-v6e:8 instead"
    )


def slice_of(node_type: str) -> Slice:
    """Returns a slice by name.

    Raises:
        PlanError: TensorFlow cannot use such a slice.
    """
    if found := SLICES.get(node_type):
        return found
    why = unsupported_reason(node_type)
    raise PlanError(
        why
        or f"{node_type} is not a TPU slice that cloudgan supports.{nearest(node_type, SLICES)} Supported:"
        f" {', '.join(SLICES)}"
    )


def _one_host(wanted: Slice) -> str:
    """Returns the largest slice of a generation with one host; of v4, its successor's."""
    generation = "v5p" if wanted.name.startswith("v4-") else wanted.name.partition("-")[0]
    same = [one for one in SLICES.values() if one.name.startswith(f"{generation}-")]
    return max((one for one in same if one.hosts == 1), key=lambda one: one.chips).name


def notes(wanted: Slice) -> tuple[str, ...]:
    """Returns the caveats of a slice."""
    found = []
    if wanted.instead:
        found.append(
            f"Google's list of TPU zones has no {wanted.name} any more: only a project with existing"
            f" quota may get it. The nearest generally available slice: {wanted.instead}"
        )
    if wanted.hosts > 1:
        found.append(
            f"{wanted.name} has {wanted.hosts} VMs, which TensorFlow's last releases for TPUs cannot connect"
            f" (tensorflow issue 93618), and `deploy` starts no JAX processes yet: `plan` prices this slice, but"
            f" `deploy` refuses it. Choose one VM, the nearest: {wanted.instead or _one_host(wanted)}"
        )
    if wanted.name.startswith("v6e"):
        found.append(
            "TensorFlow 2.18 and 2.19 are reported to fail on TPU v6e, and 2.20 is untested: start"
            " with --max-hours=1"
        )
    return tuple(found)
