"""What a run's own record says about saving money. Where the record does not know, no hint."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.hint import Hint
from cloudgan.core.record import Checkpointed, Started
from cloudgan.cost.estimate import usd
from cloudgan.cost.spot import (
    NODE_TAKEN_PER_HOUR,
    Preemption,
    break_even,
    checkpoint_interval,
    expected_seconds,
)

if TYPE_CHECKING:
    from cloudgan.core.fee_row import FeeRow
    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.record import Epoch, RunRecord

READER_BUSY = 0.9
"""Readers that fill their queue in time rest; a tenth of rest is what uneven batches need."""
BEGIN_SHARE = 0.2
"""Of the time: starting and tracing are paid for like training, and above this they show."""
CHECKPOINT_SHARE = 0.05
"""Of the time: the best interval costs 1 % where one takes 10 s and a node is lost once a day."""
SPOT_SAVING = 0.1
"""Of the price: less does not pay for a run that may take longer than it should."""
NEW_NODE_SECONDS = Preemption().restart_seconds
"""Assumed until a lost node is replaced; the run's own start-up and tracing come on top."""


class Traffic(NamedTuple):
    """Where the showers lie and where the nodes are; None is unknown.

    Attributes:
        data_region: Of the bucket.
        node_region: Of the nodes.
        gib: Size of the showers, read once.
        fee: What the bucket's cloud charges per GiB that leaves the region.
    """

    data_region: str | None
    node_region: str | None
    gib: float | None = None
    fee: FeeRow | None = None


class _Run(NamedTuple):
    """A record, what its node costs, and on how many it ran."""

    record: RunRecord
    epochs: tuple[Epoch, ...]
    row: PriceRow | None
    nodes: int

    def hint(self, title: str, figure: str, flag: str, saved_per_epoch: float | None) -> Hint:
        """Returns a hint that saves so many seconds of each epoch; None: that is unknown."""
        known = None not in (self.row, saved_per_epoch)
        saved = (saved_per_epoch or 0.0) * len({epoch.epoch for epoch in self.epochs})
        return Hint(
            title=title,
            figure=figure,
            saves_seconds_per_epoch=saved_per_epoch,
            saves_usd=usd(saved, self.row, self.nodes) if self.row and known else None,
            flag=flag,
        )


def hints(
    record: RunRecord,
    *,
    row: PriceRow | None,
    other_market: PriceRow | None = None,
    nodes: int = 1,
    lost_per_node_hour: float = NODE_TAKEN_PER_HOUR,
    traffic: Traffic | None = None,
) -> tuple[Hint, ...]:
    """Returns what would save money, by the run's own record.

    Args:
        record: The run's.
        row: The node it ran on or is priced as; without it no hint names USD.
        other_market: The spot row of the same node and region.
        nodes: How many it ran on.
        lost_per_node_hour: How often a cloud takes a spot node back; assumed, not measured.
        traffic: Where showers and nodes are.
    """
    run = _Run(record, record.epochs(), row, nodes)
    found = (
        _input_bound(run),
        _begin_dominates(run),
        _checkpoint_too_often(run, lost_per_node_hour),
        _spot(run, other_market, lost_per_node_hour),
        _egress(traffic),
    )
    return tuple(hint for hint in found if hint)


def _input_bound(run: _Run) -> Hint | None:
    """How much faster it would train with all showers at hand nobody measured."""
    busy = [e.reader_busy for e in run.epochs if not e.first and e.reader_busy is not None]
    if not busy or statistics.median(busy) < READER_BUSY:
        return None
    return run.hint(
        "the training waits for its showers",
        f"the readers were busy {statistics.median(busy):.0%} of the time: their queue never filled",
        "data.cache: memory in run.yaml, or `cloudgan convert` to shards on a faster disk",
        None,
    )


def _begin_dominates(run: _Run) -> Hint | None:
    begins = _begin_seconds(run)
    epochs = len({epoch.epoch for epoch in run.epochs})
    work = _work_seconds(run)
    if begins is None or not epochs or not work:
        return None
    total, processes = sum(begins), len(begins)
    if total < BEGIN_SHARE * (total + work):
        return None
    share = total / (total + work)
    figure = f"starting and tracing took {total:.0f} s, {share:.0%} of the run"
    if processes == 1:
        enough = _epochs_until(BEGIN_SHARE, total, work / epochs)
        return run.hint(
            "the first epoch dominates",
            f"{figure}; from {enough} epochs on it is less than {BEGIN_SHARE:.0%}",
            f"--epochs={enough}, or fewer and longer runs",
            None,
        )
    return run.hint(
        "starting again dominates",
        f"{figure}; the process started {processes} times",
        "fewer stops: a larger --max_seconds or --max_steps, or nodes on demand",
        (total - statistics.median(begins)) / epochs,
    )


