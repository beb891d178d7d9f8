"""What a price of Google's list is for: cores, memory, a GPU, a TPU, and in which market.

The rules follow the texts of Cloud Billing's catalogue; a node is put together from its parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cloudgan.core.price_row import Market, PriceRow

COMPUTE_ENGINE = "6F81-5844-456A"
CLOUD_TPU = "E000-3F24-B8AA"
SERVICES = (COMPUTE_ENGINE, CLOUD_TPU)

# Reservations, commitments and the "DWS" prices of queued capacity are no list prices.
_NOT_FOR_US = re.compile(
    r"custom|sole tenancy|reserved|reservation|premium|commitment|dws|defined duration"
    r"|calendar mode|windows|sud |upgrade",
    re.IGNORECASE,
)
_SPOT = re.compile(r"\b(spot|preemptible)\b", re.IGNORECASE)
_HOST = re.compile(
    r"(?:Spot Preemptible |Preemptible )?(\w+) (?:Predefined )?Instance (Core|Ram)\b"
)
_TPU = re.compile(r"Tpu-?(v[2-6][ep]?)\b", re.IGNORECASE)
_GPUS = {
    "T4": r"Nvidia Tesla T4 GPU",
    "P100": r"Nvidia Tesla P100 GPU",
    "V100": r"Nvidia Tesla V100 GPU",
    "L4": r"Nvidia L4 GPU",
    "A100-40GB": r"Nvidia Tesla A100 GPU",
    "A100-80GB": r"Nvidia (?:Tesla )?A100 80GB GPU",
    "H100": r"Nvidia H100 80GB GPU",
    "H200": r"(?:Nvidia )?H200 141GB GPU",
    "B200": r"Nvidia B200 .*\(1 gpu slice\)",
}
_CHIPS_OF_A_DEVICE = 4  # v2-8 and v3-8 have a price of their own, all others that of a pod
_CHIPS_OF_A_UNIT = {"tpu_8_cores": 4, "tpu_4_chips": 4, "tpu_chip": 1}
# Sold on spot, queued or reserved only, although their parts have list prices.
_NOT_ON_DEMAND = re.compile(r"a3-highgpu-[124]g|a3-ultragpu-|a4x?-")


class Part(NamedTuple):
    """What is sold: ``core N1``, ``ram N1``, ``gpu V100``, ``tpu TPU-v3``, ``pod TPU-v2``."""

    kind: str
    name: str
    market: Market


UNITS = {"core": "h", "ram": "GiBy.h", "gpu": "h", "tpu": "h", "pod": "h"}


def part_of(description: str, usage_type: str) -> Part | None:
    """Returns what a price is for; None where no node of ours is made of it."""
    if _NOT_FOR_US.search(description) or usage_type not in {"OnDemand", "Preemptible"}:
        return None
    # some preemptible prices of TPUs and B200 say OnDemand and tell it in the text only
    spot = usage_type == "Preemptible" or _SPOT.search(description)
    market: Market = "spot" if spot else "on_demand"
    tpu = _TPU.search(description)
    if tpu:
        kind = "pod" if re.search(r"\bpod\b", description, re.IGNORECASE) else "tpu"
        return Part(kind, f"TPU-{tpu[1].lower()}", market)
    for name, text in _GPUS.items():
        if re.match(rf"(?:Spot Preemptible )?{text}", description):
            return Part("gpu", name, market)
    host = _HOST.match(description)
    if host:
        return Part(host[2].lower(), host[1].upper(), market)
    return None


def parts_of(node: PriceRow, market: Market) -> dict[Part, float] | None:
    """Returns how much of which part makes a node; None where it is not sold or its host not known."""
    if market == "on_demand" and _NOT_ON_DEMAND.match(node.node_type):
        return None
    count = node.accelerator_count
    if node.unit_sold.startswith("tpu"):
        return {_tpu_part(node, market): count / _CHIPS_OF_A_UNIT[node.unit_sold]}
    gpus = {Part("gpu", node.accelerator, market): float(count)}
    if node.node_type.startswith("a4-"):  # its "GPU slice" holds the host
        return gpus
    if node.vcpu is None or node.memory_gib is None:
        return None
    family = _family(node.node_type)
    return gpus | {
        Part("core", family, market): node.vcpu,
        Part("ram", family, market): node.memory_gib,
    }


def _tpu_part(node: PriceRow, market: Market) -> Part:
    one = node.unit_sold == "tpu_8_cores" and node.accelerator_count == _CHIPS_OF_A_DEVICE
    return Part("tpu" if one or node.unit_sold == "tpu_chip" else "pod", node.accelerator, market)


def _family(node_type: str) -> str:
    head = node_type.partition("-")[0].upper()
    return f"{head}ULTRA" if node_type.startswith("a3-ultragpu") else head
