"""Rows of the price tables: price per node, fees, and what all dated rows share."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, overload

from pydantic import AfterValidator, Field, model_validator

from cloudgan.core import machines
from cloudgan.core.document import Document
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import counted
from cloudgan.core.ranges import MAX_USD
from cloudgan.schema.item import Item

UNKNOWN_DATE = "unknown"
STALE_DAYS = 90
_AS_OF = "as of: "
_NOT_BEFORE = "not before this date"
_IN_THE_FUTURE = "dated in the future"


@functools.lru_cache(maxsize=256)
def _iso_or_unknown(text: str) -> str:
    try:
        is_date = text == UNKNOWN_DATE or dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_date = False
    if not is_date:
        raise ValueError("write YYYY-MM-DD or unknown")
    return text


Date = Annotated[
    str,
    AfterValidator(_iso_or_unknown),
    Field(description="validity date in the source, YYYY-MM-DD, or unknown"),
]


class _Dated(Protocol):
    """A kind of row: it declares `date` and `note` itself, in the order of its file's columns."""

    @property
    def date(self) -> str: ...

    @property
    def note(self) -> str: ...

    @property
    def has_earliest_date(self) -> bool: ...

    def age_days(self, today: dt.date) -> int | None: ...


class SourcedRow(Document):
    """A row with a source and a date."""

    def age_days(self: _Dated, today: dt.date) -> int | None:
        """Returns the days since `date`; None if the date is unknown."""
        if self.date == UNKNOWN_DATE:
            return None
        return (today - dt.date.fromisoformat(self.date)).days

    @property
    def has_earliest_date(self: _Dated) -> bool:
        """Whether `date` is the earliest possible one; the note has the evidence."""
        return _NOT_BEFORE in self.note

    def age_text(self: _Dated, today: dt.date) -> str:
        """Returns for example ``2026-11-01, 20 days old``; for an undated row, its ``as of:`` note."""
        days = self.age_days(today)
        if days is None:
            known = self.note.partition(_AS_OF)[2].partition(";")[0]
            return f"age unknown ({known})" if known else "age unknown"
        if days < 0:
            return f"{self.date}, {_IN_THE_FUTURE}"
        if self.has_earliest_date:
            return f"{self.date} or later, at most {counted(days, 'day')} old"
        return f"{self.date}, {counted(days, 'day')} old"

    def ago_text(self: _Dated, days: int | None) -> str:
        """Returns an age for a table, such as ``20 days ago``; ≤ marks a bound."""
        if days is None:
            return "undated"
        if days < 0:
            return _IN_THE_FUTURE
        return f"{'≤' if self.has_earliest_date else ''}{counted(days, 'day')} ago"

    def is_stale(self: _Dated, today: dt.date) -> bool:
        """Returns whether the row is undated, dated in the future or older than 90 days."""
        days = self.age_days(today)
        return days is None or not 0 <= days <= STALE_DAYS


Market = Literal["on_demand", "spot"]
Snapshot = Literal["current", "2021"]

