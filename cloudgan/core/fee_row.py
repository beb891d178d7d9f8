"""What a cloud charges for beside nodes: clusters, disks, addresses, storage, traffic."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cloudgan.core.price_row import UNKNOWN_DATE, Positive, Snapshot, Text

FeeKind = Literal[
    "control_plane", "system_node", "disk", "public_ip", "storage_gib_month", "egress_gib"
]
ANY_REGION = "any"


class FeeRow(BaseModel):
    """A line of `fees.csv`. What nobody knows has no line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Text
    kind: FeeKind
    name: Text = Field(description="what is sold, such as GKE standard, or EKS extended support")
    region: Text = Field(description="or any, where it costs the same everywhere")
    usd: Positive
    unit: Literal["hour", "gib_month", "gib"]
    source: Text
    date: str = Field(description="when the source says it held, YYYY-MM-DD, or unknown")
    confidence: Literal["A", "B", "C"] = Field(
        description="A: stands in the source; B: a part is derived; C: not confirmed by a source"
    )
    snapshot: Snapshot = "current"
    note: str = ""

    @field_validator("date")
    @classmethod
    def _is_iso_or_unknown(cls, text: str) -> str:
        if text != UNKNOWN_DATE and dt.date.fromisoformat(text).isoformat() != text:
            raise ValueError("write YYYY-MM-DD or unknown")
        return text

    @property
    def row_id(self) -> str:
        """Names this row among all others: kind, provider, name, region, snapshot."""
        return f"{self.kind}/{self.provider}/{self.name}/{self.region}/{self.snapshot}"

    def age_days(self, today: dt.date) -> int | None:
        """Days since the date of the row; None where that is unknown."""
        if self.date == UNKNOWN_DATE:
            return None
        return (today - dt.date.fromisoformat(self.date)).days
