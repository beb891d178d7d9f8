"""Node types: with or without a price, and discontinued ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from cloudgan.schema.price_row import Market


class NodeType(Protocol):
    """A node type in a region; price rows implement it."""

    @property
    def provider(self) -> str:
        """Cloud."""

    @property
    def node_type(self) -> str:
        """Name of the node type in the cloud."""

    @property
    def accelerator(self) -> str:
        """Accelerator name in the price list."""

    @property
    def accelerator_count(self) -> int:
        """Number of accelerators."""

    @property
    def vcpu(self) -> int | None:
        """Virtual CPUs; None: unknown."""

    @property
    def memory_gib(self) -> float | None:
        """Memory; None: unknown."""

    @property
    def region(self) -> str:
        """Region."""

    @property
    def market(self) -> Market:
        """Market."""


class UnpricedNode(NamedTuple):
    """A node type without a known price in its region."""

    provider: str
    node_type: str
    accelerator: str
    accelerator_count: int
    vcpu: int | None
    memory_gib: float | None
    region: str
    market: Market


class Discontinued(NamedTuple):
    """A discontinued family of node types.

    Attributes:
        provider: Cloud.
        node_types: Regular expression of their names.
        title: In words.
        since: Date, ISO 8601; None: unknown.
        replacement: Nearest node type that is sold.
        source: Source of the date.
    """

    provider: str
    node_types: str
    title: str
    since: str | None
    replacement: str
    source: str

    @property
    def message(self) -> str:
        """Message for a request of this node type."""
        when = f" since {self.since}" if self.since else ""
        return f"{self.title} is discontinued{when}; the nearest that is sold: {self.replacement}"


_ON_AZURE = "--accelerator=a100 there, or V100 as p3 of AWS and as n1 of Google Cloud"
_MICROSOFT = "https://github.com/MicrosoftDocs/azure-docs/blob/main/articles/virtual-machines"

DISCONTINUED = (
    Discontinued(
        "azure",
        r"Standard_NC24rs_v3",
        "Azure's NC24rs_v3 (4 V100, InfiniBand)",
        "2025-03-31",
        _ON_AZURE,
        f"{_MICROSOFT}/ncv3-nc24rs-retirement.md, of 2024-03-19",
    ),
    Discontinued(
        "azure",
        r"Standard_NC(6|12|24)s_v3",
        "Azure's NCv3 (V100)",
        "2025-09-30",
        _ON_AZURE,
        f"{_MICROSOFT}/ncv3-nc6s-nc12s-nc24s-retirement.md, of 2024-03-19",
    ),
)


def discontinued(provider: str, node_type: str) -> Discontinued | None:
    """Returns the entry of a discontinued node type; None: not listed."""
    for one in DISCONTINUED:
        if one.provider == provider and re.fullmatch(one.node_types, node_type):
            return one
    return None
