"""Candidates for a job: offer, number of nodes, batch and market, with time and cost of the whole job.

Each candidate is ranked by the slow edge of its throughput estimate, so an unmeasured accelerator
ranks first only if it does so at its worst. Offers of unknown time or price are listed with the
reason and never ranked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cloudgan.core.durations import HOUR_SECONDS, duration_text
from cloudgan.core.errors import BudgetError, PlanError, number_text
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.measured import replicas
from cloudgan.speed.model import EpochEstimate, ThroughputModel
from cloudgan.speed.spot import Preemption, expected_seconds

NODE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_GIB = 1 << 30
_SAME_SPEED = 1.05
"""Of batches whose epochs take up to 5 % longer than the fastest, the smallest is taken: it makes more
updates of the weights in an epoch for nearly the same money."""
_MOST_POWER = 13
_ROUNDING = 1e-9


def node_counts(row: PriceRow) -> tuple[int, ...]:
    """Returns the possible numbers of nodes: a TPU slice trains alone."""
    return (1,) if row.accelerator.startswith("TPU") else NODE_COUNTS


def price_epoch(row: PriceRow, nodes: int, throughput: ThroughputModel, batch: float) -> Candidate:
    """Returns an epoch with `batch` showers per replica, at the price of the nodes alone."""
    epoch = _epoch(row, nodes, throughput, batch)
    if epoch is None:
        why = throughput.why_unknown(row.accelerator)
        if row.accelerator_count == 0:
            why = "the node has no accelerator, and no CPU was measured"
        return Candidate(row=row, nodes=nodes, batch=batch, why_not=why)
    edges = (epoch.low_seconds, epoch.high_seconds)
    return _candidate(row, nodes, batch, epoch, edges, expected_seconds=epoch.seconds)


def _candidate(
    row: PriceRow,
    nodes: int,
    batch: float,
    epoch: EpochEstimate,
    edges: tuple[float, float],
    **more: Any,
) -> Candidate:
    """Returns nodes for the seconds of both edges, at the price of the nodes alone."""
    low, high = edges
    usd = row.cost_usd(high, nodes)
    return Candidate(
        row=row,
        nodes=nodes,
        batch=batch,
        low_seconds=low,
        high_seconds=high,
        low_usd=row.cost_usd(low, nodes),
        known_usd=usd,
        high_usd=usd,
        grade=epoch.grade,
        basis=epoch.basis,
        **more,
    )


def _epoch(
    row: PriceRow, nodes: int, throughput: ThroughputModel, batch: float
) -> EpochEstimate | None:
    if row.accelerator_count == 0:
        return None
    return throughput.epoch(row.accelerator, nodes * row.accelerator_count, batch)


def price_within(
    row: PriceRow, throughput: ThroughputModel, batch: float, seconds: float | None
) -> Candidate:
    """Returns an epoch on the fewest nodes that are expected to take at most `seconds`.

    Where only bounds are known, the upper one counts. None: one node.
    """
    counts = node_counts(row)
    for nodes in counts:
        found = price_epoch(row, nodes, throughput, batch)
        expected = found.expected_seconds or found.seconds
        if found.why_not or seconds is None or expected <= seconds * (1 + _ROUNDING):
            return found
    what = f"{counts[-1]} of these nodes" if len(counts) > 1 else "this slice"
    why = f"{what} may need up to {found.seconds:.4g} s, more than {seconds:.4g} s"
    return Candidate(row=row, batch=batch, why_not=why)


@dataclass(frozen=True)
class BatchRule:
    """The showers per replica and step that a job may have.

    Attributes:
        per_replica: Requested for each replica; None: not requested.
        global_batch: Requested for all replicas together; None: not requested.
        most_global: Largest batch of all replicas that is chosen.
        replica_bytes: Returns the memory that a replica of a batch takes; None: unknown.
    """

    per_replica: int | None = None
    global_batch: int | None = None
    usual: int = 64
    most_global: float = math.inf
    replica_bytes: Callable[[int], float] | None = None

    def choices(
        self, row: PriceRow, nodes: int, throughput: ThroughputModel, *, fixed: bool
    ) -> tuple[float, ...]:
        """Returns the batches per replica that are possible on a number of nodes.

        Args:
            throughput: Its measured batches are possible too.
            fixed: Whether the number of nodes was requested: then only the requested or usual batch
                is possible, and it may exceed the memory.
        """
        count = replicas(row, nodes)
        if self.global_batch is not None:
            share = self.global_batch / count
            is_whole = share.is_integer() and self._fits(row, int(share), throughput)
            return (share,) if fixed or is_whole else ()
        if fixed or self.per_replica is not None:
            return (self.per_replica or self.usual,)
        found = {2**power for power in range(_MOST_POWER)} | {self.usual}
        found |= {run.batch for run in throughput.measured}
        most = min(self.most_global, throughput.showers) / count
        return tuple(
            batch for batch in sorted(found) if batch <= most and self._fits(row, batch, throughput)
        )

    def _fits(self, row: PriceRow, batch: int, throughput: ThroughputModel) -> bool:
        """Whether a replica has the memory; if that is unknown, whether such a batch was measured."""
        memory = row.accelerator_memory_gib
        if memory is None or self.replica_bytes is None or row.accelerator.startswith("TPU"):
            return batch <= max((run.batch for run in throughput.measured), default=self.usual)
        return self.replica_bytes(batch) <= memory * _GIB


class PricedJob(NamedTuple):
    """Epochs to train, the preemption of spot nodes, and the possible batches."""

    epochs: int
    preemption: Preemption = Preemption()
    batches: BatchRule = BatchRule()


def candidates(
    rows: Iterable[PriceRow],
    throughput: ThroughputModel,
    job: PricedJob,
    counts: Sequence[int] | None = None,
) -> tuple[Candidate, ...]:
    """Returns each offer of known speed on each number of nodes, with the batch that suits it.

    Their cost is that of the nodes while they train. A job that would never end is no candidate.

    Args:
        counts: Requested numbers of nodes; default: those that the offer allows.
    """
    found = []
    for row in rows:
        allowed = node_counts(row)
        for nodes in counts if counts and len(allowed) > 1 else allowed:
            fixed = counts is not None and len(counts) == 1
            batch = best_batch(row, nodes, throughput, job.batches, fixed=fixed)
            if batch is None:
                continue
            epoch = _epoch(row, nodes, throughput, batch)
            if epoch is None:
                break
            edges = low_work, work = epoch.job_seconds(job.epochs)
            if row.market == "spot":
                preemption = job.preemption.of_node(row)
                edges = (
                    expected_seconds(low_work, preemption, nodes),
                    expected_seconds(work, preemption, nodes),
                )
            if math.isfinite(edges[1]):
                more = {"low_work_seconds": low_work, "work_seconds": work}
                more["global_batch"] = round(batch * replicas(row, nodes))
                found.append(_candidate(row, nodes, batch, epoch, edges, **more))
    return tuple(found)


def best_batch(
    row: PriceRow, nodes: int, throughput: ThroughputModel, rule: BatchRule, *, fixed: bool = False
) -> float | None:
    """Returns the batch per replica that suits the nodes; None: no batch does.

    It is the smallest batch whose epoch takes at most 5 % longer than the fastest, at the slow edge; of
    unknown speed the smallest possible one. For the arguments see `BatchRule.choices`.
    """
    batches = rule.choices(row, nodes, throughput, fixed=fixed)
    priced = ((batch, _epoch(row, nodes, throughput, batch)) for batch in batches)
    known = [(batch, epoch.high_seconds) for batch, epoch in priced if epoch]
    if not known:
        return batches[0] if batches else None
    best = min(seconds for _, seconds in known)
    return next(batch for batch, seconds in known if seconds <= _SAME_SPEED * best)


def pareto_front(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the Pareto front of time and cost, fastest first; of equal ones the first."""
    best: list[Candidate] = []
    for one in sorted(known, key=lambda one: (one.seconds, one.usd)):
        if not best or one.usd < best[-1].usd:
            best.append(one)
    return tuple(best)


