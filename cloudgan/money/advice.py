"""Recommendations to save money, from a run's own record; missing data give no recommendation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cloudgan.money.processes import TRAINED
from cloudgan.schema.cost_report import LineItem, Recommendation
from cloudgan.schema.price_row import HOURLY_FEES, PriceRow
from cloudgan.schema.record import Checkpointed, Process, RunRecord
from cloudgan.speed.spot import (
    Preemption,
    break_even,
    checkpoint_interval,
    expected_seconds,
)

INPUT_BOUND_UTILISATION = 0.9
"""Readers that keep their queue full are idle part of the time; uneven batches need a tenth."""
STARTUP_SHARE = 0.2
"""Share of the run time spent on start-up and tracing."""
CHECKPOINT_SHARE = 0.05
"""Share of the time; the best interval costs 1 % with 10 s each and one preemption a day."""
SPOT_SAVING = 0.1
"""Share of the price; less does not justify a run that may take longer."""
MOST = 3
"""A person acts on no more."""
BATCH_GAIN = 0.1
"""Share of the throughput; runs on one machine differ by a few per cent."""
NEW_NODE_SECONDS = Preemption().restart_seconds
"""Assumed time to replace a preempted node; start-up and tracing are added."""


class _Rate(NamedTuple):
    """What a second of training costs: all nodes of a run, and what is billed beside them, in USD."""

    nodes: float
    beside: float


def _rate_of(items: Sequence[LineItem], up_seconds: float | None) -> _Rate | None:
    """Returns the rate by what a run paid while its nodes were up; None: unknown."""
    known = [item for item in items if item.item in TRAINED and item.usd is not None]
    spent = math.fsum(item.seconds or 0.0 for item in known)
    if not spent:
        return None
    beside = (
        (item.usd or 0.0) / lasted
        for item in items
        if item.item in HOURLY_FEES and (lasted := item.seconds or up_seconds)
    )
    return _Rate(math.fsum(item.usd or 0.0 for item in known) / spent, math.fsum(beside))


def _saves(record: RunRecord, rate: _Rate | None, per_epoch: float) -> dict[str, Any]:
    """Returns the saving of a recommendation that saves these seconds per epoch."""
    seconds = per_epoch * len({epoch.epoch for epoch in record.epochs()})
    return {
        "saves_seconds_per_epoch": per_epoch,
        "saves_usd": None if rate is None else math.fsum(rate) * seconds,
    }


def recommendations(
    record: RunRecord,
    items: Sequence[LineItem],
    up_seconds: float | None = None,
    *,
    row: PriceRow | None,
    other_market: PriceRow | None = None,
    nodes: int = 1,
) -> tuple[Recommendation, ...]:
    """Returns what would have saved money, from the run's own record: at most three, the largest saving first.

    A saving is the cost of the run less that of the same run with the change: of its nodes, and of all that is
    billed beside them by the hour.

    Args:
        up_seconds: In which nodes were up; None: unknown, as on a machine without a bill.
        row: Node type it ran on or is priced as.
        other_market: Spot row of the same node type and region.
    """
    rate = _rate_of(items, up_seconds)
    found = (
        _input_bound(record),
        _startup_dominates(record, items, rate),
        _checkpoint_too_often(record, rate, row, nodes),
        _spot(record, rate, row, other_market, nodes),
    )
    known = sorted(filter(None, found), key=lambda one: -(one.saves_usd or 0.0))
    return tuple(known[:MOST])


def _input_bound(record: RunRecord) -> Recommendation | None:
    """Detects an input-bound run; the possible speed-up was not measured."""
    epochs = (epoch for epoch in record.epochs() if not epoch.first)
    busy = [one.input_utilisation for one in epochs if one.input_utilisation is not None]
    if not busy or statistics.median(busy) < INPUT_BOUND_UTILISATION:
        return None
    return Recommendation(
        title="training is input-bound",
        evidence=f"the readers were busy {statistics.median(busy):.0%} of the time; the queue never filled",
        action="training.threads in run.yaml, or a store from `cloudgan convert` on a faster disk",
    )


def _startup_dominates(
    record: RunRecord, items: Sequence[LineItem], rate: _Rate | None
) -> Recommendation | None:
    starts, work = _startup_seconds(record), _work_seconds(record)
    epochs = len({epoch.epoch for epoch in record.epochs()})
    if starts is None or not epochs or not work:
        return None
    total, processes = sum(starts), len(starts)
    if total < STARTUP_SHARE * (total + work):
        return None
    of_programs = (one.seconds or 0.0 for one in items if one.duration == "program_seconds")
    share = total / max(total + work, math.fsum(of_programs))
    evidence = f"start-up and tracing took {total:.0f} s, {share:.0%} of the run"
    if processes == 1:
        enough = int(total * (1 - STARTUP_SHARE) / STARTUP_SHARE / (work / epochs)) + 1
        return Recommendation(
            title="the first epoch dominates",
            evidence=f"{evidence}; with {enough} or more epochs it is less than {STARTUP_SHARE:.0%}",
            action=f"--epochs={enough}, or fewer and longer runs",
        )
    ends = {one.stopped.reason if one.stopped else None for one in _trained(record)[:-1]}
    return Recommendation(
        title="restarts dominate",
        evidence=f"{evidence}; the process started {processes} times",
        action="one command with all --epochs"
        if ends == {"finished"}
        else "fewer stops: a larger --max-seconds or --max-steps, or on-demand nodes",
        **_saves(record, rate, (total - statistics.median(starts)) / epochs),
    )


def _trained(record: RunRecord) -> list[Process]:
    """Returns the processes without those that found the run finished: a command that was given once more."""
    return [
        one
        for one in record.processes()
        if one.epochs or one.stopped is None or one.stopped.reason != "finished"
    ]


def _startup_seconds(record: RunRecord) -> list[float] | None:
    """Returns start-up and tracing seconds of each process that had work; None if one is unknown."""
    started = [one.started for one in _trained(record) if one.started]
    cold = [epoch for epoch in record.epochs() if epoch.first]
    rate = record.samples_per_second()
    if not started or not cold or rate is None:
        return None
    tracing = [
        max(0.0, epoch.train_seconds - epoch.samples / (epoch.samples_per_second or rate))
        for epoch in cold
    ]
    # A process killed in its first epoch has no line for it: its start-up still counts.
    tracing += [0.0] * (len(started) - len(tracing))
    return [line.startup_seconds + traced for line, traced in zip(started, tracing, strict=False)]


def _work_seconds(record: RunRecord) -> float | None:
    """Returns seconds of training at steady speed, validation and checkpoints."""
    epochs, rate = record.epochs(), record.samples_per_second()
    if not epochs or rate is None:
        return None
    return sum(
        min(e.train_seconds, e.samples / (e.samples_per_second or rate))
        + e.validation_seconds
        + e.checkpoint_seconds
        for e in epochs
    )


def _checkpoint_too_often(
    record: RunRecord, rate: _Rate | None, row: PriceRow | None, nodes: int
) -> Recommendation | None:
    one, steady = _checkpoint_seconds(record), record.steady_epoch_seconds()
    trained = sum(epoch.train_seconds for epoch in record.epochs())
    saving = sum(epoch.checkpoint_seconds for epoch in record.epochs())
    if one is None or steady is None or not trained:
        return None
    if saving < CHECKPOINT_SHARE * (trained + saving):
        return None
    preemption = Preemption(restart_seconds=0.0, checkpoint_seconds=one)
    if row and row.market == "spot":  # the traces are of spot nodes
        preemption = preemption.of_node(row)
    best = checkpoint_interval(preemption, nodes)
    best = min(best, trained)  # of a short run: one
    saved = steady * (saving / trained - one / best)
    if saved <= 0:
        return None
    return Recommendation(
        title="checkpoints are too frequent",
        evidence=f"checkpoints took {saving / (trained + saving):.0%} of the time, {one:.3g} s each; at"
        f" {preemption.rate:.2g} preemptions per node and hour, every {best:.0f} s is optimal",
        action=f"checkpoint.every_seconds: {best:.0f} in run.yaml",
        **_saves(record, rate, saved),
    )


def _checkpoint_seconds(record: RunRecord) -> float | None:
    seconds = [line.seconds for line in record.once() if isinstance(line, Checkpointed)]
    return statistics.median(seconds) if seconds else None


def _spot(
    record: RunRecord,
    rate: _Rate | None,
    row: PriceRow | None,
    spot: PriceRow | None,
    nodes: int,
) -> Recommendation | None:
    starts, one, work = _startup_seconds(record), _checkpoint_seconds(record), _work_seconds(record)
    if row is None or spot is None or spot.market != "spot":
        return None
    if spot.row_id != row.in_other_market.row_id:  # another node, or spot itself
        return None
    if starts is None or one is None or not work or rate is None:
        return None
    restart = NEW_NODE_SECONDS + statistics.median(starts)
    given = Preemption(None, restart, one)
    preemption = given.of_node(spot)
    ratio = spot.usd_per_hour / row.usd_per_hour
    expected = expected_seconds(work, preemption, nodes)
    share = 1 - ratio * expected / work
    saved = rate.nodes * work * share - rate.beside * (expected - work)
    if share < SPOT_SAVING or saved <= 0:
        return None
    most = break_even(work, ratio, preemption, nodes)
    per_node = "a node" if nodes > 1 else "the node"
    return Recommendation(
        title="spot nodes would cost less",
        evidence=f"{spot.usd_per_hour:.4g} instead of {row.usd_per_hour:.4g} USD per hour costs"
        f" {share:.0%} less, repeated work included, if {per_node} is preempted"
        f" {preemption.rate:.2g} times an hour ({given.basis(spot)}); break-even at {most:.2g}",
        saves_usd=saved,
        action="nodes of `cloudgan offers --market=spot`",
    )


class _Throughput(NamedTuple):
    batch_per_replica: int
    showers_per_second: float
    machine: tuple[object, ...]


def batch_recommendation(
    record: RunRecord,
    others: Iterable[RunRecord],
    items: Sequence[LineItem] = (),
    up_seconds: float | None = None,
) -> Recommendation | None:
    """Returns the gain of the fastest larger batch among other runs; None if unknown or small.

    Args:
        others: Runs of the same network, which a record does not name; runs on other machines, with
            other replicas or precision are ignored.
    """
    own, steady = _throughput(record), record.steady_epoch_seconds()
    if own is None or steady is None:
        return None
    found = [one for one in map(_throughput, others) if one and one.machine == own.machine]
    larger = [one for one in found if one.batch_per_replica > own.batch_per_replica]
    best = max(larger, key=lambda one: one.showers_per_second, default=own)
    if best.showers_per_second < (1 + BATCH_GAIN) * own.showers_per_second:
        return None
    saved = steady * (1 - own.showers_per_second / best.showers_per_second)
    return Recommendation(
        title="the batch per replica is small",
        evidence=f"{own.showers_per_second:.4g} showers per second with {own.batch_per_replica} per"
        f" replica, {best.showers_per_second:.4g} with {best.batch_per_replica} in another run on"
        " the same machine; a larger batch changes convergence",
        action=f"--batch={best.batch_per_replica}, with --scale-lr=linear or sqrt",
        **_saves(record, _rate_of(items, up_seconds), saved),
    )


def _throughput(record: RunRecord) -> _Throughput | None:
    started, rate = record.started(), record.samples_per_second()
    if started is None or rate is None:
        return None
    used = started.numerics
    machine = (used.device, used.processor, used.replicas, used.workers, used.precision)
    return _Throughput(used.global_batch_size // used.replicas, rate, machine)
