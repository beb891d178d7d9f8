"""A kind of node in a place: what is rented, whether or not anybody knows its price."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from cloudgan.core.price_row import Market


class NodeKind(Protocol):
    """What a price row says of a node beside its price."""

    @property
    def provider(self) -> str:
        """Which cloud has it."""

    @property
    def node_type(self) -> str:
        """What it is called there."""

    @property
    def accelerator(self) -> str:
        """As the price list calls it."""

    @property
    def accelerator_count(self) -> int:
        """How many it has."""

    @property
    def vcpu(self) -> int | None:
        """Its cores; None is unknown."""

    @property
    def memory_gib(self) -> float | None:
        """Its memory; None is unknown."""

    @property
    def region(self) -> str:
        """Where."""

    @property
    def market(self) -> Market:
        """On which market."""


class UnpricedNode(NamedTuple):
    """A kind of node of which nobody knows the price there."""

    provider: str
    node_type: str
    accelerator: str
    accelerator_count: int
    vcpu: int | None
    memory_gib: float | None
    region: str
    market: Market
