"""Our prices against somebody else's: where the two disagree, one of them is wrong or old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.price_row import Market, PriceRow

TOLERANCE = 0.05
_SUMS_TPU_SPOT = frozenset({"TPU-v2", "TPU-v3", "TPU-v4"})
_WITH_LOCAL_DISKS = ("a2-ultragpu", "a3-")


class Second(NamedTuple):
    """What another source says of one offer."""

    provider: str
    node_type: str
    region: str
    market: Market
    usd_per_hour: float


class Disagreement(NamedTuple):
    """An offer with two prices."""

    row: PriceRow
    other_usd_per_hour: float
    remark: str

    @property
    def difference(self) -> float:
        """How much more the other source says, as a part of our price."""
        return self.other_usd_per_hour / self.row.usd_per_hour - 1


@dataclass(frozen=True)
class Verification:
    """A comparison of two catalogues.

    Attributes:
        agreed: How many offers have the same price within the tolerance.
        disagreements: The others, the widest apart first.
        unknown_there: How many of our offers the other source does not know.
    """

    agreed: int
    disagreements: tuple[Disagreement, ...]
    unknown_there: int


def verify(
    rows: Iterable[PriceRow], others: Iterable[Second], tolerance: float = TOLERANCE
) -> Verification:
    """Compares present prices; of several of one offer (zones) the other's cheapest counts.

    Args:
        rows: Ours; snapshots of another year are passed over.
        others: Theirs.
        tolerance: Part of our price within which both say the same.
    """
    theirs: dict[tuple[str, ...], float] = {}
    for other in others:
        name = other[:4]
        theirs[name] = min(other.usd_per_hour, theirs.get(name, other.usd_per_hour))
    agreed = unknown = 0
    found = []
    for row in rows:
        if row.snapshot != "current":
            continue
        usd = theirs.get((row.provider, row.node_type, row.region, row.market))
        if usd is None:
            unknown += 1
        elif abs(usd - row.usd_per_hour) <= tolerance * row.usd_per_hour:
            agreed += 1
        else:
            found.append(Disagreement(row, usd, _remark(row)))
    found.sort(key=lambda one: (-abs(one.difference), one.row.row_id))
    return Verification(agreed, tuple(found), unknown)


def _remark(row: PriceRow) -> str:
    """What is known of how the second source comes to another price."""
    if row.accelerator in _SUMS_TPU_SPOT and row.market == "spot":
        return "gpuhunt multiplies spot prices of TPU v2 to v4 by chips although they are per slice"
    if row.provider == "gcp" and row.node_type.startswith(_WITH_LOCAL_DISKS):
        return "gpuhunt counts the local disks in, ours does not"
    return ""
