"""What exists in a cloud, and what is found about one: the values that all clouds answer with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from cloudgan.core.labels import RUN, SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.price_row import Market

ThingState = Literal["making", "ready", "leaving", "failed"]
ThingCause = Literal["", "capacity", "quota"]


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that exists in a cloud, as the cloud tells it.

    Attributes:
        kind: In the cloud's words, such as ``GKE node pool``.
        name: Full and unique, as the cloud's `delete` needs it; what follows its last slash is what
            plans and people call it.
        state: How far it is; failed: it never will be.
        labels: Its own, as they are there.
        region: Where; a zone for what is in one.
        why: The cloud's sentence on why it failed, or what it waits for.
        cause: The kind of `why`.
        rank: What has a lower one is deleted first, such as a pool before its cluster.
        made: When, ISO 8601; None is unknown.
        node_type: Of nodes, as the price list calls it.
        nodes: How many there are now; 0 for what is no machine.
        market: Of nodes.
        fee: What the fee list calls it, such as ``GKE standard``; None: it costs nothing by itself.
        parent: Name of the thing that it is in, such as a pool's cluster.
        is_free: Whether it costs nothing whatever the price list says, such as a subnet.
    """

    kind: str
    name: str
    state: ThingState
    labels: Mapping[str, str] = field(default_factory=dict)
    region: str = ""
    why: str = ""
    cause: ThingCause = ""
    rank: int = 0
    made: str | None = None
    node_type: str | None = None
    nodes: int = 0
    market: Market | None = None
    fee: str | None = None
    parent: str = ""
    is_free: bool = False

    @property
    def run(self) -> str | None:
        """Whose it is; None for what no run owns."""
        return self.labels.get(RUN)

    @property
    def shared(self) -> str | None:
        """What it is, where cloudgan made it for all runs, such as ``cluster``; else None."""
        return self.labels.get(SHARED)


class Finding(NamedTuple):
    """An answer of `check`.

    Attributes:
        subject: What was looked at, such as ``quota NVIDIA_V100_GPUS in us-central1``.
        verdict: unknown: nobody could say.
        says: What was found and, unless ok, what to type or whom to ask for what.
    """

    subject: str
    verdict: Literal["ok", "missing", "unknown"]
    says: str
