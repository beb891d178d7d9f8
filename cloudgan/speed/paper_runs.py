"""The runs of the paper: times on V100, TPU v2 and TPU v3."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Text

_NO_PREFETCH = "no-prefetch"  # input-bound


class PaperRun(Document):
    """One run of the paper on Google Cloud; times in seconds."""

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
    steps_per_epoch: int = Field(gt=0)
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
    def name(self) -> str:
        """For example ``8 x V100 (2 x n1-standard-32+4xV100), batch 96, prefetch, 5 epochs``."""
        what = f"{self.accelerators} x {self.accelerator}"
        workers = f", {self.workers} workers" if self.workers not in (None, self.nodes) else ""
        return (
            f"{what} ({self.nodes} x {self.node_type}{workers}), batch {self.batch_per_replica},"
            f" {self.options}, {self.epochs} epochs, {self.date}"
        )


@functools.cache
def paper_runs(path: Path | None = None) -> tuple[PaperRun, ...]:
    """Reads the paper's runs, in the order of the file.

    Raises:
        DataError: A row is invalid; the message names file and line.
    """
    place = path or resources.files("cloudgan.speed") / "paper_runs.csv"
    return tuple(run for _, run in read_table(place, PaperRun))


def fed_runs(runs: Iterable[PaperRun]) -> tuple[PaperRun, ...]:
    """Returns all repeats that did not wait for their input, by accelerator, size, batch and time."""
    fed = (run for run in runs if run.options != _NO_PREFETCH)
    return tuple(
        sorted(
            fed,
            key=lambda run: (
                run.accelerator,
                run.accelerators,
                -run.batch_per_replica,
                run.steady_epoch_seconds,
            ),
        )
    )
