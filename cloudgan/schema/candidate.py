"""A candidate: an offer on a number of nodes for a job, with time and cost, or why it is not usable.

`offers`, `plan`, `deploy`, its fallback, `cost`, their JSON and their pages show this one document.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.schema.price_row import PriceRow

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Usd = Amount
Seconds = Amount


class SpotRisk(Document):
    """Preemptions of spot nodes during a job."""

    text: str = Field(description="in words")
    interruption: float = Field(description="chance of at least one preemption")
    losses_per_node_hour: float = Field(description="preemptions per node and hour")
    losses_basis: str = Field(description="public traces, given, or assumed, not measured")
    break_even_losses_per_node_hour: float | None = Field(
        description="preemption rate up to which spot is cheaper; None: unknown"
    )
    checkpoint_every_seconds: float | None = Field(
        description="optimal interval; None: no checkpoint is needed"
    )


class Candidate(Document):
    """An offer on a number of nodes, for a job or for an epoch; None: unknown."""

    row: PriceRow = Field(description="price of one node")
    nodes: int = Field(default=1, ge=1)
    batch: float | None = Field(default=None, description="showers per replica and step")
    global_batch: int | None = Field(default=None, description="of all replicas")
    low_work_seconds: Seconds | None = Field(
        default=None, description="training without preemptions, at the fast edge"
    )
    work_seconds: Seconds | None = Field(default=None, description="at the slow edge")
    low_seconds: Seconds | None = Field(
        default=None, description="training with preemptions, at the fast edge"
    )
    high_seconds: Seconds | None = Field(default=None, description="at the slow edge; ranks epochs")
    expected_seconds: Seconds | None = Field(
        default=None, description="of an epoch; None: only bounds are known"
    )
    low_usd: Usd | None = Field(default=None, description="known cost of the whole job")
    known_usd: Usd | None = Field(default=None, description="at the slow edge")
    high_usd: Usd | None = Field(
        default=None, description="with unknown parts at their highest; ranks jobs"
    )
    unknown: tuple[str, ...] = Field(default=(), description="titles of the unknown parts")
    grade: str = Field(default="", description="measured or modelled; empty: unknown time")
    basis: str = Field(default="", description="evidence for the time")
    market_reason: str = Field(default="", description="reason for this market")
    why_not: str = Field(default="", description="why it is not usable; empty: it is")
    best_for: tuple[str, ...] = Field(
        default=(),
        description="chosen (by plan), within limits, cheapest, fastest, safest (on demand)",
    )
    regions: tuple[str, ...] = Field(
        default=(), description="with this node type at this price; empty: not compared"
    )
    learning: str = Field(default="", description="batches in words, and the evidence on learning")
    spot: SpotRisk | None = Field(default=None, description="None: on demand, or not computed")
    carbon_g: float | None = Field(
        default=None, description="emissions of an epoch, upper bound, accelerators only"
    )
    why_carbon_unknown: str = ""

    @property
    def usd_per_hour(self) -> float:
        """USD per hour of all nodes."""
        return self.row.hourly_usd(self.nodes)

    @property
    def seconds(self) -> float:
        """Upper bound of the training time; infinite if unknown."""
        return math.inf if self.high_seconds is None else self.high_seconds

    @property
    def usd(self) -> float:
        """Upper bound of the cost of the whole job; infinite if unknown."""
        return math.inf if self.high_usd is None else self.high_usd

    @property
    def expected_usd(self) -> float | None:
        """Cost of the nodes for the expected time; None: only bounds are known."""
        return self.row.cost_usd(self.expected_seconds, self.nodes)

    @property
    def sort_key(self) -> tuple[float, float, str]:
        """Sort key: upper bound of the cost; unknown costs last, by hourly price."""
        return self.usd, self.usd_per_hour, self.row.row_id
