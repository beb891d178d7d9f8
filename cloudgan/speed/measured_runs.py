"""Measured runs of a network: the paper's, and a user's own from its record."""

from __future__ import annotations

import statistics
from typing import NamedTuple, Protocol

from cloudgan.schema.record import RunRecord
from cloudgan.speed.accelerator_specs import load_accelerator_specs, name_of_device
from cloudgan.speed.paper_runs import fed_runs, paper_runs

PAPER_NETWORK = "paper"
PAPER_SHOWERS = 124_987
CORES_PER_CHIP = {"TPU-v2": 2, "TPU-v3": 2}
"""Replicas per chip; other accelerators have one."""


class Accelerators(Protocol):
    """A node type with a number of accelerators; price rows implement it."""

    @property
    def accelerator(self) -> str:
        """Name in the price list."""

    @property
    def accelerator_count(self) -> int:
        """Number in a node."""


def replicas(node: Accelerators, nodes: int) -> int:
    """Returns the number of replicas on `nodes` nodes."""
    return nodes * max(1, node.accelerator_count) * CORES_PER_CHIP.get(node.accelerator, 1)


class MeasuredThroughput(NamedTuple):
    """A run on known accelerators; times in seconds.

    Attributes:
        accelerator: Name in the price catalog.
        accelerators: GPUs, or TPU chips.
        showers: Per epoch, with those that a last batch drops, as in the paper.
        epoch_seconds: Steady epoch, training only.
        between_seconds: Validation, checkpoints and gaps per epoch.
        first_more_seconds: Extra training time of the first epoch.
        name: Display name of the run.
        batch: Showers per replica and step.
        steps: Per epoch.
    """

    accelerator: str
    accelerators: int
    showers: int
    epoch_seconds: float
    between_seconds: float
    first_more_seconds: float
    name: str
    batch: int
    steps: float

    @property
    def step_seconds(self) -> float:
        """Time of a steady step."""
        return self.epoch_seconds / self.steps


def paper_measurements() -> tuple[MeasuredThroughput, ...]:
    """Returns every run of the paper that did not wait for its input: on V100, TPU v2 and TPU v3."""
    return tuple(
        MeasuredThroughput(
            run.accelerator,
            run.accelerators,
            PAPER_SHOWERS,
            run.steady_epoch_seconds,
            run.wall_epoch_seconds - run.steady_epoch_seconds,
            run.first_epoch_seconds - run.steady_epoch_seconds,
            f"paper's run on {run.accelerators} x {run.accelerator}, {run.date}",
            run.batch_per_replica,
            run.steps_per_epoch,
        )
        for run in fed_runs(paper_runs())
    )


_WHOLE_EPOCHS = 60
"""The paper trained for so many epochs or more; its shorter runs measured the speed."""


def trained_batches() -> dict[int, str]:
    """Returns the paper's whole trainings in words, by global batch."""
    return {
        run.batch_per_replica * run.replicas: f"{run.epochs} epochs on {run.accelerators} x"
        f" {run.accelerator}"
        for run in paper_runs()
        if run.epochs >= _WHOLE_EPOCHS
    }


def learning_evidence(network: str, global_batch: int) -> str:
    """Returns what is known of the physics after training with a global batch.

    The paper's logs (`speed/paper_runs.csv`) show with which global batches it trained to the end. Its
    abstract (doi 10.1051/epjconf/202125102073) reports linear speed-up "while retaining most of the
    performance in terms of physics results", without figures by batch.
    """
    if network != PAPER_NETWORK:
        return "nothing is known here of the physics after training with this global batch"
    known = trained_batches()
    if global_batch in known:
        text = f"the paper trained {known[global_batch]} with this global batch"
    else:
        runs = " and ".join(f"{batch} ({run})" for batch, run in sorted(known.items()))
        text = f"no whole training with this global batch is known, the paper's had {runs}"
    return f"{text}; its abstract reports most of the physics performance, without figures by batch"


def runs_of_network(
    name: str, record: RunRecord, network: str | None
) -> tuple[tuple[MeasuredThroughput, ...], str]:
    """Returns the measured runs of a run's network, and why the run itself is not one of them.

    Args:
        name: Name of the run.
        record: Its record.
        network: For example ``paper``, the network of the paper's runs; None: unknown.
    """
    own = measured_run(name, record)
    paper = paper_measurements() if network == PAPER_NETWORK else ()
    return (paper, own) if isinstance(own, str) else ((own, *paper), "")


def measured_run(name: str, record: RunRecord) -> MeasuredThroughput | str:
    """Returns a record as a measurement, or the reason why it cannot be used."""
    started, epochs = record.started(), record.epochs()
    steady = record.steady_epoch_seconds()
    if started is None or steady is None:
        return f"{name} has no complete epoch after the first"
    accelerator = name_of_device(started.numerics.device, load_accelerator_specs())
    if accelerator is None:
        return f"{name} ran on {started.hardware.describe()}, which no cloud offers"
    count = started.numerics.replicas
    cores = CORES_PER_CHIP.get(accelerator, 1)
    steady_epochs = [epoch for epoch in epochs if epoch.complete and not epoch.first]
    first = record.first_epoch_seconds()
    return MeasuredThroughput(
        accelerator,
        max(1, count // cores),
        started.training_showers,
        steady,
        statistics.median(e.validation_seconds + e.checkpoint_seconds for e in steady_epochs),
        max(0.0, (first or steady) - steady),
        f"{name} on {count // cores or 1} x {accelerator}",
        started.numerics.global_batch_size // count,
        started.training_showers / started.numerics.global_batch_size,
    )
