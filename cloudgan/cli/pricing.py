"""What a run cost and would cost: the report that `cost`, `compare` and `demo` show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.cli.pricing_beside import known_launch, with_bill, with_forecast
from cloudgan.cli.pricing_tables import age, cloud_name, demo_section, short_usd
from cloudgan.core import cost_report, record
from cloudgan.core.clock import utc_today
from cloudgan.core.cost_report import OfferThere
from cloudgan.core.errors import DataError
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_price import price_elsewhere
from cloudgan.cost.elsewhere_runs import runs_of_network
from cloudgan.cost.fees import load_fees
from cloudgan.cost.offers import offers_for_demo
from cloudgan.cost.paper import priced_paper_runs
from cloudgan.cost.run_cost import Beside
from cloudgan.cost.run_cost import cost_report as make_report

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.core.cost_report import CostReport, MeasuredRun, PricedOffer
    from cloudgan.core.record import RunRecord
    from cloudgan.cost.catalog import Catalog
    from cloudgan.cost.elsewhere_price import PricedElsewhere
    from cloudgan.reports.page import Section
    from cloudgan.run_folder import RunFolder

EXAMPLE_OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
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
        if self.report.priced_as is None and not self.report.billed:
            return (
                "unknown, because nobody said what this machine costs per hour; price it as a node"
                f" with `cloudgan cost RUN --as={EXAMPLE_OFFER}`"
            )
        how = f", as {self.report.priced_as}" if self.report.priced_as else ""
        return f"{self.report.total()}{how}"

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
                f"  {cloud_name(row.provider):<6}{row.node_type:<28}"
                f"{row.market.replace('_', ' '):<11}{row.usd_per_hour:>8.3f}"
                f"{short_usd(offer.usd_per_epoch):>12}{short_usd(offer.usd_per_run):>10}"
                f"  {age(offer.age_days)}"
            )

    def key_figure(self) -> tuple[str, str, str]:
        """The cheapest offer, for the head of a page."""
        offer = self.cheapest()
        if offer is None:
            return "unknown", "per epoch on a rented node", "no complete epoch was measured"
        where = f"{cloud_name(offer.row.provider)} {offer.row.node_type}"
        return (
            f"{short_usd(offer.usd_per_epoch)} USD",
            "per epoch at most, if rented",
            f"{where}, {offer.row.market.replace('_', ' ')}",
        )

    def section(self) -> Section:
        """Tables for the page of a demo."""
        return demo_section(self.report, self.own_cost())


def priced(folder: RunFolder, *, offer: str | None = None) -> Prices:
    """Prices a run from its record and launch.json, and writes nothing.

    Args:
        folder: Of the run.
        offer: What to price as, where nobody bills the machine: cloud/node/region/market. Attempts
            on rented nodes keep the prices that they were launched by.

    Raises:
        DataError: There is no record, or a file holds something else than it should.
        UnknownNameError: No offer has this name.
    """
    run, catalog, today = record.read(folder.record_file), load_catalog(), utc_today()
    row = catalog.row(offer) if offer else None
    there = _there(folder, run, catalog, today)
    measured = [m for m in priced_paper_runs(catalog) if m.name.startswith(_PAPER_RUNS)]
    known = known_launch(folder)
    report = make_report(
        folder.path.resolve().name,
        run,
        today,
        row=row,
        launch=known,
        fees=load_fees(),
        accepted=_accepted(folder),
        beside=Beside(
            () if there else offers_for_demo(catalog),
            there,
            _best_of_each(measured),
            catalog.find(market="spot"),
        ),
    )
    return Prices(with_forecast(report, folder, run, known))


def price(folder: RunFolder, *, offer: str | None = None, billed: tuple[Path, ...] = ()) -> Prices:
    """Prices a run as `priced` does, and writes cost.json into its folder.

    Args:
        folder: Of the run.
        offer: See `priced`.
        billed: Billing exports of its cloud.
    """
    report = priced(folder, offer=offer).report
    if billed:
        report = with_bill(report, folder, billed)
    cost_report.write(folder.cost_file, report)
    return Prices(report)


def _accepted(folder: RunFolder) -> bool | None:
    """What the verdict was; None where none was asked for."""
    path = folder.verdict_file
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        passed = found.get("verdict", found)["passed"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a verdict of `cloudgan validate` ({error})") from error
    if not isinstance(passed, bool):
        raise DataError(f"{path}: not a verdict of `cloudgan validate`: passed is {passed!r}")
    return passed


def _there(
    folder: RunFolder, run: RunRecord, catalog: Catalog, today: dt.date
) -> tuple[OfferThere, ...]:
    """An epoch on each offer, by measured runs of this network; none where there are none."""
    config, started = folder.read_config(), run.started()
    if started is None:
        return ()
    network = config.model.networks if config else None
    runs, _ = runs_of_network(folder.path.name, run, network)
    if not runs:
        return ()
    known = speeds(network or "of this run", started.training_showers, runs)
    found = price_elsewhere(catalog.find(), known, run.steady_epoch_seconds())
    return tuple(sorted((_offer_there(one, today) for one in found), key=_dearest_last))


def _dearest_last(offer: OfferThere) -> tuple[bool, float]:
    return offer.usd_per_epoch_high is None, offer.usd_per_epoch_high or 0.0


def _offer_there(one: PricedElsewhere, today: dt.date) -> OfferThere:
    epoch = one.epoch
    return OfferThere(
        row=one.row,
        age_days=one.row.age_days(today),
        nodes=one.nodes,
        epoch_seconds=epoch.seconds if epoch else None,
        low_epoch_seconds=epoch.low_seconds if epoch else None,
        high_epoch_seconds=epoch.high_seconds if epoch else None,
        grade=epoch.grade if epoch else None,
        basis=epoch.basis if epoch else None,
        usd_per_epoch=one.usd,
        usd_per_epoch_low=one.usd_low,
        usd_per_epoch_high=one.usd_high,
        why_unknown=one.why_unknown,
    )


def _best_of_each(runs: list[MeasuredRun]) -> tuple[MeasuredRun, ...]:
    """The fastest run on each number of each accelerator."""
    best: dict[tuple[str, int], MeasuredRun] = {}
    for run in sorted(runs, key=lambda run: -run.steady_epoch_seconds):
        best[run.accelerator, run.accelerators] = run
    return tuple(sorted(best.values(), key=lambda run: (run.accelerator, run.accelerators)))
