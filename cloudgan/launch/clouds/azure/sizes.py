"""GPU virtual machine sizes of Azure."""

from __future__ import annotations

from typing import Final, NamedTuple

from cloudgan.core.errors import PlanError, UnknownNameError
from cloudgan.cost.prices.discontinued import refuse_discontinued


class Size(NamedTuple):
    """A size of virtual machines.

    Attributes:
        accelerator: Name in the price list.
        gpus: Number; a GPU slice counts as one.
        vcpus: Unit of the quotas.
        memory_gib: Of the host.
        family: Name of its quota in the compute usages API.
    """

    accelerator: str
    gpus: int
    vcpus: int
    memory_gib: int
    family: str


_T4, _A100, _H100 = (
    "StandardNCASv3_T4Family",
    "StandardNCADSA100v4Family",
    "StandardNCadsH100v5Family",
)
_A10 = "StandardNVADSA10v5Family"

# Sizes: the price list (cost/prices/nodes.csv). Families: skypilot-org/skypilot,
# sky/catalog/data_fetchers/fetch_azure.py, read 2026-11-21; compared case-insensitively. ND H200 v5:
# https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-h200-v5-series; its family: public
# quota tables of 2026 (read 2026-11-22).
SIZES: Final = {
    "Standard_NC4as_T4_v3": Size("T4", 1, 4, 28, _T4),
    "Standard_NC64as_T4_v3": Size("T4", 4, 64, 440, _T4),
    "Standard_NC24ads_A100_v4": Size("A100-80GB", 1, 24, 220, _A100),
    "Standard_NC48ads_A100_v4": Size("A100-80GB", 2, 48, 440, _A100),
    "Standard_NC96ads_A100_v4": Size("A100-80GB", 4, 96, 880, _A100),
    "Standard_NC40ads_H100_v5": Size("H100-NVL", 1, 40, 320, _H100),
    "Standard_NC80adis_H100_v5": Size("H100-NVL", 2, 80, 640, _H100),
    "Standard_ND96asr_v4": Size("A100-40GB", 8, 96, 900, "StandardNDASv4_A100Family"),
    "Standard_ND96amsr_A100_v4": Size("A100-80GB", 8, 96, 1900, "StandardNDAMSv4_A100Family"),
    "Standard_ND96isr_H100_v5": Size("H100", 8, 96, 1900, "StandardNDSH100v5Family"),
    "Standard_ND96isr_H200_v5": Size("H200", 8, 96, 1850, "standardNDISRH200V5Family"),
    "Standard_NV6ads_A10_v5": Size("A10(1/6)", 1, 6, 55, _A10),
    "Standard_NV36ads_A10_v5": Size("A10", 1, 36, 440, _A10),
}

SYSTEM_SIZES: Final = {
    "Standard_D2s_v3": "standardDSv3Family",
    "Standard_D2s_v5": "standardDSv5Family",
    "Standard_D2as_v5": "standardDASv5Family",
    "Standard_D2s_v4": "standardDSv4Family",
    "Standard_D2_v2": "standardDv2Family",
}
"""Sizes for the AKS system node with their quotas, in the order of preference: 2 vCPUs and 7 to 8 GiB.

Many subscriptions are not offered all of them: https://github.com/dotnet/core/issues/8181 (2023-02) and
https://github.com/hashicorp-education/learn-terraform-provision-aks-cluster/issues/15 (2023-04) show AKS'
refusals. Names of the quotas: from memory; compared case-insensitively.
"""
SYSTEM_VCPUS: Final = 2

_ARM = "has Arm processors, for which TensorFlow has no wheels with GPUs"
_UNCERTAIN: Final = {
    "Standard_ND128isr_NDR_GB200_v6": ("GB200", _ARM, "--accelerator=H200:8"),
    "Standard_ND40rs_v2": (
        "V100-32GB",
        "is as old as those retired on 2025-09-30; its availability is unconfirmed",
        "--accelerator=A100-40GB:8",
    ),
}


def size_of(node_type: str) -> Size:
    """Returns the properties of a size.

    Raises:
        PlanError: It is discontinued; the message names a replacement.
        UnknownNameError: Unknown size.
    """
    refuse_discontinued("azure", node_type)
    if node_type in _UNCERTAIN:
        gpu, why, nearest = _UNCERTAIN[node_type]
        raise PlanError(f"{node_type} ({gpu}) {why}; use {nearest}")
    if node_type not in SIZES:
        raise UnknownNameError("Azure size", node_type, SIZES)
    return SIZES[node_type]
