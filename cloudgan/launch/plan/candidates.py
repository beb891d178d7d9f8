"""Candidates for a job: an offer on a number of nodes, with its time and cost, or why it is not usable.

They are filtered, ranked and explained here, once, for `offers`, `plan`, `deploy` and its fallback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import BudgetError, PlanError, counted
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.money.forecast import JobContext, job_cost
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.plan import NodePool, RejectedOffers, Selection
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.candidates import PricedJob, candidates, cheapest_within, node_counts
from cloudgan.speed.measured import learning_evidence, replicas
from cloudgan.speed.model import ThroughputModel
from cloudgan.speed.spot import choose_market

UNKNOWN_THROUGHPUT = (
    "no measured run tells the throughput of this network on its accelerator: give it with"
    " --accelerator, or add --allow-unmeasured"
)
RESTRICTED = (
    "sold only to accounts with an existing quota: give its accelerator with --accelerator if your"
    " account has one"
)
TOO_SLOW = "cannot finish within the limits of time and cost on this number of nodes"
UNCERTAIN = "may not finish within --max-hours, and others certainly do"
SEVERAL_HOSTS = "a slice of several VMs trains with --engine=jax only; name it with --accelerator to see its price"
OTHER_MARKET = "the other market costs less there, preemptions included"


@dataclass(frozen=True)
class OfferConstraints:
    """Constraints on an offer.

    Attributes:
        nodes: Number of nodes; None: the cheapest number, with its batch, within the limits.
        max_seconds: Limit of the job if `nodes` is None.
        max_usd: Limit of the job if `nodes` is None.
        max_usd_per_hour: Limit of all nodes together.
        allowed_accelerators: Accepted with an unknown throughput or with restricted sale.
        allow_unmeasured: Whether to accept every accelerator with an unknown throughput.
        must_finish: Whether offers are rejected that cannot meet the limits on `nodes` nodes.
        apply_break_even: Whether to accept spot only below its break-even preemption rate.
    """

    job: PricedJob
    nodes: int | None = 1
    max_seconds: float = math.inf
    max_usd: float | None = None
    max_usd_per_hour: float | None = None
    allowed_accelerators: frozenset[str] = frozenset()
    allow_unmeasured: bool = False
    must_finish: bool = False
    apply_break_even: bool = True
    excluded: Mapping[str, str] | None = None


class Ranking(NamedTuple):
    """Usable candidates, the best first, and rejected ones."""

    usable: tuple[Candidate, ...]
    rejected: tuple[Candidate, ...]

    def of(self, rows: Iterable[PriceRow]) -> Ranking:
        """Returns the candidates on some offers."""
        asked = frozenset(rows)
        usable, rejected = (tuple(one for one in each if one.row in asked) for each in self)
        return Ranking(usable, rejected)


def rank(found: Ranking, constraints: OfferConstraints) -> Ranking:
    """Ranks options of `usable_options` by the worst-case cost of the whole job, within the constraints."""
    options, rejected = list(found.usable), list(found.rejected)
    if constraints.nodes is None:
        options = _within(options, constraints, rejected)  # the cheaper market may be too slow
    if constraints.apply_break_even:
        options = _on_one_market(options, constraints, rejected)
    if constraints.nodes is not None and constraints.must_finish:
        options = _able_to_finish(options, constraints, rejected)
    return Ranking(tuple(sorted(options, key=lambda option: option.sort_key)), tuple(rejected))


def usable_options(
    rows: Iterable[PriceRow],
    throughput: ThroughputModel,
    constraints: OfferConstraints,
    context: JobContext,
    node_pool_of: Callable[[PriceRow, int], NodePool],
) -> Ranking:
    """Returns every usable offer on every number of nodes, unordered.

    Args:
        node_pool_of: Returns the node pool of an offer; raises PlanError if the cloud, or
            TensorFlow on it, does not support it.
    """
    options: list[Candidate] = []
    rejected: list[Candidate] = []
    for row in rows:
        if why := (constraints.excluded or {}).get(row.offer):
            rejected.append(Candidate(row=row, why_not=why))
            continue
        try:
            options += _ways(row, throughput, constraints, context, node_pool_of)
        except PlanError as error:
            rejected.append(Candidate(row=row, why_not=str(error)))
    return Ranking(tuple(options), tuple(rejected))


def why_not_sold(row: PriceRow, allowed_accelerators: frozenset[str]) -> str:
    """Returns why an account cannot get this node type; empty: it can."""
    try:
        pool = usual_node_pool(row, 1)
    except PlanError as error:
        return str(error)
    if row.accelerator in allowed_accelerators:
        return ""
    if pool.hosts > 1:
        return SEVERAL_HOSTS
    return RESTRICTED if pool.replacement else ""


def usual_node_pool(row: PriceRow, nodes: int) -> NodePool:
    """Returns the nodes of an offer without further wishes; those of a price file need no request.

    Raises:
        PlanError: The cloud, or TensorFlow on it, does not support the node type.
    """
    if row.provider not in CLOUDS:
        return NodePool(node_type=row.node_type, market=row.market, name="own", engine="cluster")
    wanted = NodePoolRequest("offers", "", row.node_type, row.market, nodes)
    return cloud_planner(row.provider).node_pool(wanted)


def _ways(
    row: PriceRow,
    throughput: ThroughputModel,
    constraints: OfferConstraints,
    context: JobContext,
    node_pool_of: Callable[[PriceRow, int], NodePool],
) -> list[Candidate]:
    counts = _counts(row, constraints)
    wanted = None if constraints.nodes is None else counts
    job = constraints.job
    known = {one.nodes: one for one in candidates([row], throughput, job, wanted)}
    if not known and constraints.nodes is None:
        raise PlanError(_why_no_batch(row, throughput, job))
    is_allowed = constraints.allow_unmeasured or row.accelerator in constraints.allowed_accelerators
    if not known and not is_allowed:
        raise PlanError(UNKNOWN_THROUGHPUT)
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
        timing, pool = known.get(nodes), node_pool_of(row, nodes)
        if pool.replacement and row.accelerator not in constraints.allowed_accelerators:
            raise PlanError(RESTRICTED)
        if pool.hosts > 1 and constraints.nodes is None:
            raise PlanError(SEVERAL_HOSTS)
        seconds = None
        if timing is not None and timing.low_seconds is not None:
            seconds = (timing.low_seconds, timing.seconds)
        on_cluster = pool.engine == "cluster"
        priced = job_cost(row, nodes, seconds, context, on_cluster=on_cluster, fees=pool.fees)
        cost = {"unknown": priced.unknown, "high_usd": priced.worst_case_usd}
        if timing is not None:
            cost |= {"low_usd": priced.low.known_usd, "known_usd": priced.high.known_usd}
        one = timing or Candidate(row=row, nodes=nodes)
        found.append(one.model_copy(update=cost))
    return found


def _counts(row: PriceRow, constraints: OfferConstraints) -> tuple[int, ...]:
    """Returns the numbers of nodes to consider."""
    possible = node_counts(row)
    if constraints.nodes is None:
        return possible
    if len(possible) == 1 and constraints.nodes not in possible:
        raise PlanError(
            f"a TPU slice is one node, but --nodes={constraints.nodes}; give a larger slice or"
            " --nodes=1"
        )
    return (constraints.nodes,)


def _why_no_batch(row: PriceRow, throughput: ThroughputModel, job: PricedJob) -> str:
    """Why no number of nodes is possible: the speed is unknown, or no batch suits the replicas."""
    rule, count = job.batches, replicas(row, 1)
    if any(rule.choices(row, nodes, throughput, fixed=False) for nodes in node_counts(row)):
        return f"its throughput is unknown ({throughput.why_unknown(row.accelerator)})"
    if rule.global_batch is None:
        return f"no batch fits {count} replicas of {row.accelerator_memory_gib} GiB; give --batch"
    return (
        f"its {count} replicas cannot share a global batch of {rule.global_batch} that fits their"
        " memory; give another --global-batch"
    )


def _on_one_market(
    options: list[Candidate], constraints: OfferConstraints, rejected: list[Candidate]
) -> list[Candidate]:
    """Keeps the market that costs less, preemptions included."""
    places: dict[tuple[str, str, str, int], dict[str, Candidate]] = {}
    for option in options:
        key = (option.row.provider, option.row.node_type, option.row.region, option.nodes)
        places.setdefault(key, {})[option.row.market] = option
    kept = []
    for there in places.values():
        spot, full = there.get("spot"), there.get("on_demand")
        either = spot or full
        assert either is not None  # noqa: S101  at least one market
        work = constraints.max_seconds if either.work_seconds is None else either.work_seconds
        given_up = _why_not_other(either.row.in_other_market, constraints, rejected)
        chosen = choose_market(
            spot.row if spot else None,
            full.row if full else None,
            work_seconds=min(work, constraints.max_seconds),
            nodes=either.nodes,
            preemption=constraints.job.preemption,
        )
        for market, option in there.items():
            if market == chosen.market:
                reason = {"market_reason": given_up or chosen.reason}
                kept.append(option.model_copy(update=reason))
            else:
                rejected.append(_rejected(option, OTHER_MARKET))
    return kept


def _why_not_other(
    other: PriceRow, constraints: OfferConstraints, rejected: list[Candidate]
) -> str:
    """Why an offer's other market was dropped before both were compared; empty: it was not."""
    if why := (constraints.excluded or {}).get(other.offer):
        return why
    is_beyond = constraints.nodes is None and other.offer in {one.row.offer for one in rejected}
    nodes = "spot nodes" if other.market == "spot" else "on-demand nodes"
    return f"no number of {nodes} is certain to meet the limits there" if is_beyond else ""