def _begin_seconds(run: _Run) -> list[float] | None:
    """Seconds of each process before it trained at its later speed; None where one is unknown."""
    started = [line for line in run.record.once() if isinstance(line, Started)]
    cold = [epoch for epoch in run.epochs if epoch.first]
    rate = run.record.samples_per_second()
    if not started or not cold or rate is None:
        return None
    tracing = [
        max(0.0, epoch.train_seconds - epoch.samples / (epoch.samples_per_second or rate))
        for epoch in cold
    ]
    # A process that was killed inside its first epoch has no line of it: at least its start counts.
    tracing += [0.0] * (len(started) - len(tracing))
    return [line.startup_seconds + traced for line, traced in zip(started, tracing, strict=False)]


def _work_seconds(run: _Run) -> float | None:
    """Training at its later speed, with validation and checkpoints, of the epochs that count."""
    rate = run.record.samples_per_second()
    if not run.epochs or rate is None:
        return None
    return sum(
        min(e.train_seconds, e.samples / (e.samples_per_second or rate))
        + e.validation_seconds
        + e.checkpoint_seconds
        for e in run.epochs
    )


def _epochs_until(share: float, begin_seconds: float, epoch_seconds: float) -> int:
    """Returns the fewest epochs with which the begin takes less than `share`."""
    return int(begin_seconds * (1 - share) / share / epoch_seconds) + 1


def _checkpoint_too_often(run: _Run, lost_per_node_hour: float) -> Hint | None:
    one, steady = _checkpoint_seconds(run.record), run.record.steady_epoch_seconds()
    trained = sum(epoch.train_seconds for epoch in run.epochs)
    saving = sum(epoch.checkpoint_seconds for epoch in run.epochs)
    if one is None or steady is None or not trained:
        return None
    if saving < CHECKPOINT_SHARE * (trained + saving):
        return None
    best = checkpoint_interval(Preemption(lost_per_node_hour, 0.0, one), run.nodes)
    best = min(best, trained)  # where no node is lost: one a run
    saved = steady * (saving / trained - one / best)
    if saved <= 0:
        return None
    return run.hint(
        "it saves its state too often",
        f"checkpoints took {saving / (trained + saving):.0%} of the time, {one:.3g} s each; where a"
        f" node is lost {lost_per_node_hour:.2g} times an hour, one every {best:.0f} s loses least",
        f"checkpoint.every_seconds: {best:.0f} in run.yaml",
        saved,
    )


def _checkpoint_seconds(record: RunRecord) -> float | None:
    seconds = [line.seconds for line in record.once() if isinstance(line, Checkpointed)]
    return statistics.median(seconds) if seconds else None


def _spot(run: _Run, spot: PriceRow | None, lost_per_node_hour: float) -> Hint | None:
    begins, one, work = _begin_seconds(run), _checkpoint_seconds(run.record), _work_seconds(run)
    row = run.row
    if row is None or spot is None or not _are_markets_of_one_node(row, spot):
        return None
    if begins is None or one is None or not work:
        return None
    restart = NEW_NODE_SECONDS + statistics.median(begins)
    preemption = Preemption(lost_per_node_hour, restart, one)
    ratio = spot.usd_per_hour / row.usd_per_hour
    share = 1 - ratio * expected_seconds(work, preemption, run.nodes) / work
    if share < SPOT_SAVING:
        return None
    most = break_even(work, ratio, preemption, run.nodes)
    per_node = "a node" if run.nodes > 1 else "the node"
    return Hint(
        title="spot nodes would cost less",
        figure=f"{spot.usd_per_hour:.4g} instead of {row.usd_per_hour:.4g} USD per hour costs"
        f" {share:.0%} less, lost and repeated work included, if {per_node} is lost"
        f" {lost_per_node_hour:.2g} times an hour (assumed); they break even at {most:.2g}",
        saves_usd=share * (usd(work, row, run.nodes) or 0.0),
        flag="nodes of `cloudgan offers --market=spot`",
    )


def _are_markets_of_one_node(row: PriceRow, spot: PriceRow) -> bool:
    place = (row.provider, row.node_type, row.region, row.snapshot)
    other = (spot.provider, spot.node_type, spot.region, spot.snapshot)
    return place == other and (row.market, spot.market) == ("on_demand", "spot")


def _egress(traffic: Traffic | None) -> Hint | None:
    if traffic is None or traffic.data_region is None or traffic.node_region is None:
        return None
    if traffic.data_region == traffic.node_region:
        return None
    saved, fee = None, traffic.fee
    figure = f"the showers lie in {traffic.data_region}, the nodes are in {traffic.node_region}"
    if fee is not None and traffic.gib is not None:
        saved = fee.usd * traffic.gib
        figure += f"; {traffic.gib:.3g} GiB at {fee.usd:.3g} USD leave the region at each reading"
    return Hint(
        title="the showers come from another region",
        figure=figure,
        saves_usd=saved,
        flag=f"nodes of `cloudgan offers --region={traffic.data_region}`, or copy the showers to {traffic.node_region} first",
    )
