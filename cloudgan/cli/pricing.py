"""What a run cost and would cost: the report that `cost` and `demo` both show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.core import cost_report, record
from cloudgan.core.clock import utc_today
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.estimate import run_times
from cloudgan.cost.offers import offers_for_demo
from cloudgan.cost.paper import priced_paper_runs
from cloudgan.cost.parts import cost_report as make_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.cost_report import CostReport, MeasuredRun, PricedOffer
    from cloudgan.reports.page import Section, Table
    from cloudgan.run_folder import RunFolder

_CLOUDS = {"aws": "AWS", "azure": "Azure", "gcp": "GCP"}
_BOUND = (
    "No node was rented. Each line is the price of a whole node times the seconds that this machine"
    " took: what an epoch costs there if the node were just as fast. Nothing was measured there, and"
    " a node with an accelerator is faster, so it is a bound and no forecast."
)
_EXAMPLE_OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
_PAPER_RUNS = ("8 x V100 (", "128 x V100 (", "4 x TPU-v2 (", "4 x TPU-v3 (", "16 x TPU-v3 (")


@dataclass(frozen=True)
class Prices:
    """A cost report and how it is shown."""

    report: CostReport

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return self.report.model_dump(mode="json")

    def own_cost(self) -> str:
        """What the run itself cost, in words."""
        if self.report.priced_as is None:
            return (
                "unknown, because nobody said what this machine costs per hour; price it as a node"
                f" with `cloudgan cost RUN --offer={_EXAMPLE_OFFER}`"
            )
        return f"{self.report.total()}, as {self.report.priced_as}"

    def cheapest(self) -> PricedOffer | None:
        """The offer with the least cost per epoch; an unknown one never wins."""
        known = [offer for offer in self.report.elsewhere if offer.usd_per_epoch is not None]
        return min(known, key=lambda offer: offer.usd_per_epoch or 0.0, default=None)

    def lines(self) -> Iterator[str]:
        """For people: the run's own cost, then each offer."""
        yield f"cost of this run: {self.own_cost()}"
        if not self.report.elsewhere:
            return
        yield "if a node were as fast as this machine (a bound: not measured there):"
        yield f"  {'cloud':<6}{'node':<28}{'market':<11}{'USD/h':>8}{'USD/epoch':>12}{'USD/run':>10}  priced"
        for offer in self.report.elsewhere:
            row = offer.row
            yield (
                f"  {_CLOUDS.get(row.provider, row.provider):<6}{row.node_type:<28}"
                f"{row.market.replace('_', ' '):<11}{row.usd_per_hour:>8.3f}"
                f"{_usd(offer.usd_per_epoch):>12}{_usd(offer.usd_per_run):>10}  {_age(offer)}"
            )

    def key_figure(self) -> tuple[str, str, str]:
        """The cheapest offer, for the head of a page."""
        offer = self.cheapest()
        if offer is None:
            return "unknown", "per epoch on a rented node", "no complete epoch was measured"
        where = f"{_CLOUDS.get(offer.row.provider, offer.row.provider)} {offer.row.node_type}"
        return (
            f"{_usd(offer.usd_per_epoch)} USD",
            "per epoch at most, if rented",
            f"{where}, {offer.row.market.replace('_', ' ')}",
        )

    def section(self) -> Section:
        """Tables for a page."""
        from cloudgan.reports.page import Bullets, Paragraph, Section, Table

        sources = list(dict.fromkeys(offer.row.source for offer in self.report.elsewhere))
        heads = (
            "cloud",
            "node",
            "region",
            "market",
            "USD/h",
            "USD/epoch",
            "USD/run",
            "priced [source]",
        )
        offers = Table(
            heads,
            tuple(
                (*_row(offer), f"{_age(offer)} [{sources.index(offer.row.source) + 1}]")
                for offer in self.report.elsewhere
            ),
            "Real offers of three clouds, the cheapest region of each. Prices without a date are as"
            " old as their source.",
            "llllrrrl",
        )
        named = Bullets(tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1)))
        return Section(
            "What an epoch costs",
            (
                Paragraph(f"This run: {self.own_cost()}."),
                Paragraph(_BOUND),
                offers,
                named,
                _measured_table(self.report.measured_runs),
            ),
        )


def price(folder: RunFolder, *, offer: str | None = None) -> Prices:
    """Prices a run from its record, and writes cost.json beside it.

    Args:
        folder: Of the run.
        offer: Row of the catalogue to price it as, such as ``gcp/NODE/REGION/on_demand``.

    Raises:
        DataError: There is no record.
        UnknownNameError: No offer has this name.
    """
    run, catalog = record.read(folder.record_file), load_catalog()
    measured = [m for m in priced_paper_runs(catalog) if m.name.startswith(_PAPER_RUNS)]
    report = make_report(
        folder.path.name,
        run_times(run),
        utc_today(),
        row=catalog.row(offer) if offer else None,
        record=run,
        offers=offers_for_demo(catalog),
        measured_runs=_best_of_each(measured),
    )
    cost_report.write(folder.cost_file, report)
    return Prices(report)


def _measured_table(runs: tuple[MeasuredRun, ...]) -> Table:
    from cloudgan.reports.page import Table

    return Table(
        ("run", "s/epoch", "showers/s", "USD/epoch 2020", "spot 2020", "now", "spot now"),
        tuple(_paper_row(run) for run in runs),
        "Measured: the runs of arXiv:2111.04628, the full 51x51x25 network on 124,987 showers,"
        " at prices of then and now.",
        "lrrrrrr",
    )


def _best_of_each(runs: list[MeasuredRun]) -> list[MeasuredRun]:
    """The fastest run on each number of each accelerator."""
    best: dict[tuple[str, int], MeasuredRun] = {}
    for run in sorted(runs, key=lambda run: -run.steady_epoch_seconds):
        best[run.accelerator, run.accelerators] = run
    return sorted(best.values(), key=lambda run: (run.accelerator, run.accelerators))


def _row(offer: PricedOffer) -> tuple[str, ...]:
    row = offer.row
    return (
        _CLOUDS.get(row.provider, row.provider),
        row.node_type,
        row.region,
        row.market.replace("_", " "),
        f"{row.usd_per_hour:.3f}",
        _usd(offer.usd_per_epoch),
        _usd(offer.usd_per_run),
    )


def _paper_row(run: MeasuredRun) -> tuple[str, ...]:
    prices = run.usd_per_epoch
    keys = ("on_demand_2021", "preemptible_2021", "on_demand", "spot")
    return (
        f"{run.accelerators} x {run.accelerator}",
        f"{run.steady_epoch_seconds:.1f}",
        f"{run.showers_per_second:.0f}",
        *(_usd(prices.get(key)) for key in keys),
    )


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _age(offer: PricedOffer) -> str:
    return "undated" if offer.age_days is None else f"{offer.age_days} days ago"
