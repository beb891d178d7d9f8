"""Node types with or without a price, and how GKE's TPU nodes ended."""

from __future__ import annotations

from typing import NamedTuple, Protocol

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