Positive = Annotated[float, Field(gt=0, le=MAX_USD, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


class PriceRow(SourcedRow):
    """A row of `nodes.csv`; an unknown price has no row.

    What the file does not say of the node is in machines.csv.
    """

    OF_THE_MACHINE: ClassVar = (
        "accelerator",
        "accelerator_count",
        "accelerator_memory_gib",
        "vcpu",
        "memory_gib",
    )

    provider: Text
    node_type: Text
    accelerator: Text
    accelerator_count: int = Field(ge=0, le=10**6, description="GPUs, or TPU chips (not cores)")
    accelerator_memory_gib: Positive | None = Field(description="of one; None: unknown")
    vcpu: int | None = Field(gt=0, le=10**6, description="None: unknown")
    memory_gib: Positive | None = Field(description="None: unknown")
    region: Text
    market: Market
    usd_per_hour: Positive = Field(description="of the whole node; of a TPU, of the whole slice")
    unit_sold: Literal["node", "parts", "tpu_8_cores", "tpu_4_chips", "tpu_chip"] = Field(
        description="what the cloud's price list prices; parts: cores, memory and GPUs separately"
    )
    source: Text
    date: Date
    confidence: Literal["A", "B", "C"] = Field(
        description="A: in the source; B: partly derived; C: replaces a wrong value of the source"
    )
    snapshot: Snapshot
    kind: Literal["node"] = "node"  # other fees: FeeRow
    note: str = ""
    low_usd_per_hour: Positive | None = Field(
        default=None, description="lowest reading since range_since; None: there is one reading"
    )
    high_usd_per_hour: Positive | None = Field(default=None, description="highest reading")
    range_since: Date | None = Field(default=None, description="first reading of the range")

    @model_validator(mode="before")
    @classmethod
    def _is_of_its_machine(cls, row: Any) -> Any:
        if not isinstance(row, dict) or not row.keys().isdisjoint(cls.OF_THE_MACHINE):
            return row
        return row | machines.facts(row.get("provider"), row.get("node_type"))

    @model_validator(mode="after")
    def _is_within_its_range(self) -> Self:
        low, high = self.low_usd_per_hour, self.high_usd_per_hour
        given = (low, high, self.range_since)
        if given == (None, None, None):
            return self
        if low is None or high is None or self.range_since in (None, UNKNOWN_DATE):
            raise ValueError("give low_usd_per_hour, high_usd_per_hour and range_since, or none")
        if not low <= self.usd_per_hour <= high:
            raise ValueError(f"{self.usd_per_hour} USD/h is not between {low} and {high}")
        return self

    @property
    def range_text(self) -> str:
        """For example ``1.29 to 2.192 USD/h since 2026-05-17``; empty if there is one reading."""
        if self.low_usd_per_hour is None:
            return ""
        low, high = f"{self.low_usd_per_hour:.4g}", f"{self.high_usd_per_hour:.4g}"
        return f"{low if low == high else f'{low} to {high}'} USD/h since {self.range_since}"

    @property
    def offer(self) -> str:
        """Value for `--price-as`: provider, node type, region, market."""
        return f"{self.provider}/{self.node_type}/{self.region}/{self.market}"

    @property
    def row_id(self) -> str:
        """Unique id: kind, provider, node type, region, market, snapshot."""
        return f"{self.kind}/{self.offer}/{self.snapshot}"

    @property
    def in_other_market(self) -> PriceRow:
        """The same node with the other market; its price stays."""
        other = "spot" if self.market == "on_demand" else "on_demand"
        return self.model_copy(update={"market": other})

    def hourly_usd(self, nodes: int = 1) -> float:
        """Returns the price of `nodes` nodes per hour."""
        return self.usd_per_hour * nodes

    @overload
    def cost_usd(self, seconds: float, nodes: int = 1) -> float: ...
    @overload
    def cost_usd(self, seconds: None, nodes: int = 1) -> None: ...
    @overload
    def cost_usd(self, seconds: float | None, nodes: int = 1) -> float | None: ...
    def cost_usd(self, seconds: float | None, nodes: int = 1) -> float | None:
        """Returns the price of `nodes` nodes for a duration; None if the duration is unknown."""
        return None if seconds is None else seconds / HOUR_SECONDS * self.usd_per_hour * nodes


FeeKind = Literal[
    "control_plane",
    "system_node",
    "disk",
    "public_ip",
    "load_balancer",
    "nat",
    "storage_gib_month",
    "requests",
    "egress_gib",
    "reservation",
]
ANY_REGION = "any"


class FeeRow(SourcedRow):
    """A row of `fees.csv`: clusters, disks, storage, traffic; unknown fees have none, as `nat`, `reservation`."""

    _HOURLY: ClassVar = {"hour": 1, "gib_month": 730.0, "10k": 1e4}
    """Of what is paid by the hour: GiB times hours, or requests, of a unit; clouds count a month as 730 hours."""

    provider: Text
    kind: FeeKind
    name: Text = Field(description="product, such as GKE standard or EKS extended support")
    region: Text = Field(description="or any, if the price is the same in all regions")
    usd: Positive
    unit: Literal["hour", "gib_month", "gib", "10k"]
    source: Text
    date: Date
    confidence: Literal["A", "B", "C"] = Field(
        description="A: in the source; B: partly derived; C: not confirmed by a source"
    )
    snapshot: Snapshot = "current"
    note: str = ""

    @property
    def row_id(self) -> str:
        """Unique id: kind, provider, name, region, snapshot."""
        return f"{self.kind}/{self.provider}/{self.name}/{self.region}/{self.snapshot}"

    @property
    def usd_per_hour(self) -> float:
        """Price of one unit, GiB or request per hour."""
        return self.usd / self._HOURLY.get(self.unit, 1)

    def in_units(self, amount: float) -> float:
        """Returns an amount, of seconds for what is paid by time, in the unit of the price."""
        if self.kind in ("storage_gib_month", "egress_gib"):
            return amount
        return amount / HOUR_SECONDS / self._HOURLY[self.unit]

    def cost_usd(self, amount: float) -> float:
        """Returns the price of an amount: GiB or GiB months, or seconds of what is paid by time."""
        return self.in_units(amount) * self.usd


_FEE_ITEMS = {
    ("control_plane", False): Item.CLUSTER,
    ("system_node", False): Item.SYSTEM_NODES,
    ("load_balancer", False): Item.LOAD_BALANCER,
    ("disk", False): Item.CLUSTER_DISKS,
    ("public_ip", False): Item.CLUSTER_ADDRESSES,
    ("disk", True): Item.DISKS,
    ("public_ip", True): Item.ADDRESSES,
    ("nat", True): Item.NAT,
    ("requests", True): Item.REQUESTS,
    ("reservation", True): Item.RESERVATION,
}
HOURLY_FEES = frozenset(_FEE_ITEMS.values())
"""Items that are billed beside the nodes for as long as these exist."""


class PoolFee(Document):
    """What the cloud bills by the hour beside the nodes, as long as they exist."""

    kind: FeeKind
    product: str = Field(
        default="", description="in fees.csv, such as pd-balanced; empty: the cheapest"
    )
    quantity: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="GiB of a disk, requests per hour, or a number",
    )
    per_node: bool = Field(default=True, description="false: once for the cluster")

    @model_validator(mode="after")
    def _is_billed_so(self) -> Self:
        if (self.kind, self.per_node) not in _FEE_ITEMS:
            once = [kind for kind, per_node in _FEE_ITEMS if per_node == self.per_node]
            how = "per node" if self.per_node else "once for the cluster"
            raise ValueError(f"{self.kind} is not billed {how}; valid: {', '.join(once)}")
        return self

    @property
    def item(self) -> Item:
        """Its item of cost."""
        return _FEE_ITEMS[self.kind, self.per_node]


CONTROL_PLANE = PoolFee(kind="control_plane", per_node=False)
SYSTEM_NODE = PoolFee(kind="system_node", per_node=False)


class DataMove(Document):
    """The data that each node downloads once."""

    gib: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="None: unknown")
    provider: str | None = Field(
        default=None, description="cloud that stores them; None: this machine, free of charge"
    )
    region: str | None = Field(default=None, description="None: unknown")
