"""The paper's runs at prices of 2020/21 and of today."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.cost.prices.table import read_table
from cloudgan.schema.cost_report import PublishedRun
from cloudgan.schema.price_row import Market, PriceRow, Snapshot, Text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cloudgan.cost.prices.catalog import Catalog

SOURCE = "run logs behind arXiv:2111.04628 (doi 10.1051/epjconf/202125102073), December 2020"
BASIS = (
    "recomputed from the published run times: steady epoch x whole nodes of 8 cores per GPU,"
    " us-central1 if offered there, TPU without a user's VM"
)
_HOME = "us-central1"
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


class _Price(NamedTuple):
    snapshot: Snapshot
    market: Market


PRICES = {
    "on_demand_2021": _Price("2021", "on_demand"),
    "preemptible_2021": _Price("2021", "spot"),
    "on_demand": _Price("current", "on_demand"),
    "spot": _Price("current", "spot"),
}


@functools.cache
def paper_runs(path: Path | None = None) -> tuple[PaperRun, ...]:
    """Reads the paper's runs, in the order of the file.

    Raises:
        DataError: A row is invalid; the message names file and line.
    """
    place = path or resources.files("cloudgan.cost") / "paper" / "gcp.csv"
    return tuple(run for _, run in read_table(place, PaperRun))


def headline_runs(runs: Iterable[PaperRun]) -> tuple[PaperRun, ...]:
    """Returns the fastest run with prefetching for each accelerator and number of accelerators."""
    fastest: dict[tuple[str, int], PaperRun] = {}
    for run in runs:
        size = (run.accelerator, run.accelerators)
        if run.options != _NO_PREFETCH and (
            size not in fastest or run.steady_epoch_seconds < fastest[size].steady_epoch_seconds
        ):
            fastest[size] = run
    return tuple(fastest[size] for size in sorted(fastest))


def priced_paper_runs(
    catalog: Catalog, runs: Iterable[PaperRun] | None = None
) -> tuple[PublishedRun, ...]:
    """Prices an epoch of the paper's runs (default: all), at 2020/21 and at current prices."""
    chosen = paper_runs() if runs is None else runs
    return tuple(priced_paper_run(run, catalog) for run in chosen)


def priced_paper_run(run: PaperRun, catalog: Catalog) -> PublishedRun:
    """Prices a steady epoch of one run; a price that is not in the catalog is unknown."""
    rows = {name: _row(run, price, catalog) for name, price in PRICES.items()}
    return PublishedRun(
        name=run.name,
        accelerator=run.accelerator,
        accelerators=run.accelerators,
        nodes=run.nodes,
        steady_epoch_seconds=run.steady_epoch_seconds,
        showers_per_second=run.showers_per_epoch / run.steady_epoch_seconds,
        usd_per_epoch={
            name: row.cost_usd(run.steady_epoch_seconds, run.nodes) if row else None
            for name, row in rows.items()
        },
        price_rows={name: row.row_id if row else None for name, row in rows.items()},
        source=SOURCE,
        basis=BASIS,
    )


def _row(run: PaperRun, price: _Price, catalog: Catalog) -> PriceRow | None:
    """Returns the row of us-central1; else the one of highest confidence, then lowest price."""
    of = ("gcp", run.node_type, price.market, price.snapshot)
    rows = [
        row for row in catalog.rows if (row.provider, row.node_type, row.market, row.snapshot) == of
    ]
    ranked = sorted(
        rows, key=lambda row: (row.region != _HOME, row.confidence, row.usd_per_hour, row.row_id)
    )
    return ranked[0] if ranked else None
