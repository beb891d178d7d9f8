"""Whether a larger batch per replica was faster: several records say it, one alone does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.hint import Hint
from cloudgan.cost.estimate import usd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.record import RunRecord

BATCH_GAIN = 0.1
"""Of the showers per second: runs of one machine differ by a few per cent among themselves."""


class _Speed(NamedTuple):
    batch_per_replica: int
    showers_per_second: float
    machine: tuple[object, ...]


def batch_hint(
    record: RunRecord, others: Iterable[RunRecord], *, row: PriceRow | None = None, nodes: int = 1
) -> Hint | None:
    """Returns by how much the fastest larger batch of other runs would be faster; None: not known.

    Args:
        record: The run's.
        others: Of the same network, which a record does not name; those on other machines, with
            other numbers of replicas or another precision are left out.
        row: The node it ran on or is priced as.
        nodes: How many it ran on.
    """
    own, steady = _speed(record), record.steady_epoch_seconds()
    if own is None or steady is None:
        return None
    found = [speed for speed in map(_speed, others) if speed and speed.machine == own.machine]
    larger = [speed for speed in found if speed.batch_per_replica > own.batch_per_replica]
    best = max(larger, key=lambda speed: speed.showers_per_second, default=own)
    if best.showers_per_second < (1 + BATCH_GAIN) * own.showers_per_second:
        return None
    saved = steady * (1 - own.showers_per_second / best.showers_per_second)
    epochs = len({epoch.epoch for epoch in record.epochs()})
    return Hint(
        title="the batch of a replica is small",
        figure=f"{own.showers_per_second:.4g} showers per second with {own.batch_per_replica} per"
        f" replica, {best.showers_per_second:.4g} with {best.batch_per_replica} in another run on"
        " the same machine; a larger batch also learns otherwise",
        saves_seconds_per_epoch=saved,
        saves_usd=usd(saved * epochs, row, nodes) if row else None,
        flag=f"--batch={best.batch_per_replica}, with --scale_lr=linear or sqrt",
    )


def _speed(record: RunRecord) -> _Speed | None:
    started, rate = record.started(), record.samples_per_second()
    if started is None or rate is None:
        return None
    used = started.numerics
    machine = (used.device, used.processor, used.replicas, used.workers, used.precision)
    return _Speed(used.global_batch_size // used.replicas, rate, machine)
