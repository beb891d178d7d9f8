"""Ranks offers by what the whole job costs on them, and tells why the others were passed over."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import PlanError
from cloudgan.cost.choice import Candidate, Job, candidates, cheapest_within
from cloudgan.cost.elsewhere_price import node_counts
from cloudgan.cost.elsewhere_runs import CORES_PER_CHIP
from cloudgan.planning.job_cost import Priced, job_cost
from cloudgan.planning.market import choose_market
from cloudgan.planning.retired import retired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cloudgan.core.plan import Rental
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.elsewhere import Speeds
    from cloudgan.planning.job_cost import Beside
    from cloudgan.planning.node_kind import NodeKind


UNMEASURED = (
    "this network was never measured on its accelerator: name that with --accelerator, or add"
    " --allow_unmeasured"
)
SOLD_TO_FEW = (
    "it is sold only to accounts that have a quota for it of old: name its accelerator with"
    " --accelerator if yours has"
)
OTHER_MARKET = "the other market costs less there, lost nodes included"


@dataclass(frozen=True)
class Wish:
    """What an offer has to be, beside its row.

    Attributes:
        job: What is to be done.
        nodes: How many; None: as few as is cheapest within the limits.
        global_batch: That the replicas must divide, where their number is free.
        most_seconds: Limit of the job, where the number of nodes is free.
        most_usd: Likewise.
        most_usd_per_hour: Of all nodes, always.
        named: Accelerators that count although this network never ran on them, or although they
            are sold to few only.
        unmeasured: Whether all count on which this network never ran.
        by_break_even: Whether spot is taken only where it pays.
        excluded: Why an offer is out of the question, by its name.
    """

    job: Job
    nodes: int | None = 1
    global_batch: int | None = None
    most_seconds: float = math.inf
    most_usd: float | None = None
    most_usd_per_hour: float | None = None
    named: frozenset[str] = frozenset()
    unmeasured: bool = False
    by_break_even: bool = True
    excluded: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Way:
    """An offer on a number of nodes.

    Attributes:
        row: The price.
        nodes: How many.
        candidate: Its speed; None is unknown.
        rental: What is rented there.
        priced: What the whole job costs.
        market_why: Why this market.
    """

    row: PriceRow
    nodes: int
    candidate: Candidate | None
    rental: Rental
    priced: Priced
    market_why: str = ""

    @property
    def rate(self) -> float:
        """USD per hour of all nodes."""
        return self.row.usd_per_hour * self.nodes

    @property
    def order(self) -> tuple[bool, float, float, str]:
        """What is unknown comes last, and there the cheapest hour first."""
        ranked = self.priced.ranked_usd
        return ranked is None, ranked or 0.0, self.rate, self.row.row_id


class Refused(NamedTuple):
    """An offer that was passed over."""

    offer: str
    why: str


class Ranking(NamedTuple):
    """Ways to do a job, the best first, and the offers that are none."""

    ways: tuple[Way, ...]
    refused: tuple[Refused, ...]


def rank(
    rows: Iterable[PriceRow],
    speeds: Speeds,
    wish: Wish,
    beside: Beside,
    rental_of: Callable[[PriceRow, int], Rental],
) -> Ranking:
    """Returns the ways to do a job by its whole cost.

    Args:
        rows: Offers, of the markets that are wanted.
        speeds: Of the network.
        wish: What the offers have to be.
        beside: What is paid beside training.
        rental_of: Says what is rented; raises PlanError where a cloud, or TensorFlow on it, cannot
            serve it.
    """
    ways: list[Way] = []
    refused: list[Refused] = []
    for row in rows:
        why = _why_not(row, speeds, wish)
        if why:
            refused.append(Refused(row.offer, why))
            continue
        try:
            ways += _ways(row, speeds, wish, beside, rental_of)
        except PlanError as error:
            refused.append(Refused(row.offer, str(error)))
    if wish.by_break_even:
        ways = _on_one_market(ways, wish, refused)
    if wish.nodes is None:
        ways = _within(ways, wish, refused)
    return Ranking(tuple(sorted(ways, key=lambda way: way.order)), tuple(refused))


def _why_not(row: PriceRow, speeds: Speeds, wish: Wish) -> str:
    gone = retired(row.provider, row.node_type)
    if gone:
        return gone.sentence
    if wish.excluded and row.offer in wish.excluded:
        return wish.excluded[row.offer]
    if wish.unmeasured or row.accelerator in wish.named:
        return ""
    if row.accelerator not in {run.accelerator for run in speeds.measured}:
        return UNMEASURED
    return ""


def _ways(
    row: PriceRow,
    speeds: Speeds,
    wish: Wish,
    beside: Beside,
    rental_of: Callable[[PriceRow, int], Rental],
) -> list[Way]:
    counts = _counts(row, wish)
    known = {one.nodes: one for one in candidates([row], speeds, wish.job, counts).known}
    if not known and wish.nodes is None:
        raise PlanError(f"nothing is known of its speed ({speeds.why_unknown(row.accelerator)})")
    found = []
    for nodes in [count for count in counts if not known or count in known]:
        rate = row.usd_per_hour * nodes
        if wish.most_usd_per_hour is not None and rate > wish.most_usd_per_hour:
            if nodes == counts[0]:
                raise PlanError(
                    f"{rate:.2f} USD per hour is more than"
                    f" --max_usd_per_hour={wish.most_usd_per_hour:g}"
                )
            break
        candidate, rental = known.get(nodes), rental_of(row, nodes)
        if rental.instead and row.accelerator not in wish.named:
            raise PlanError(SOLD_TO_FEW)
        seconds = (candidate.low_seconds, candidate.seconds) if candidate else None
        on_cluster = rental.engine == "cluster"
        priced = job_cost(row, nodes, seconds, beside, on_cluster=on_cluster)
        found.append(Way(row, nodes, candidate, rental, priced))
    return found


def _counts(row: PriceRow, wish: Wish) -> Sequence[int]:
    """The numbers of nodes that are looked at.

    Raises:
        PlanError: None is possible.
    """
    possible = node_counts(row)
    if wish.nodes is not None:
        if len(possible) == 1 and wish.nodes not in possible:
            raise PlanError(
                f"a TPU slice trains alone, and --nodes={wish.nodes}; name a larger slice, or give"
                " --nodes=1"
            )
        return (wish.nodes,)
    batch = wish.global_batch
    kept = [n for n in possible if batch is None or batch % replicas(row, n) == 0]
    if not kept:
        raise PlanError(
            f"its {replicas(row, possible[0])} replicas cannot share a global batch of {batch}; give"
            " another --global_batch"
        )
    return kept


def replicas(node: NodeKind, nodes: int) -> int:
    """Returns how many copies of the network train on so many nodes."""
    return nodes * max(1, node.accelerator_count) * CORES_PER_CHIP.get(node.accelerator, 1)


def _on_one_market(ways: list[Way], wish: Wish, refused: list[Refused]) -> list[Way]:
    """Keeps of spot and on demand what costs less with its losses."""
    places: dict[tuple[str, str, str, int], dict[str, Way]] = {}
    for way in ways:
        key = (way.row.provider, way.row.node_type, way.row.region, way.nodes)
        places.setdefault(key, {})[way.row.market] = way
    kept = []
    for there in places.values():
        spot, full = there.get("spot"), there.get("on_demand")
        either = spot or full
        assert either is not None  # noqa: S101  one of both made the place
        work = either.candidate.work_seconds if either.candidate else wish.most_seconds
        given_up = (wish.excluded or {}).get(_other(either.row))
        chosen = choose_market(
            spot.row if spot else None,
            full.row if full else None,
            work_seconds=min(work, wish.most_seconds),
            nodes=either.nodes,
            preemption=wish.job.preemption,
        )
        for market, way in there.items():
            if market == chosen.market:
                kept.append(replace(way, market_why=given_up or chosen.why))
            else:
                refused.append(Refused(way.row.offer, OTHER_MARKET))
    return kept


def _other(row: PriceRow) -> str:
    """Names the same node on the other market."""
    market = "spot" if row.market == "on_demand" else "on_demand"
    return row.model_copy(update={"market": market}).offer


def _within(ways: list[Way], wish: Wish, refused: list[Refused]) -> list[Way]:
    """Keeps of each offer the number of nodes that is cheapest within the limits.

    Raises:
        PlanError: No offer is sure to do the job within them.
    """
    offers: dict[str, list[Way]] = {}
    for way in ways:
        offers.setdefault(way.row.offer, []).append(way)
    kept = []
    for offer, its in offers.items():
        try:
            best = cheapest_within([_whole(way) for way in its], wish.most_seconds, wish.most_usd)
        except PlanError as error:
            refused.append(Refused(offer, str(error)))
            continue
        kept.append(next(way for way in its if way.nodes == best.nodes))
    if ways and not kept:  # says how near the best of all comes
        cheapest_within([_whole(way) for way in ways], wish.most_seconds, wish.most_usd)
    return kept


def _whole(way: Way) -> Candidate:
    """A way as a candidate whose time and cost are those of the whole job."""
    one = way.candidate
    assert one is not None  # noqa: S101  where nodes are free, only known speeds are ways
    return Candidate(
        one.row,
        one.nodes,
        one.epoch,
        one.work_seconds,
        one.seconds,
        one.low_seconds,
        way.priced.ranked_usd or 0.0,
        way.priced.cost.known_low_usd,
    )
