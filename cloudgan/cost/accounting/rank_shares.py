"""What masters and workers cost: the node time of the epochs, divided by what the ranks did in it.

Each rank of the world has an equal share of the node seconds: which rank was on which node is not
recorded. A worker's share is divided by its own clock, which the record has per epoch and rank.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from cloudgan.cost.accounting.processes import FIRST, STEADY
from cloudgan.schema.cost_report import LineItem, Share
from cloudgan.schema.exchange_line import Exchanged
from cloudgan.schema.record import Epoch, Process, RunRecord

MASTERS = "masters"
TRAIN, EXCHANGE, WAIT = "workers: train", "workers: exchange", "workers: wait"
SAVE, OTHER = "workers: save", "workers: other"
OUTSIDE = "outside of the epochs"
FEES = "fees besides nodes"
_Seconds = defaultdict[str, float]
_PARTS = (MASTERS, TRAIN, EXCHANGE, WAIT, SAVE, OTHER)


def rank_shares(
    record: RunRecord, line_items: Sequence[LineItem], *, group: int
) -> tuple[Share, ...]:
    """Returns parts that add up to the line items of known cost; empty for a run without ranks.

    Args:
        record: Of the run.
        line_items: Of its cost.
        group: Ranks of a worker; the record has a line for the leader of each.
    """
    weights: dict[str, _Seconds] = {FIRST: _Seconds(float), STEADY: _Seconds(float)}
    kept = {id(epoch) for epoch in record.epochs()}
    for process in record.processes():
        epochs = [each.epoch for each in process.epochs if id(each.epoch) in kept]
        for epoch in epochs:
            _add_rank_seconds(weights[FIRST if epoch.first else STEADY], process, epoch, group)
    if not any(weights.values()):
        return ()
    usd, seconds = _Seconds(float), _Seconds(float)
    for item in line_items:
        time = node_seconds(item)
        for name, share in _parts_of(item, time, weights).items():
            usd[name] += share * (item.usd or 0.0)
            seconds[name] += share * (time or 0.0)
    is_priced = any(item.usd is not None for item in line_items)
    return tuple(
        Share(
            name=name,
            node_seconds=None if name == FEES else seconds[name],
            usd=usd[name] if is_priced else None,
        )
        for name in (*_PARTS, OUTSIDE, FEES)
        if usd[name] or seconds[name]
    )


def node_seconds(item: LineItem) -> float | None:
    """Returns the node seconds of an item, or the seconds of one machine without a price."""
    is_of_program = item.duration == "program_seconds"
    return item.node_seconds if item.node_seconds or not is_of_program else item.seconds


def _parts_of(item: LineItem, time: float | None, weights: dict[str, _Seconds]) -> dict[str, float]:
    """Returns the share of each part in an item; they add up to 1."""
    for activity, found in weights.items():
        total = math.fsum(found.values())
        if total and (item.name == activity or item.name.startswith(f"{activity} (")):
            return {name: weight / total for name, weight in found.items()}
    return {FEES if time is None else OUTSIDE: 1.0}


def _add_rank_seconds(found: _Seconds, process: Process, epoch: Epoch, group: int) -> None:
    """Adds the seconds of all ranks in an epoch, by what they did."""
    for line in process.lines:
        if not isinstance(line, Exchanged) or line.epoch != epoch.epoch:
            continue
        if line.worker is None:
            found[MASTERS] += epoch.train_seconds
            continue
        parts = {
            TRAIN: _sum(line, ("train",)),
            EXCHANGE: _sum(line, ("gather", "update")),
            WAIT: _sum(line, ("wait",)),
            SAVE: _sum(line, ("save",)),
        }
        # An update that came after the epoch's end counts in the next one.
        spent = math.fsum(parts.values())
        scale = min(1.0, epoch.train_seconds / spent) if spent else 1.0
        parts[OTHER] = epoch.train_seconds - scale * spent
        for name, part in parts.items():
            found[name] += group * part * (1.0 if name == OTHER else scale)


def _sum(line: Exchanged, routines: Iterable[str]) -> float:
    return math.fsum(line.seconds.get(routine, 0.0) for routine in routines)
