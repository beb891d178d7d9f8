"""What a cloud charges for beside nodes: clusters, disks, addresses, storage, traffic."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloudgan.core.dated_fact import Date, DatedFact
from cloudgan.core.price_row import Positive, Snapshot, Text

FeeKind = Literal[
    "control_plane", "system_node", "disk", "public_ip", "storage_gib_month", "egress_gib"
]
ANY_REGION = "any"


class FeeRow(DatedFact):
    """A line of `fees.csv`. What nobody knows has no line."""

    provider: Text
    kind: FeeKind
    name: Text = Field(description="what is sold, such as GKE standard, or EKS extended support")
    region: Text = Field(description="or any, where it costs the same everywhere")
    usd: Positive
    unit: Literal["hour", "gib_month", "gib"]
    source: Text
    date: Date
    confidence: Literal["A", "B", "C"] = Field(
        description="A: stands in the source; B: a part is derived; C: not confirmed by a source"
    )
    snapshot: Snapshot = "current"
    note: str = ""

    @property
    def row_id(self) -> str:
        """Names this row among all others: kind, provider, name, region, snapshot."""
        return f"{self.kind}/{self.provider}/{self.name}/{self.region}/{self.snapshot}"