def cheapest_per_configuration(known: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns the cheapest per accelerator, accelerators per node, nodes and market."""
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
    """Returns the cheapest way that meets deadline and budget.

    With a budget and no deadline, returns the fastest way within the budget.

    Raises:
        BudgetError: Ways meet the deadline, and none of them the budget.
        PlanError: No way meets the deadline. Both messages name the smallest change that fits.
    """
    known = tuple(known)
    if not known:
        raise PlanError(
            "the speed of all these offers is unknown; run `cloudgan offers` to see the reasons"
        )
    most_seconds = math.inf if deadline_seconds is None else deadline_seconds
    most_usd = math.inf if budget_usd is None else budget_usd
    in_time = [one for one in known if one.seconds <= most_seconds]
    fitting = [one for one in in_time if one.usd <= most_usd]
    if not fitting:
        why = BudgetError if in_time else PlanError
        raise why(_nearest(known, most_seconds, most_usd))
    if deadline_seconds is None and budget_usd is not None:
        return min(fitting, key=lambda one: (one.seconds, one.usd))
    return min(fitting, key=lambda one: (one.usd, one.seconds))


def smallest_changes(
    known: Sequence[Candidate], most_seconds: float, most_usd: float
) -> tuple[str, ...]:
    """Returns the changes of one limit, or else of both, that make a way fit; the smallest first."""
    found: list[tuple[float, str]] = []
    within_budget = [one.seconds for one in known if one.usd <= most_usd]
    if within_budget and min(within_budget) > most_seconds:
        hours = _rounded_up(min(within_budget) / HOUR_SECONDS)
        more = hours - most_seconds / HOUR_SECONDS
        found.append(
            (
                hours * HOUR_SECONDS / most_seconds,
                f"+{number_text(more)} h deadline (--max-hours={hours:.10g})",
            )
        )
    in_time = [one.usd for one in known if one.seconds <= most_seconds]
    if in_time and min(in_time) > most_usd:
        usd = _rounded_up(min(in_time))
        found.append(
            (
                usd / max(most_usd, 1e-9),
                f"+{number_text(usd - most_usd)} USD budget (--budget-usd={usd:.10g})",
            )
        )
    if not found and known:
        one = min(known, key=lambda one: max(one.seconds / most_seconds, one.usd / most_usd))
        hours, usd = _rounded_up(one.seconds / HOUR_SECONDS), _rounded_up(one.usd)
        found.append((0.0, f"--max-hours={hours:.10g} and --budget-usd={usd:.10g} together"))
    return tuple(text for _, text in sorted(found))


def _rounded_up(value: float) -> float:
    """Rounds up to two decimals below 10, else to one."""
    digits = 100 if value < 10 else 10  # noqa: PLR2004
    return math.ceil(value * digits - 1e-9) / digits


def _nearest(known: Sequence[Candidate], most_seconds: float, most_usd: float) -> str:
    fastest = min(known, key=lambda one: one.seconds)
    cheapest = min(known, key=lambda one: one.usd)
    limits = [f"{most_seconds / HOUR_SECONDS:.3g} h"] if math.isfinite(most_seconds) else []
    limits += [f"{number_text(most_usd)} USD"] if math.isfinite(most_usd) else []
    changes = " or ".join(smallest_changes(known, most_seconds, most_usd))
    return (
        f"no offer is certain to finish the job within {' and '.join(limits)}: the fastest takes"
        f" {duration_text(fastest.seconds)} for {number_text(fastest.usd)} USD ({fastest.nodes} x"
        f" {fastest.row.node_type}), the cheapest {number_text(cheapest.usd)} USD in"
        f" {duration_text(cheapest.seconds)} ({cheapest.nodes} x {cheapest.row.node_type}); the smallest"
        f" change that fits: {changes}"
    )
