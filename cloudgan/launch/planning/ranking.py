"""Ranks offers by the cost of the whole job, selects one and lists the rejected ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import PlanError
from cloudgan.cost.estimation.candidates import Candidate, PricedJob, candidates, cheapest_within
from cloudgan.cost.estimation.spot import break_even
from cloudgan.cost.estimation.throughput_model import CORES_PER_CHIP, node_counts
from cloudgan.launch.planning.job_cost import Priced, job_cost
from cloudgan.launch.planning.node_types import discontinued
from cloudgan.schema.plan import Alternative, RejectedOffers, Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cloudgan.cost.estimation.spot import Preemption
    from cloudgan.cost.estimation.throughput_model import ThroughputModel
    from cloudgan.launch.planning.job_cost import JobContext
    from cloudgan.launch.planning.node_types import NodeType
    from cloudgan.schema.plan import NodePool
    from cloudgan.schema.price_row import Market, PriceRow


UNMEASURED = (
    "no measured throughput of this network on its accelerator: give it with --accelerator, or add"
    " --allow-unmeasured"
)
RESTRICTED = (
    "sold only to accounts with an existing quota: give its accelerator with --accelerator if your"
    " account has one"
)
OTHER_MARKET = "the other market costs less there, preemptions included"


@dataclass(frozen=True)
class OfferConstraints:
    """Constraints on an offer.

    Attributes:
        job: Work to do.
        nodes: Number of nodes; None: the cheapest number within the limits.
        global_batch: Must be divisible by the replicas if `nodes` is None.
        max_seconds: Limit of the job if `nodes` is None.
        max_usd: Limit of the job if `nodes` is None.
        max_usd_per_hour: Limit of all nodes together.
        allowed_accelerators: Accepted without a measured throughput or with restricted sale.
        allow_unmeasured: Whether to accept every accelerator without a measured throughput.
        apply_break_even: Whether to accept spot only below its break-even preemption rate.
        excluded: Reason by offer.
    """

    job: PricedJob
    nodes: int | None = 1
    global_batch: int | None = None
    max_seconds: float = math.inf
    max_usd: float | None = None
    max_usd_per_hour: float | None = None
    allowed_accelerators: frozenset[str] = frozenset()
    allow_unmeasured: bool = False
    apply_break_even: bool = True
    excluded: Mapping[str, str] | None = None


@dataclass(frozen=True)
class RankedOption:
    """An offer with a number of nodes.

    Attributes:
        row: Price of one node.
        nodes: Number of nodes.
        candidate: Throughput; None: unknown.
        node_pool: Nodes to provision.
        priced: Cost of the whole job.
        market_reason: Reason for this market.
    """

    row: PriceRow
    nodes: int
    candidate: Candidate | None
    node_pool: NodePool
    priced: Priced
    market_reason: str = ""

    @property
    def usd_per_hour(self) -> float:
        """USD per hour of all nodes."""
        return self.row.hourly_usd(self.nodes)

    @property
    def sort_key(self) -> tuple[bool, float, float, str]:
        """Sort key: worst-case cost; unknown costs last, by hourly price."""
        ranked = self.priced.worst_case_usd
        return ranked is None, ranked or 0.0, self.usd_per_hour, self.row.row_id


class RejectedOffer(NamedTuple):
    """An offer and the reason for its rejection."""

    offer: str
    reason: str


class Ranking(NamedTuple):
    """Ranked options, the best first, and rejected offers."""

    options: tuple[RankedOption, ...]
    rejected: tuple[RejectedOffer, ...]


def rank(
    rows: Iterable[PriceRow],
    throughput: ThroughputModel,
    constraints: OfferConstraints,
    context: JobContext,
    node_pool_of: Callable[[PriceRow, int], NodePool],
) -> Ranking:
    """Ranks offers by the worst-case cost of the whole job.

    Args:
        rows: Offers of the accepted markets.
        throughput: Of the network.
        constraints: On the offers.
        context: Costs other than training.
        node_pool_of: Returns the node pool of an offer; raises PlanError if the cloud, or
            TensorFlow on it, does not support it.
    """
    options: list[RankedOption] = []
    rejected: list[RejectedOffer] = []
    for row in rows:
        why = _why_not(row, throughput, constraints)
        if why:
            rejected.append(RejectedOffer(row.offer, why))
            continue
        try:
            options += _ways(row, throughput, constraints, context, node_pool_of)
        except PlanError as error:
            rejected.append(RejectedOffer(row.offer, str(error)))
    if constraints.apply_break_even:
        options = _on_one_market(options, constraints, rejected)
    if constraints.nodes is None:
        options = _within(options, constraints, rejected)
    return Ranking(tuple(sorted(options, key=lambda option: option.sort_key)), tuple(rejected))


def _why_not(row: PriceRow, throughput: ThroughputModel, constraints: OfferConstraints) -> str:
    gone = discontinued(row.provider, row.node_type)
    if gone:
        return gone.message
    if constraints.excluded and row.offer in constraints.excluded:
        return constraints.excluded[row.offer]
    if constraints.allow_unmeasured or row.accelerator in constraints.allowed_accelerators:
        return ""
    if row.accelerator not in {run.accelerator for run in throughput.measured}:
        return UNMEASURED
    return ""


def _ways(
    row: PriceRow,
    throughput: ThroughputModel,
    constraints: OfferConstraints,
    context: JobContext,
    node_pool_of: Callable[[PriceRow, int], NodePool],
) -> list[RankedOption]:
    counts = _counts(row, constraints)
    known = {one.nodes: one for one in candidates([row], throughput, constraints.job, counts).known}
    if not known and constraints.nodes is None:
        raise PlanError(f"its throughput is unknown ({throughput.why_unknown(row.accelerator)})")
    found = []
    for nodes in [count for count in counts if not known or count in known]:
        rate = row.hourly_usd(nodes)
        if constraints.max_usd_per_hour is not None and rate > constraints.max_usd_per_hour:
            if nodes == counts[0]:
                raise PlanError(
                    f"{rate:.2f} USD per hour exceeds"
                    f" --max-usd-per-hour={constraints.max_usd_per_hour:g}"
                )
            break
        candidate, node_pool = known.get(nodes), node_pool_of(row, nodes)
        if node_pool.replacement and row.accelerator not in constraints.allowed_accelerators:
            raise PlanError(RESTRICTED)
        seconds = (candidate.low_seconds, candidate.seconds) if candidate else None
        on_cluster = node_pool.engine == "cluster"
        priced = job_cost(row, nodes, seconds, context, on_cluster=on_cluster, fees=node_pool.fees)
        found.append(RankedOption(row, nodes, candidate, node_pool, priced))
    return found


def _counts(row: PriceRow, constraints: OfferConstraints) -> Sequence[int]:
    """Returns the numbers of nodes to consider.

    Raises:
        PlanError: None is possible.
    """
    possible = node_counts(row)
    if constraints.nodes is not None:
        if len(possible) == 1 and constraints.nodes not in possible:
            raise PlanError(
                f"a TPU slice is one node, but --nodes={constraints.nodes}; give a larger slice or"
                " --nodes=1"
            )
        return (constraints.nodes,)
    batch = constraints.global_batch
    kept = [n for n in possible if batch is None or batch % replicas(row, n) == 0]
    if not kept:
        raise PlanError(
            f"its {replicas(row, possible[0])} replicas cannot share a global batch of {batch}; give"
            " another --global-batch"
        )
    return kept


def replicas(node: NodeType, nodes: int) -> int:
    """Returns the number of replicas on `nodes` nodes."""
    return nodes * max(1, node.accelerator_count) * CORES_PER_CHIP.get(node.accelerator, 1)


def _on_one_market(
    options: list[RankedOption], constraints: OfferConstraints, rejected: list[RejectedOffer]
) -> list[RankedOption]:
    """Keeps the market that costs less, preemptions included."""
    places: dict[tuple[str, str, str, int], dict[str, RankedOption]] = {}
    for option in options:
        key = (option.row.provider, option.row.node_type, option.row.region, option.nodes)
        places.setdefault(key, {})[option.row.market] = option
    kept = []
    for there in places.values():
        spot, full = there.get("spot"), there.get("on_demand")
        either = spot or full
        assert either is not None  # noqa: S101  at least one market
        work = either.candidate.work_seconds if either.candidate else constraints.max_seconds
        given_up = (constraints.excluded or {}).get(_other(either.row))
        chosen = choose_market(
            spot.row if spot else None,
            full.row if full else None,
            work_seconds=min(work, constraints.max_seconds),
            nodes=either.nodes,
            preemption=constraints.job.preemption,
        )
        for market, option in there.items():
            if market == chosen.market:
                kept.append(replace(option, market_reason=given_up or chosen.reason))
            else:
                rejected.append(RejectedOffer(option.row.offer, OTHER_MARKET))
    return kept


def _other(row: PriceRow) -> str:
    """Returns the offer of the same node type on the other market."""
    market = "spot" if row.market == "on_demand" else "on_demand"
    return row.model_copy(update={"market": market}).offer


def _within(
    options: list[RankedOption], constraints: OfferConstraints, rejected: list[RejectedOffer]
) -> list[RankedOption]:
    """Keeps the cheapest number of nodes of each offer within the limits.

    Raises:
        PlanError: No offer is certain to meet the limits.
    """
    offers: dict[str, list[RankedOption]] = {}
    for option in options:
        offers.setdefault(option.row.offer, []).append(option)
    kept = []
    for offer, its in offers.items():
        try:
            best = cheapest_within(
                [_whole(option) for option in its], constraints.max_seconds, constraints.max_usd
            )
        except PlanError as error:
            rejected.append(RejectedOffer(offer, str(error)))
            continue
        kept.append(next(option for option in its if option.nodes == best.nodes))
    if options and not kept:  # raises with the closest offer
        cheapest_within(
            [_whole(option) for option in options], constraints.max_seconds, constraints.max_usd
        )
    return kept


def _whole(option: RankedOption) -> Candidate:
    """Returns the candidate with the cost of the whole job."""
    one = option.candidate
    assert one is not None  # noqa: S101  only known throughputs remain
    return Candidate(
        one.row,
        one.nodes,
        one.epoch,
        one.work_seconds,
        one.seconds,
        one.low_seconds,
        option.priced.worst_case_usd or 0.0,
        option.priced.cost.known_low_usd,
    )


class MarketChoice(NamedTuple):
    """A market and the reason for it."""

    market: Market
    reason: str


def choose_market(
    spot: PriceRow | None,
    on_demand: PriceRow | None,
    *,
    work_seconds: float,
    nodes: int,
    preemption: Preemption,
) -> MarketChoice:
    """Returns the market on which a job costs less, preemptions included.

    Args:
        spot: Spot price; None: unknown or not accepted.
        on_demand: On-demand price; None: unknown or not accepted. At least one is given.
        work_seconds: Job duration without preemption; the time limit if unknown.
        nodes: Of the job.
        preemption: Assumed preemption of spot nodes.
    """
    if spot is None:
        return MarketChoice("on_demand", "the spot price is unknown there")
    if on_demand is None:
        return MarketChoice("spot", "the on-demand price is unknown there")
    ratio = spot.usd_per_hour / on_demand.usd_per_hour
    most = break_even(work_seconds, ratio, preemption, nodes)
    assumed = preemption.per_node_hour
    price = f"spot costs {ratio:.0%} of on demand"
    if most <= 0:
        return MarketChoice("on_demand", f"{price}: more expensive even without preemption")
    limit = f"cheaper below one preemption per node in {_hours(1 / most)}"
    known = f"assumed, not measured: one in {_hours(1 / assumed)}" if assumed else ""
    if most > assumed:
        return MarketChoice("spot", f"{price}, {limit} ({known or 'assumed: never'})")
    return MarketChoice("on_demand", f"{price}, only {limit} ({known})")


def _hours(hours: float) -> str:
    return f"{hours:.2g} h" if hours >= 1 else f"{hours * 60:.2g} min"


_MOST_ALTERNATIVES = 5
_MOST_REASONS = 8
_MOST_EXAMPLES = 3


def prefer_offer(ranking: Ranking, offer: str | None) -> Ranking:
    """Returns a ranking with `offer` first, if present."""
    first = [option for option in ranking.options if option.row.offer == offer]
    others = [option for option in ranking.options if option.row.offer != offer]
    return ranking._replace(options=(*first, *others))


def best_option(ranking: Ranking, request: str) -> RankedOption:
    """Returns the first option of a ranking.

    Args:
        ranking: Of the request.
        request: In words, for the message.

    Raises:
        PlanError: There is none; the message lists the reasons.
    """
    if ranking.options:
        return ranking.options[0]
    reasons = [f"{each.reason} ({_shown(each)})" for each in group_rejected(ranking.rejected)]
    raise PlanError(f"no offer of {request} is usable: {'; '.join(reasons) or 'there is none'}")


def selection_of(ranking: Ranking, request: str, epochs: int, market_why: str = "") -> Selection:
    """Returns the selection of the first option, with reasons and alternatives.

    Args:
        ranking: Of the request.
        request: In words.
        epochs: Of the job.
        market_why: Reason for the market if the break-even rule does not apply.
    """
    best, others = ranking.options[0], ranking.options[1:]
    among = (
        f"{len(ranking.options)} offers of {request}" if others else f"the only offer of {request}"
    )
    if best.candidate is None:
        why = f"its throughput is unknown: lowest hourly price of {among}"
    else:
        why = (
            f"lowest worst-case cost of {epochs} epochs of {among}; unknown costs count at their"
            " upper bound, waiting at --gang-timeout"
        )
    return Selection(
        reason=why if others else f"{among} that is usable",
        market_reason=best.market_reason or market_why,
        alternatives=tuple(map(_alternative, others[:_MOST_ALTERNATIVES])),
        rejected_offers=group_rejected(ranking.rejected),
    )


def group_rejected(rejected: Iterable[RejectedOffer]) -> tuple[RejectedOffers, ...]:
    """Groups rejected offers by reason, the most frequent first."""
    by_why: dict[str, list[str]] = {}
    for one in rejected:
        offers = by_why.setdefault(one.reason, [])
        if one.offer not in offers:
            offers.append(one.offer)
    groups = sorted(by_why.items(), key=lambda item: -len(item[1]))
    return tuple(
        RejectedOffers(reason=why, count=len(offers), examples=tuple(offers[:_MOST_EXAMPLES]))
        for why, offers in groups[:_MOST_REASONS]
    )


def _alternative(option: RankedOption) -> Alternative:
    return Alternative(
        offer=option.row.offer,
        nodes=option.nodes,
        known_usd=option.priced.cost.known_usd if option.candidate else None,
        unknown=option.priced.cost.unknown,
        seconds=option.candidate.seconds if option.candidate else None,
        grade=option.candidate.epoch.grade if option.candidate else None,
    )


def _shown(group: RejectedOffers) -> str:
    return ", ".join(group.examples) + (
        f" and {group.count - len(group.examples)} more"
        if group.count > len(group.examples)
        else ""
    )