def _within(
    options: list[Candidate], constraints: OfferConstraints, rejected: list[Candidate]
) -> list[Candidate]:
    """Keeps the cheapest number of nodes of each offer within the limits.

    Raises:
        BudgetError: No offer is certain to meet the budget.
        PlanError: No offer is certain to meet the deadline.
    """
    offers: dict[str, list[Candidate]] = {}
    for option in options:
        offers.setdefault(option.row.offer, []).append(option)
    limits = (constraints.max_seconds, constraints.max_usd)
    kept = []
    for its in offers.values():
        try:
            kept.append(cheapest_within(its, *limits))
        except (BudgetError, PlanError) as error:
            rejected.append(_rejected(its[0], str(error)))
    if options and not kept:  # raises with the closest offer
        cheapest_within(options, *limits)
    return kept


def _able_to_finish(
    options: list[Candidate], constraints: OfferConstraints, rejected: list[Candidate]
) -> list[Candidate]:
    """Keeps the options that certainly finish in time, else those that can, else all."""
    most_usd = math.inf if constraints.max_usd is None else constraints.max_usd
    kept = options
    for edge, why in (("low_work_seconds", TOO_SLOW), ("work_seconds", UNCERTAIN)):
        able: list[Candidate] = []
        unable: list[Candidate] = []
        for option in kept:
            seconds = getattr(option, edge) or 0.0  # unknown: it may
            can = seconds <= constraints.max_seconds and (option.low_usd or 0.0) <= most_usd
            (able if can else unable).append(option)
        if not able:
            break
        rejected += [_rejected(one, why) for one in unable]
        kept = able
    return kept


