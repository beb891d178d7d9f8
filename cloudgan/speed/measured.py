"""Measured runs (the paper's, and a user's own from its record), and the data sheets of accelerators."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.table import read_keyed, read_table
from cloudgan.schema.price_row import Positive, Text
from cloudgan.schema.record import RunRecord

PAPER_NETWORK = "paper"
PAPER_SHOWERS = 124_987
PAPER_BATCH = 96
"""Per V100 in the paper's main runs; a TPU core had 128."""
CORES_PER_CHIP = {"TPU-v2": 2, "TPU-v3": 2}
"""Replicas per chip; other accelerators have one."""
_NO_PREFETCH = "no-prefetch"  # input-bound
_WHOLE_EPOCHS = 60
"""The paper trained for so many epochs or more; its shorter runs measured the speed."""


class Accelerators(Protocol):
    """A node type with a number of accelerators: a price row, or the nodes of a plan."""

    @property
    def accelerator(self) -> str:
        """Name in the price list."""

    @property
    def accelerator_count(self) -> int:
        """Number in a node."""


def replicas(node: Accelerators, nodes: int) -> int:
    """Returns the number of replicas on `nodes` nodes."""
    return nodes * max(1, node.accelerator_count) * CORES_PER_CHIP.get(node.accelerator, 1)


class AcceleratorSpec(Document):
    """A row of `accelerator_specs.csv`: one GPU, or one TPU chip."""

    accelerator: Text
    float32_tflops: Positive = Field(description="as TensorFlow computes float32 by default")
    memory_gb_per_second: Positive
    source: Text
    date: Text
    checked: Literal["yes", "no"]
    note: str = ""


@functools.cache
def load_accelerator_specs() -> Mapping[str, AcceleratorSpec]:
    """Reads the specs by accelerator."""
    place = resources.files("cloudgan.speed") / "accelerator_specs.csv"
    return read_keyed(place, AcceleratorSpec, lambda spec: spec.accelerator)


def data_sheets(accelerator: str) -> dict[str, AcceleratorSpec]:
    """Returns the data sheets that a name may mean: a partition of Slurm says a100 for both sizes of memory."""
    known = load_accelerator_specs()
    if accelerator in known:
        return {accelerator: known[accelerator]}
    start = f"{accelerator.lower()}-"
    return {name: spec for name, spec in known.items() if name.lower().startswith(start)}


def speed_bounds(measured: AcceleratorSpec, *others: AcceleratorSpec) -> tuple[float, float]:
    """Returns lower and upper bound of the speed-up from the measured to each of the other accelerators.

    A program bound partly by arithmetic and partly by memory gains between the two ratios (roofline
    model: Williams, Waterman, Patterson, doi 10.1145/1498765.1498785). Other limits, such as small
    batches or slow input, are not in the bounds.
    """
    ratios = [other.float32_tflops / measured.float32_tflops for other in others]
    ratios += [one.memory_gb_per_second / measured.memory_gb_per_second for one in others]
    return min(ratios), max(ratios)


def name_of_device(device: str, known: Iterable[str]) -> str | None:
    """Returns the `known` accelerator of a driver's device name, such as ``Tesla V100-SXM2-16GB``.

    It is the longest name all of whose words are in the device name; None without one, and for a
    part of a GPU (MIG).
    """
    words = _words(device)
    fitting = [name for name in known if _words(name) <= words]
    return None if "mig" in words else max(fitting, key=len, default=None)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.casefold()))


class PaperRun(Document):
    """A row of `paper_runs.csv`: one run of the paper on Google Cloud; times in seconds."""

    date: Text
    accelerator: Text
    accelerators: int = Field(gt=0, description="GPUs, or TPU chips")
    nodes: int = Field(gt=0, description="machines, or one TPU slice")
    node_type: Text
    replicas: int = Field(gt=0)
    workers: int | None = Field(description="None: TPU, with one worker")
    batch_per_replica: int = Field(gt=0)
    options: Text
    epochs: int = Field(gt=0)
    steps_per_epoch: int = Field(gt=0, exclude=True)
    showers_per_epoch: int = Field(gt=0)
    steady_epoch_seconds: float = Field(gt=0, description="mean of the epochs after the first")
    test_seconds: float = Field(gt=0)
    wall_epoch_seconds: float = Field(gt=0)
    first_epoch_seconds: float = Field(gt=0)

    @property
    def step_seconds(self) -> float:
        """Time of a steady step."""
        return self.steady_epoch_seconds / self.steps_per_epoch

    @property
    def is_fed(self) -> bool:
        """Whether it did not wait for its input."""
        return self.options != _NO_PREFETCH

    @property
    def title(self) -> str:
        """For example ``8 x V100 (2 x n1-standard-32+4xV100), batch 96, prefetch, 5 epochs``."""
        what = f"{self.accelerators} x {self.accelerator}"
        workers = f", {self.workers} workers" if self.workers not in (None, self.nodes) else ""
        return (
            f"{what} ({self.nodes} x {self.node_type}{workers}), batch {self.batch_per_replica},"
            f" {self.options}, {self.epochs} epochs, {self.date}"
        )


@functools.cache
def paper_runs() -> tuple[PaperRun, ...]:
    """Reads the paper's runs, in the order of the file."""
    place = resources.files("cloudgan.speed") / "paper_runs.csv"
    return tuple(run for _, run in read_table(place, PaperRun))


class MeasuredThroughput(NamedTuple):
    """A run on known accelerators; times in seconds.

    Attributes:
        accelerators: GPUs, or TPU chips.
        showers: Per epoch, with those that a last batch drops, as in the paper.
        epoch_seconds: Steady epoch, training only.
        between_seconds: Validation, checkpoints and gaps per epoch.
        first_more_seconds: Extra training time of the first epoch.
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
    """Returns the paper's runs that did not wait for their input, by accelerator, size, batch and time."""
    fed = sorted(
        (run for run in paper_runs() if run.is_fed),
        key=lambda run: (
            *(run.accelerator, run.accelerators),
            *(-run.batch_per_replica, run.steady_epoch_seconds),
        ),
    )
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
        for run in fed
    )


def measured_run(name: str, record: RunRecord) -> MeasuredThroughput | str:
    """Returns a record as a measurement, or the reason why it cannot be used."""
    started, steady = record.started(), record.steady_epoch_seconds()
    if started is None or steady is None:
        return f"{name} has no complete epoch after the first"
    accelerator = name_of_device(started.numerics.device, load_accelerator_specs())
    if accelerator is None:
        return f"{name} ran on {started.hardware.describe()}, which no cloud offers"
    count = started.numerics.replicas
    chips = max(1, count // CORES_PER_CHIP.get(accelerator, 1))
    steady_epochs = [one for one in record.epochs() if one.complete and not one.first]
    return MeasuredThroughput(
        accelerator,
        chips,
        started.training_showers,
        steady,
        statistics.median(e.validation_seconds + e.checkpoint_seconds for e in steady_epochs),
        max(0.0, (record.first_epoch_seconds() or steady) - steady),
        f"{name} on {chips} x {accelerator}",
        started.numerics.global_batch_size // count,
        started.training_showers / started.numerics.global_batch_size,
    )


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
