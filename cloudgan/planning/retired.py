"""Machines that the paper used, or that still have a price, and that nobody can rent any more."""

from __future__ import annotations

import re
from typing import NamedTuple


class Retired(NamedTuple):
    """A family of machines that is gone.

    Attributes:
        provider: Which cloud had it.
        node_types: What they were called, as a regular expression.
        what: In words.
        since: Day, ISO 8601; None where only the year was said.
        nearest: What is the nearest thing that is sold.
        source: Who says so.
    """

    provider: str
    node_types: str
    what: str
    since: str | None
    nearest: str
    source: str

    @property
    def sentence(self) -> str:
        """What it means for whoever asks for one."""
        when = f" since {self.since}" if self.since else ""
        return f"{self.what} is no longer sold{when}; the nearest thing that is: {self.nearest}"


_ON_AZURE = "--accelerator=a100 there, or V100 as p3 of AWS and as n1 of Google Cloud"
_MICROSOFT = "https://github.com/MicrosoftDocs/azure-docs/blob/main/articles/virtual-machines"

RETIRED = (
    Retired(
        "azure",
        r"Standard_NC24rs_v3",
        "Azure's NC24rs_v3 (4 V100, InfiniBand)",
        "2025-03-31",
        _ON_AZURE,
        f"{_MICROSOFT}/ncv3-nc24rs-retirement.md, of 2024-03-19",
    ),
    Retired(
        "azure",
        r"Standard_NC(6|12|24)s_v3",
        "Azure's NCv3 (V100)",
        "2025-09-30",
        _ON_AZURE,
        f"{_MICROSOFT}/ncv3-nc6s-nc12s-nc24s-retirement.md, of 2024-03-19",
    ),
    Retired(
        "azure",
        r"Standard_NC\d+r?s_v2",
        "Azure's NCv2 (P100)",
        None,
        "--accelerator=t4 there, or P100 as n1 of Google Cloud",
        "known to this project, its day was not found; read 2026-11-21",
    ),
)

GKE_TPU_NODES = (
    'the TPUs that Kubernetes reached over the network (GKE\'s "2VM" nodes) ended on 2025-04-25; the'
    " same slice is a machine of Cloud TPU now"
)
"""What the paper's TPU jobs ran on: GKE's API reference, note on TpuConfig, read 2026-11-21."""


def retired(provider: str, node_type: str) -> Retired | None:
    """Returns why a machine can't be rented any more; None: nothing is known against it."""
    for one in RETIRED:
        if one.provider == provider and re.fullmatch(one.node_types, node_type):
            return one
    return None
