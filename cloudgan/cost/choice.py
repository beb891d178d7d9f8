"""Which offer, on how many nodes, on which market: time against cost of a whole job.

Each candidate counts with the slow edge of what is known of its speed, so that an accelerator
nobody measured wins only if it would win even at its worst. What has no known time or price is no
candidate: it is named with the reason, and never wins by what is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import PlanError
from cloudgan.cost.elsewhere_price import node_counts, price_epoch
from cloudgan.cost.estimate import usd
from cloudgan.cost.spot import Preemption, break_even, expected_seconds, risk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.elsewhere import EpochTime, Speeds


class Job(NamedTuple):
    """What is to be done.

    Attributes:
        epochs: How many.
        preemption: What is assumed of spot nodes.
    """

    epochs: int
    preemption: Preemption = Preemption()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to do the job, with losses of spot nodes as expected.

    Attributes:
        row: The price.
        nodes: How many.
        epoch: How long one takes.
        work_seconds: Of the job at the slow edge, if no node is lost.
        seconds: Of the job at the slow edge.
        low_seconds: Of the job at the fast edge.
        usd: At the slow edge.
        low_usd: At the fast edge.
    """

    row: PriceRow
    nodes: int
    epoch: EpochTime
    work_seconds: float
    seconds: float
    low_seconds: float
    usd: float
    low_usd: float


class Candidates(NamedTuple):
    """All ways there are, and the offers of which nothing is known, with the reason."""

    known: tuple[Candidate, ...]
    unknown: tuple[tuple[PriceRow, str], ...]


def candidates(
    rows: Iterable[PriceRow],
    speeds: Speeds,
    job: Job,
    counts: Sequence[int] | None = None,
) -> Candidates:
    """Lists each offer on each number of nodes.

    Args:
        rows: The offers, of both markets.
        speeds: Of the network.
        job: What is to be done.
        counts: Numbers of nodes; else those that the offer allows.
    """
    known, unknown = [], []
    for row in rows:
        allowed = node_counts(row)
        for nodes in counts if counts and len(allowed) > 1 else allowed:
            priced = price_epoch(row, nodes, speeds)
            if priced.epoch is None:
                unknown.append((row, priced.why_unknown))
                break
            found = _candidate(row, nodes, priced.epoch, job)
            if math.isfinite(found.usd):
                known.append(found)
    return Candidates(tuple(known), tuple(unknown))


def front(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the Pareto front, fastest first: those that nothing else beats in time and cost.

    Of candidates with the same time and cost the first one stands for all.
    """
    best: list[Candidate] = []
    for one in sorted(known, key=lambda one: (one.seconds, one.usd)):
        if not best or one.usd < best[-1].usd:
            best.append(one)
    return tuple(best)


def cheapest_of_each(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the cheapest candidate of each accelerator, number of nodes and of them, and market."""
    best: dict[tuple[str, int, int, str], Candidate] = {}
    for one in known:
        kind = (one.row.accelerator, one.row.accelerator_count, one.nodes, one.row.market)
        if kind not in best or one.usd < best[kind].usd:
            best[kind] = one
    return tuple(best.values())


def cheapest_within(
    known: Iterable[Candidate],
    deadline_seconds: float | None = None,
    budget_usd: float | None = None,
) -> Candidate:
    """Returns the cheapest candidate that meets the deadline and the budget.

    With a budget and no deadline it is the fastest within the budget, since cost is settled.

    Raises:
        PlanError: None does; the message says how near one comes.
    """
    known = tuple(known)
    if not known:
        raise PlanError("nothing is known of the speed of any of these offers, so none is chosen")
    most_seconds = math.inf if deadline_seconds is None else deadline_seconds
    most_usd = math.inf if budget_usd is None else budget_usd
    fitting = [one for one in known if one.seconds <= most_seconds and one.usd <= most_usd]
    if not fitting:
        raise PlanError(_nearest(known, most_seconds, most_usd))
    if deadline_seconds is None and budget_usd is not None:
        return min(fitting, key=lambda one: (one.seconds, one.usd))
    return min(fitting, key=lambda one: (one.usd, one.seconds))


def spot_break_even(spot: Candidate, on_demand_usd_per_hour: float, job: Job) -> float:
    """Returns how often per hour a node may be lost until on demand costs the same."""
    ratio = spot.row.usd_per_hour / on_demand_usd_per_hour
    return break_even(spot.work_seconds, ratio, job.preemption, spot.nodes)


def risk_of(one: Candidate, job: Job) -> str:
    """Says in plain words what may go wrong; empty for nodes on demand."""
    return risk(one.work_seconds, job.preemption, one.nodes) if one.row.market == "spot" else ""


def _candidate(row: PriceRow, nodes: int, epoch: EpochTime, job: Job) -> Candidate:
    low, work = epoch.job_seconds(job.epochs)
    seconds = work
    if row.market == "spot":
        seconds = expected_seconds(work, job.preemption, nodes)
        low = expected_seconds(low, job.preemption, nodes)
    return Candidate(
        row,
        nodes,
        epoch,
        work,
        seconds,
        low,
        usd(seconds, row, nodes) or 0.0,
        usd(low, row, nodes) or 0.0,
    )


def _nearest(known: Sequence[Candidate], most_seconds: float, most_usd: float) -> str:
    fastest = min(known, key=lambda one: one.seconds)
    cheapest = min(known, key=lambda one: one.usd)
    limits = [f"{most_seconds / 3600:.3g} h"] if math.isfinite(most_seconds) else []
    limits += [f"{most_usd:.4g} USD"] if math.isfinite(most_usd) else []
    return (
        f"no offer is sure to do the job within {' and '.join(limits)}: the fastest takes"
        f" {fastest.seconds / 3600:.3g} h for {fastest.usd:.4g} USD ({fastest.nodes} x"
        f" {fastest.row.node_type}), the cheapest {cheapest.usd:.4g} USD in"
        f" {cheapest.seconds / 3600:.3g} h ({cheapest.nodes} x {cheapest.row.node_type})"
    )
