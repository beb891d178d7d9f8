"""Runs as measurements: the paper's, and those a user has the records of."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from cloudgan.cost.elsewhere import Measured
from cloudgan.cost.paper import headline_runs, paper_runs
from cloudgan.cost.peaks import load_peaks, name_of_device

if TYPE_CHECKING:
    from cloudgan.core.record import RunRecord

PAPER_NETWORK = "paper"
PAPER_SHOWERS = 124_987
PAPER_BATCH = 96
"""Per V100, of the runs that count here; a core of a TPU had 128."""
CORES_PER_CHIP = {"TPU-v2": 2, "TPU-v3": 2}
"""A replica is a core there; elsewhere a chip, or a GPU."""


def paper_measurements() -> tuple[Measured, ...]:
    """Returns the paper's fastest fed run on each number of V100, TPU v2 and TPU v3.

    Of V100 those with 96 showers per replica, since the batch changes the speed.
    """
    runs = [run for run in paper_runs() if run.batch_per_replica in (PAPER_BATCH, 128)]
    return tuple(
        Measured(
            run.accelerator,
            run.accelerators,
            PAPER_SHOWERS,
            run.steady_epoch_seconds,
            run.wall_epoch_seconds - run.steady_epoch_seconds,
            run.first_epoch_seconds - run.steady_epoch_seconds,
            f"paper's run on {run.accelerators} x {run.accelerator}, {run.date}",
        )
        for run in headline_runs(runs)
    )


def runs_of_network(
    name: str, record: RunRecord, network: str | None
) -> tuple[tuple[Measured, ...], str]:
    """Returns the measured runs of a run's own network, and why it is none of them itself.

    Args:
        name: Of the run.
        record: Its record.
        network: Such as ``paper``, which the paper's own runs are of; None: not known.
    """
    own = measured_run(name, record)
    paper = paper_measurements() if network == PAPER_NETWORK else ()
    return (paper, own) if isinstance(own, str) else ((own, *paper), "")


def measured_run(name: str, record: RunRecord) -> Measured | str:
    """Returns a record as a measurement, or why it is none, in words."""
    started, epochs = record.started(), record.epochs()
    steady = record.steady_epoch_seconds()
    if started is None or steady is None:
        return f"{name} has no complete epoch after the first"
    accelerator = name_of_device(started.numerics.device, load_peaks())
    if accelerator is None:
        return f"{name} ran on {started.hardware.describe()}, which no cloud's offer names"
    count = started.numerics.replicas
    cores = CORES_PER_CHIP.get(accelerator, 1)
    steady_epochs = [epoch for epoch in epochs if epoch.complete and not epoch.first]
    first = record.first_epoch_seconds()
    return Measured(
        accelerator,
        max(1, count // cores),
        started.training_showers,
        steady,
        statistics.median(e.validation_seconds + e.checkpoint_seconds for e in steady_epochs),
        max(0.0, (first or steady) - steady),
        f"{name} on {count // cores or 1} x {accelerator}",
    )
