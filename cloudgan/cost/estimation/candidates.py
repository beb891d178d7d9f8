"""Candidates for a job: offer, number of nodes and market, with time and cost of the whole job.

Each candidate is ranked by the slow edge of its throughput estimate, so an unmeasured accelerator
ranks first only if it does so at its worst. Offers of unknown time or price are listed with the
reason and never ranked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import PlanError
from cloudgan.cost.estimation.spot import Preemption, break_even, describe_risk, expected_seconds
from cloudgan.cost.estimation.throughput_model import node_counts, price_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.cost.estimation.throughput_model import EpochEstimate, ThroughputModel
    from cloudgan.schema.price_row import PriceRow


class PricedJob(NamedTuple):
    """Epochs to train, and the assumed preemption of spot nodes."""

    epochs: int
    preemption: Preemption = Preemption()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run the job, with the expected preemptions of spot nodes.

    Attributes:
        row: Price of one node.
        nodes: Number of nodes.
        epoch: Estimated time of an epoch.
        work_seconds: Time of the job without preemption, slow edge.
        seconds: Time of the job, slow edge.
        low_seconds: Time of the job, fast edge.
        usd: Cost, slow edge.
        low_usd: Cost, fast edge.
    """

    row: PriceRow
    nodes: int
    epoch: EpochEstimate
    work_seconds: float
    seconds: float
    low_seconds: float
    usd: float
    low_usd: float


class Candidates(NamedTuple):
    """All candidates, and the offers of unknown time with the reason."""

    known: tuple[Candidate, ...]
    unknown: tuple[tuple[PriceRow, str], ...]


def candidates(
    rows: Iterable[PriceRow],
    throughput: ThroughputModel,
    job: PricedJob,
    counts: Sequence[int] | None = None,
) -> Candidates:
    """Returns each offer on each number of nodes.

    Args:
        rows: Offers of both markets.
        throughput: Throughput model of the network.
        job: Job to run.
        counts: Numbers of nodes; default: those that the offer allows.
    """
    known, unknown = [], []
    for row in rows:
        allowed = node_counts(row)
        for nodes in counts if counts and len(allowed) > 1 else allowed:
            priced = price_epoch(row, nodes, throughput)
            if priced.epoch is None:
                unknown.append((row, priced.why_unknown))
                break
            found = _candidate(row, nodes, priced.epoch, job)
            if math.isfinite(found.usd):
                known.append(found)
    return Candidates(tuple(known), tuple(unknown))


def pareto_front(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the Pareto front of time and cost, fastest first; of equal candidates the first."""
    best: list[Candidate] = []
    for one in sorted(known, key=lambda one: (one.seconds, one.usd)):
        if not best or one.usd < best[-1].usd:
            best.append(one)
    return tuple(best)


def cheapest_per_configuration(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the cheapest candidate per accelerator, accelerators per node, nodes and market."""
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
    """Returns the cheapest candidate that meets deadline and budget.

    With a budget and no deadline, returns the fastest candidate within the budget.

    Raises:
        PlanError: No candidate does; the message names the nearest ones.
    """
    known = tuple(known)
    if not known:
        raise PlanError(
            "the speed of all these offers is unknown; run `cloudgan offers` to see the reasons"
        )
    most_seconds = math.inf if deadline_seconds is None else deadline_seconds
    most_usd = math.inf if budget_usd is None else budget_usd
    fitting = [one for one in known if one.seconds <= most_seconds and one.usd <= most_usd]
    if not fitting:
        raise PlanError(_nearest(known, most_seconds, most_usd))
    if deadline_seconds is None and budget_usd is not None:
        return min(fitting, key=lambda one: (one.seconds, one.usd))
    return min(fitting, key=lambda one: (one.usd, one.seconds))


def spot_break_even(spot: Candidate, on_demand_usd_per_hour: float, job: PricedJob) -> float:
    """Returns the preemptions per node and hour at which on-demand nodes cost the same."""
    ratio = spot.row.usd_per_hour / on_demand_usd_per_hour
    return break_even(spot.work_seconds, ratio, job.preemption, spot.nodes)


def preemption_risk(one: Candidate, job: PricedJob) -> str:
    """Returns the preemption risk in words; empty for on-demand nodes."""
    return (
        describe_risk(one.work_seconds, job.preemption, one.nodes)
        if one.row.market == "spot"
        else ""
    )


def _candidate(row: PriceRow, nodes: int, epoch: EpochEstimate, job: PricedJob) -> Candidate:
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
        row.cost_usd(seconds, nodes),
        row.cost_usd(low, nodes),
    )


def _nearest(known: Sequence[Candidate], most_seconds: float, most_usd: float) -> str:
    fastest = min(known, key=lambda one: one.seconds)
    cheapest = min(known, key=lambda one: one.usd)
    limits = [f"{most_seconds / 3600:.3g} h"] if math.isfinite(most_seconds) else []
    limits += [f"{most_usd:.4g} USD"] if math.isfinite(most_usd) else []
    return (
        f"no offer is certain to finish the job within {' and '.join(limits)}: the fastest takes"
        f" {fastest.seconds / 3600:.3g} h for {fastest.usd:.4g} USD ({fastest.nodes} x"
        f" {fastest.row.node_type}), the cheapest {cheapest.usd:.4g} USD in"
        f" {cheapest.seconds / 3600:.3g} h ({cheapest.nodes} x {cheapest.row.node_type})"
    )
