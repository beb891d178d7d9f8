"""The result of `cost`: the report of a run as a screen, as a page and as the tables of a demo."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from cloudgan.core.clouds import title_of
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import counted
from cloudgan.money.forecast import USD
from cloudgan.reports.charts import COLOURS, Axis, Bar, StackedBars
from cloudgan.reports.page import Block, Bullets, Page, Paragraph, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Table, usd_cell, usd_range, usd_text
from cloudgan.schema.cost_report import CostReport, LineItem, PricedOffer, UnitCost
from cloudgan.schema.price_row import FeeRow

EXAMPLE_OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
_BOUND = (
    "Each row is the price of a whole node times the seconds of this machine: the cost of an epoch if the"
    " node were equally fast. Nothing was measured there; a node with an accelerator is faster, so the"
    " cost is an upper bound, not a forecast."
)
_BY_RUNS = (
    "Estimated from measured runs of this network, or of the paper's, on the number of nodes that keeps"
    " this run's steady epoch, each replica with this run's batch. Where the grade is 'modelled' and"
    " s/epoch is unknown, low and high are bounds from memory bandwidth, arithmetic peak and the work of the"
    " network, not a forecast."
)
_MOST_ITEMS, _SMALL_SHARE = 9, 0.01
_SCREEN_OFFERS, _DEMO_OFFERS = 20, 30
_CENT = 0.01
_USD_HEADS = {
    "USD/epoch 2020": "on_demand_2021",
    "spot 2020": "preemptible_2021",
    "now": "on_demand",
    "spot now": "spot",
}


class RunCost(Result):
    """Cost of a run, by item and on other offers: cost.json."""

    report: CostReport

    def as_json(self) -> dict[str, Any]:
        """Returns the whole report."""
        return self.report.model_dump(mode="json")

    @property
    def today(self) -> dt.date:
        """Day on which the ages of the prices are counted."""
        return dt.date.fromisoformat(self.report.provenance.today)

    @property
    def has_no_price(self) -> bool:
        """Whether the machine has no price per hour, and no attempt was billed."""
        return self.report.priced_as is None and not self.report.billed_attempts

    def view(self) -> View:
        """Returns the total and its largest items; without a price one line with an example."""
        report = self.report
        basis: tuple[str | Table, ...] = (
            *self._item_tables(),
            self.unit_costs_table(),
            *self._prices(),
            *self._comparisons(),
            *self._offers(_SCREEN_OFFERS),
            *self._bill_notes(),
        )
        if self.has_no_price:
            line = f"{report.run}: no price for this machine; {self._example()}"
            billed = tuple(self._billed())
            return View(line, notes=billed, warnings=report.warnings, basis=basis)
        return View(
            line=f"{report.run}: {self._total()}",
            table=self._largest_items(),
            notes=tuple(self._notes()),
            warnings=report.warnings,
            basis=basis,
        )

    def page(self) -> Page:
        """Returns the page of `--report`."""
        report, own = self.report, self.own_cost()
        known = [part for part in report.line_items if part.usd]
        plots = (self._stacked(known),) if any(p.usd is not None for p in report.line_items) else ()
        advice = tuple(each.describe() for each in report.recommendations)
        comparisons, notes = self._comparisons(), tuple(self._bill_notes())
        bill = (Bullets(notes),) if notes else ()
        blocks: dict[str, tuple[Block, ...]] = {
            "Cost items": (*plots, *self._item_tables(), *self._prices()),
            "Per unit of work": (self.unit_costs_table(),),
            "Recommendations": (Bullets(advice),) if advice else (),
            "Forecast, measured, billed": (*comparisons, *bill) if comparisons else (),
            "Cost on other offers": self._offers(),
            "Published runs": (self.published_runs_table(),),
            "Warnings about the record": (Bullets(report.warnings),) if report.warnings else (),
        }
        made = report.provenance
        return Page(
            f"Cost of {report.run}",
            f"{own[:1].upper()}{own[1:]}.",
            tuple(Section(title, its) for title, its in blocks.items() if its),
            f"cloudgan {made.cloudgan}, {made.today}; measured on {made.measured_on}",
        )

    def section(self) -> Section:
        """Returns the tables for the page of a demo."""
        shown: tuple[Block, ...] = self._offers(_DEMO_OFFERS)
        offers = self.report.priced_offers
        if offers:
            sources = list(dict.fromkeys(offer.row.source for offer in offers))
            table = Table.of(
                (
                    _offer_cells(one)
                    | {"priced [source]": f"{_age(one)} [{sources.index(one.row.source) + 1}]"}
                    for one in offers
                ),
                "Offers of each cloud, in its cheapest region. Undated prices are as old as their source.",
                align="llllrrrl",
            )
            named = tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1))
            shown = (Paragraph(_BOUND), table, Bullets(named))
        own = Paragraph(f"This run: {self.own_cost()}.")
        return Section("Cost of an epoch", (own, *shown, self.published_runs_table()))

    def own_cost(self) -> str:
        """Returns the cost of the run itself, in words."""
        if self.has_no_price:
            return (
                "unknown: this machine has no price per hour; price it as a node with"
                f" `cloudgan cost RUN --price-as={EXAMPLE_OFFER}`"
            )
        how = f", as {self.report.priced_as}" if self.report.priced_as else ""
        return f"{self.report.total()}{how}"

    def cheapest(self) -> PricedOffer | None:
        """Returns the offer with the least cost per epoch; unknown costs never rank first."""
        known = [offer for offer in self.report.priced_offers if offer.usd_per_epoch is not None]
        return min(known, key=lambda offer: offer.usd_per_epoch or 0.0, default=None)

    def key_figure(self) -> tuple[str, str, str]:
        """Returns the cheapest offer, for the head of a page."""
        offer = self.cheapest()
        if offer is None:
            return "unknown", "per epoch on a cloud node", "no complete epoch was measured"
        row, usd = offer.row, offer.usd_per_epoch or 0.0
        where = f"{title_of(row.provider)} {row.node_type}, {row.market.replace('_', ' ')}"
        return (
            f"{usd:.2f} USD" if usd >= _CENT else "< 0.01 USD",
            "per epoch at most, on a cloud node",
            f"{where}, priced {_age(offer)}",
        )

    def _example(self) -> str:
        """Such as ``its time costs 0.016 USD as g2-standard-4 on GCP: --price-as=...``."""
        known = [one for one in self.report.priced_offers if one.usd_per_run is not None]
        if not known:
            return f"name one: --price-as={EXAMPLE_OFFER}"
        one = min(known, key=lambda offer: offer.usd_per_run or 0.0)
        where = f"{one.row.node_type.removeprefix('Standard_')} on {title_of(one.row.provider)}"
        usd = usd_text(one.usd_per_run or 0.0)
        return f"its time costs {usd} USD as {where}: --price-as={one.row.offer}"

    def _total(self) -> str:
        totals = self.report.totals
        if self.report.known_usd is None:
            return "unknown"
        usd, count = f"{usd_text(totals.known_usd)} USD", len(totals.unknown)
        return f"at least {usd}, {counted(count, 'unknown item')}" if count else usd

    def _notes(self) -> Iterator[str]:
        """Yields the lines below the items: unit costs, forecast, bill, ages of the prices, advice."""
        report, figures = self.report, self.report.unit_costs
        if report.totals.unknown:
            yield f"unknown: {', '.join(report.totals.unknown)}"
        units = ((figures.per_epoch, "epoch"), (figures.per_million_showers, "million showers"))
        each = [f"{usd_text(one.usd)} USD per {name}" for one, name in units if one.usd is not None]
        if each:
            yield ", ".join(each)
        for one in report.forecast_vs_actual:
            if one.metric == USD and one.low is not None and one.high is not None:
                yield f"forecast {usd_range(one.low, one.high)} USD"
        yield from self._billed()
        ages = [row.age_days(self.today) for row in report.rows]
        if ages:
            known = [days for days in ages if days is not None]
            is_dated = len(known) == len(ages)
            oldest = f"up to {counted(max(known), 'day')} old" if is_dated else "of unknown age"
            yield f"prices {oldest}"
        if report.priced_as:
            yield f"as {report.priced_as.removeprefix('node/').removesuffix('/current')}"
        for advice in report.recommendations:
            yield f"recommendation: {advice.describe()}"

    def _largest_items(self) -> Table:
        """Returns the largest known items, the small ones as one row, at most ten rows in all."""
        known = [(part.usd, part) for part in self.report.line_items if part.usd]
        known.sort(key=lambda one: -one[0])
        least = _SMALL_SHARE * sum(usd for usd, _ in known)
        shown = [one for one in known[:_MOST_ITEMS] if one[0] >= least]
        small = known[len(shown) :]
        if len(small) == 1:
            shown, small = known, []
        rows = [(part.name, _quantity(part), usd_cell(usd)) for usd, part in shown]
        if small:
            rows.append((f"{len(small)} others", "", usd_cell(sum(usd for usd, _ in small))))
        return Table(("item", "time", "USD"), tuple(rows), align="lrr")

    def _item_tables(self) -> tuple[Table, ...]:
        """Returns a row per cost item, with the total, and a row per share by what ranks or cells did."""
        report = self.report
        items = Table.of(
            (
                {
                    "item": part.name,
                    "seconds": part.seconds,
                    "node seconds": part.node_seconds,
                    "of": part.duration.replace("_seconds", "").replace("_", " "),
                    "USD": part.usd,
                    "price row, or why unknown": part.price_row or part.why_unknown or "",
                }
                for part in report.line_items
            ),
            f"Cost of this run: {report.total()}. Basis: {report.basis}.",
            align="lrrlrl",
            interactive=True,
        )
        rows = tuple((part.name, part.node_seconds, part.usd) for part in report.shares)
        heads = ("part", "node seconds", "USD")
        shares = Table(heads, rows, "The same cost by what was done", "lrr")
        return (items, shares) if rows else (items,)

    def unit_costs_table(self) -> Table:
        """Returns the unit costs, and program time beside billed time."""
        figures, times = self.report.unit_costs, self.report.durations
        costs = (
            ("USD per epoch", figures.per_epoch),
            ("USD per million showers", figures.per_million_showers),
            ("USD per accepted model", figures.per_accepted_model),
        )
        up = "from node start to node termination, by the provider's timestamps"
        rows = (
            *((name, one.usd, one.why_unknown or _basis(one)) for name, one in costs),
            ("steady epoch (s)", times.steady_epoch_seconds, "median of the complete epochs"),
            ("program time (s)", times.program_seconds, "process start to end, all processes"),
            ("billed time (s)", times.billed_seconds, up),
            *(
                (
                    f"billed node seconds, attempt {one.attempt}",
                    one.billed_node_seconds,
                    one.why_unknown or f"{counted(one.nodes, 'node')}; {one.rule or 'no node'}",
                )
                for one in self.report.billed_attempts
            ),
        )
        return Table(("figure", "value", "basis, or why unknown"), rows, "", "lrl")

    def _prices(self) -> tuple[Table, ...]:
        """Returns the price rows of the cost items, with their ages on the day of the report."""
        rows: list[dict[str, Cell]] = [
            {
                "price row": row.row_id,
                "USD": row.usd if isinstance(row, FeeRow) else row.usd_per_hour,
                "per": row.unit.replace("_", " ") if isinstance(row, FeeRow) else "node hour",
                "price of": row.ago_text(row.age_days(self.today)),
                "source": row.source,
            }
            for row in self.report.rows
        ]
        return (Table.of(rows, "Price rows of the cost items.", align="lrlll"),) if rows else ()

    def _offers(self, most: int | None = None) -> tuple[Table, ...]:
        """Returns the cost of an epoch on offers: estimated from runs, else as fast as this machine."""
        estimates, priced = self.report.offer_estimates, self.report.priced_offers
        if estimates:
            left = len(estimates[most:]) if most else 0
            more = f" {left} more offers: see --json or --report." if left else ""
            by_runs = (
                {
                    "offer": one.row.offer,
                    "nodes": None if one.why_not else one.nodes,
                    "s/epoch": one.expected_seconds,
                    "USD/epoch": one.expected_usd,
                    "low": one.low_usd,
                    "high": one.high_usd,
                    "grade": one.grade or "unknown",
                    "priced": one.row.ago_text(one.row.age_days(self.today)),
                    "basis": one.why_not or one.basis,
                }
                for one in estimates[:most]
            )
            return (Table.of(by_runs, _BY_RUNS + more, align="lrrrrrlll", interactive=True),)
        if not priced:
            return ()
        bounds = (_offer_cells(one) | {"priced": _age(one)} for one in priced)
        caption = (
            f"If a node were as fast as this machine (an upper bound, not measured there). {_BOUND}"
        )
        return (Table.of(bounds, caption, align="llllrrrl", interactive=True),)

    def published_runs_table(self) -> Table:
        """Returns the paper's runs at the prices of 2020/21 and of today."""
        return Table.of(
            (
                {
                    "run": f"{run.accelerators} x {run.accelerator}",
                    "s/epoch": f"{run.steady_epoch_seconds:.1f}",
                    "showers/s": f"{run.showers_per_second:.0f}",
                    **{head: run.usd_per_epoch.get(key) for head, key in _USD_HEADS.items()},
                }
                for run in self.report.published_runs
            ),
            "Measured: the runs of arXiv:2111.04628, the full 51x51x25 network on 124,987 showers,"
            " at the prices of 2020/21 and of today.",
            align="lrrrrrr",
        )

    def _comparisons(self) -> tuple[Table, ...]:
        """Returns the comparisons with the forecast of the plan and with the bill, if there are any."""
        found, bill = [], self.report.bill
        forecasts = [
            {
                "figure": one.metric,
                "forecast, low": one.low,
                "forecast": one.predicted,
                "forecast, high": one.high,
                "measured": one.measured,
                "billed": one.billed,
                "why": one.explanation,
            }
            for one in self.report.forecast_vs_actual
        ]
        if forecasts:
            caption = "Forecast of the plan, and measured values."
            found.append(Table.of(forecasts, caption, align="lrrrrrl"))
        if bill is not None:
            rows: list[tuple[Cell, ...]] = [
                (one.name, one.billed_usd, one.measured_usd, one.explanation)
                for one in bill.categories
            ]
            known = [one.measured_usd for one in bill.categories if one.measured_usd is not None]
            rows.append(("sum, before credits", bill.billed_usd, sum(known) if known else None, ""))
            heads = ("part", "billed (USD)", "measured (USD)", "why they differ")
            of_all = f"{bill.lines} lines of this run among {bill.total_lines}"
            found.append(Table(heads, tuple(rows), f"Bill of the cloud: {of_all}.", "lrrl"))
        return tuple(found)

    def _billed(self) -> Iterator[str]:
        """Yields what a bill has of the run, in each of its currencies."""
        bill = self.report.bill
        if bill is None:
            return
        if not bill.lines:
            whole = counted(bill.total_lines, "line")
            yield f"billed is unknown: of {whole} none has the label of this run; more with -v"
            return
        others = [f"{amount:,.2f} {name}" for name, amount in bill.other_currencies.items()]
        usd = [f"{usd_text(bill.billed_usd)} USD"] if bill.billed_usd or not others else []
        amounts = " and ".join((*usd, *others))
        of = f"{counted(bill.lines, 'line')} of {bill.total_lines}"
        yield f"billed {amounts} in {of}; more with -v"

    def _bill_notes(self) -> Iterator[str]:
        """Yields credits, other currencies and notes of the bill."""
        bill = self.report.bill
        if bill is None:
            return
        if bill.credits_usd:
            yield f"credits and discounts: {bill.credits_usd:.2f} USD, not in the sum above"
        for currency, amount in bill.other_currencies.items():
            yield f"billed in {currency}: {amount:.2f}"
        for note in bill.notes:
            yield f"bill: {note}"

    def _stacked(self, known: list[LineItem]) -> StackedBars:
        """Returns the known cost items, largest first; the smallest share one bar."""
        report = self.report
        parts = sorted(((part.usd or 0.0, part.name) for part in known), reverse=True)
        if len(parts) > len(COLOURS):
            rest = sum(cost for cost, _ in parts[len(COLOURS) - 1 :])
            parts = [*parts[: len(COLOURS) - 1], (rest, "all other items")]
        return StackedBars(
            "Cost by item",
            Axis("cost (USD)"),
            tuple(name for _, name in parts),
            (Bar(report.run, tuple(cost for cost, _ in parts), report.basis),),
            f"{report.total()}. Unknown costs are not shown.",
        )


def _quantity(part: LineItem) -> str:
    if part.quantity is not None:
        return f"{part.quantity:.3g} {(part.unit or '').replace('_', ' ')}".strip()
    seconds = part.node_seconds if part.node_seconds is not None else part.seconds
    return "" if seconds is None else duration_text(seconds)


def _basis(one: UnitCost) -> str:
    return (f"at least, without {', '.join(one.unknown)}; " if one.unknown else "") + one.basis


def _age(offer: PricedOffer) -> str:
    return offer.row.ago_text(offer.age_days)


def _offer_cells(offer: PricedOffer) -> dict[str, Cell]:
    row = offer.row
    return {
        "cloud": title_of(row.provider),
        "node": row.node_type,
        "region": row.region,
        "market": row.market.replace("_", " "),
        "USD/h": row.usd_per_hour,
        "USD/epoch": offer.usd_per_epoch,
        "USD/run": offer.usd_per_run,
    }
