"""The paper's runs at prices of 2020/21 and of today."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cloudgan.money.catalog import Catalog
from cloudgan.schema.cost_report import PublishedRun
from cloudgan.schema.price_row import Market, PriceRow, Snapshot
from cloudgan.speed.measured import PaperRun, paper_runs

SOURCE = "run logs behind arXiv:2111.04628 (doi 10.1051/epjconf/202125102073), December 2020"
BASIS = (
    "recomputed from the published run times: steady epoch x whole nodes of 8 cores per GPU,"
    " us-central1 if offered there, TPU without a user's VM"
)
_HOME = "us-central1"


class _Price(NamedTuple):
    snapshot: Snapshot
    market: Market


PRICES = {
    "on_demand_2021": _Price("2021", "on_demand"),
    "preemptible_2021": _Price("2021", "spot"),
    "on_demand": _Price("current", "on_demand"),
    "spot": _Price("current", "spot"),
}


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
