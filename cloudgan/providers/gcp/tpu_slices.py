"""What Cloud TPU rents as one thing: slices, by the names of the price list.

Chips and hosts: https://docs.cloud.google.com/tpu/docs (pages v2 to v6e). System images: the table
of .../tpu/docs/runtimes for whoever installs the framework, as we do. Zones: .../tpu/docs/types-zones,
whose version with TPU7x names v4 and later in North America, and no v2 or v3; a page of September
2025 still had them. All read 2026-11-21 in stored copies; no TPU was at hand.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cloudgan.core.errors import PlanError, nearest


class Slice(NamedTuple):
    """One accelerator type.

    Attributes:
        name: As the API and the price list call it.
        chips: In all.
        hosts: Machines that it consists of.
        runtime: System image of its hosts.
        instead: The nearest slice that is sold to everybody; empty: this one is.
    """

    name: str
    chips: int
    hosts: int
    runtime: str
    instead: str = ""


_BASE = "tpu-ubuntu2204-base"
# The servers of a slice with several hosts come with the image: those of TensorFlow 2.18 are the
# newest that any page names, and this name is by analogy with those seen of v5e.
_SERVERS = "tpu-vm-tf-2.18.0-pod-pjrt-v5p-and-below"

SLICES: Final[dict[str, Slice]] = {
    one.name: one
    for one in (
        Slice("v2-8", 4, 1, _BASE, "v5litepod-4"),
        Slice("v2-32", 16, 4, _SERVERS, "v5litepod-8"),
        Slice("v3-8", 4, 1, _BASE, "v5litepod-4"),
        Slice("v3-32", 16, 4, _SERVERS, "v6e-8"),
        Slice("v4-8", 4, 1, _BASE),
        Slice("v4-32", 16, 4, _SERVERS),
        Slice("v5litepod-1", 1, 1, "v2-alpha-tpuv5-lite"),
        Slice("v5litepod-4", 4, 1, "v2-alpha-tpuv5-lite"),
        Slice("v5litepod-8", 8, 1, "v2-alpha-tpuv5-lite"),
        Slice("v5p-8", 4, 1, "v2-alpha-tpuv5"),
        Slice("v6e-1", 1, 1, "v2-alpha-tpuv6e"),
        Slice("v6e-4", 4, 1, "v2-alpha-tpuv6e"),
        Slice("v6e-8", 8, 1, "v2-alpha-tpuv6e"),
    )
}
_SEVENTH = re.compile(r"(tpu[-_]?v?|v)7x?([-_:].*)?", re.IGNORECASE)


def never(name: str) -> str | None:
    """Says in one sentence why TensorFlow cannot train on a TPU at all; None: it is not that.

    Args:
        name: Of an accelerator or a node type, as anybody may write it.
    """
    if not _SEVENTH.fullmatch(name):
        return None
    return (
        f"TensorFlow cannot train on {name}: its last release for TPUs, 2.20, is older than the"
        " TPU7x, which Cloud TPU's API does not have either; take --accelerator=tpu-v6e:8 instead"
    )


def slice_of(node_type: str) -> Slice:
    """Returns the slice of this name.

    Raises:
        PlanError: There is none that TensorFlow can use.
    """
    if found := SLICES.get(node_type):
        return found
    why = never(node_type)
    raise PlanError(
        why
        or f"{node_type} is no slice of TPUs that cloudgan knows.{nearest(node_type, SLICES)} Known:"
        f" {', '.join(SLICES)}"
    )


def notes(wanted: Slice) -> tuple[str, ...]:
    """Returns what somebody should know before a slice is rented."""
    found = []
    if wanted.instead:
        found.append(
            f"Google's list of TPU zones names {wanted.name} no more: only a project that has quota"
            f" for it of old may get it. The nearest that is sold: {wanted.instead}"
        )
    if wanted.hosts > 1:
        found.append(
            f"{wanted.name} is {wanted.hosts} machines, and cloudgan's readers feed the one that"
            f" they run on: it is planned and priced, and `deploy` refuses it. Take"
            f" {wanted.instead or 'v5p-8'}"
        )
    if wanted.name.startswith("v6e"):
        found.append(
            "TensorFlow 2.18 and 2.19 were seen to fail on TPU v6e; whether 2.20 does not, nobody"
            " has tried: begin with --max_hours=1"
        )
    return tuple(found)
