"""One price of one cloud: what, where, how it is sold, for how much, and who says so."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cloudgan.core.dated_fact import Date, DatedFact

Market = Literal["on_demand", "spot"]
Snapshot = Literal["current", "2021"]
Kind = Literal["node"]  # what else is charged for: core/fee_row.py

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


class PriceRow(DatedFact):
    """A line of the catalogue. What a cloud charges for and nobody knows has no line."""

    provider: Text
    node_type: Text
    accelerator: Text
    accelerator_count: int = Field(ge=0, description="GPUs, or TPU chips (not cores)")
    accelerator_memory_gib: Positive | None = Field(description="of one; None: unknown")
    vcpu: int | None = Field(gt=0, description="None: unknown")
    memory_gib: Positive | None = Field(description="None: unknown")
    region: Text
    market: Market
    usd_per_hour: Positive = Field(description="of the whole node; of a TPU, of the whole slice")
    unit_sold: Literal["node", "parts", "tpu_8_cores", "tpu_4_chips", "tpu_chip"] = Field(
        description="what the cloud's own price is for; parts: cores, memory and GPUs apart"
    )
    source: Text
    date: Date
    confidence: Literal["A", "B", "C"] = Field(
        description="A: stands in the source; B: a part is derived; C: the source's was replaced"
    )
    snapshot: Snapshot
    kind: Kind = "node"
    note: str = ""

    @property
    def offer(self) -> str:
        """What `--as` takes: provider, node type, region, market."""
        return f"{self.provider}/{self.node_type}/{self.region}/{self.market}"

    @property
    def row_id(self) -> str:
        """Names this row among all others: kind, provider, node type, region, market, snapshot."""
        return f"{self.kind}/{self.offer}/{self.snapshot}"