def _rejected(option: Candidate, why: str) -> Candidate:
    return option.model_copy(update={"why_not": why})


_MOST_ALTERNATIVES = 5
_MOST_REASONS = 8
_MOST_EXAMPLES = 3


def best_of(ranking: Ranking, preferred: str | None, request: str) -> Ranking:
    """Returns a ranking with a preferred offer first, if it is usable.

    Args:
        request: In words, for the message.

    Raises:
        PlanError: No candidate is usable; the message lists the reasons.
    """
    if not ranking.usable:
        reasons = []
        for group in group_rejected(ranking.rejected):
            more = group.count - len(group.examples)
            which = ", ".join(group.examples) + (f" and {more} more" if more else "")
            reasons.append(f"{group.reason} ({which})")
        raise PlanError(f"no offer of {request} is usable: {'; '.join(reasons) or 'there is none'}")
    usable = sorted(ranking.usable, key=lambda one: one.row.offer != preferred)
    return ranking._replace(usable=tuple(usable))


def selection_of(
    ranking: Ranking, request: str, network: str, epochs: int, market_why: str = ""
) -> Selection:
    """Returns the selection of the first option, with reasons and alternatives.

    Args:
        request: In words.
        market_why: Reason for the market if the break-even rule does not apply.
    """
    best, others = ranking.usable[0], ranking.usable[1:]
    among = (
        f"{len(ranking.usable)} offers of {request}" if others else f"the only offer of {request}"
    )
    if best.high_seconds is None:
        why = f"its throughput is unknown: lowest hourly price of {among}"
    else:
        why = (
            f"lowest worst-case cost of {counted(epochs, 'epoch')} of {among}; unknown costs count at their"
            " upper bound, waiting at --gang-timeout"
        )
    return Selection(
        reason=why if others else f"{among} that is usable",
        market_reason=best.market_reason or market_why,
        batch_reason=batch_reason(best, network),
        alternatives=others[:_MOST_ALTERNATIVES],
        rejected_offers=group_rejected(ranking.rejected),
    )


def batch_reason(option: Candidate, network: str) -> str:
    """Returns the batches of an option and the evidence on learning; empty: its speed is unknown."""
    if option.batch is None or option.global_batch is None:
        return ""
    count = replicas(option.row, option.nodes)
    return (
        f"{option.batch:g} showers per replica and step, {option.global_batch} of"
        f" {count} {'replica' if count == 1 else 'replicas'};"
        f" {learning_evidence(network, option.global_batch)}"
    )


def group_rejected(rejected: Iterable[Candidate]) -> tuple[RejectedOffers, ...]:
    """Groups rejected offers by reason, the most frequent first."""
    by_why: dict[str, list[str]] = {}
    for one in rejected:
        offers = by_why.setdefault(one.why_not, [])
        if one.row.offer not in offers:
            offers.append(one.row.offer)
    groups = sorted(by_why.items(), key=lambda item: -len(item[1]))
    return tuple(
        RejectedOffers(reason=why, count=len(offers), examples=tuple(offers[:_MOST_EXAMPLES]))
        for why, offers in groups[:_MOST_REASONS]
    )
