"""The result of `offers`: nodes by price and epoch time, the best for a job, as a screen and as a page."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

from pydantic import Field

from cloudgan import __version__
from cloudgan.core.clouds import CLOUDS, title_of
from cloudgan.core.document import Document
from cloudgan.core.durations import HOUR_SECONDS, duration_range
from cloudgan.core.errors import CloudganError, PlanError, counted, number_text
from cloudgan.launch.plan.flags import WorkerFlags
from cloudgan.money.carbon import COVERS
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries, Style
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import (
    Cell,
    Mark,
    Number,
    Table,
    time_cell,
    usd_cell,
    usd_range_cell,
    usd_text,
)
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.plan import RejectedOffers
from cloudgan.schema.presets import PROFILES
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.speed.measured import PAPER_NETWORK, PAPER_SHOWERS

MOST_ROWS = 8
_PLAN_HOURS: float = WorkerFlags.model_fields["max_hours"].default
_CAPTIONS = {
    "usd": "Offers, one node each, by the upper bound of the cost of an epoch.",
    "carbon": "Offers, one node each, by the upper bound of the emissions of an epoch.",
}


class JobChoice(Document):
    """The best options for a job of a number of epochs."""

    epochs: int
    deadline_seconds: float | None
    budget_usd: float | None
    assumed: dict[str, float | None] = Field(
        description="of spot nodes, not measured; per_node_hour None: by cloud and accelerator, see rows"
    )
    considered: int = Field(description="offers times numbers of nodes")
    chosen: Candidate | None = Field(
        description="what `plan` chooses; if nothing that was measured fits, the best modelled one"
    )
    why_none: str
    changes: tuple[str, ...] = Field(description="changes that would fit, the smallest first")
    rows: tuple[Candidate, ...] = Field(description="at most eight: the best measured and modelled")
    pareto_front: tuple[Candidate, ...] = Field(
        description="no other option is both faster and cheaper"
    )
    options: tuple[Candidate, ...] = Field(
        description="the cheapest per accelerator, number of nodes and market; with --all or --report"
    )
    rejected: tuple[RejectedOffers, ...] = Field(description="as `plan` rejects them")


class OffersReport(Result):
    """Offers, and the best options for a job."""

    day: dt.date = Field(description="on which the ages of prices are counted")
    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Candidate, ...]
    choice: JobChoice | None
    left_out: tuple[RejectedOffers, ...] = Field(default=(), description="what `plan` refuses")
    price_file: Path | None = Field(default=None, description="that of --price-file")
    ranked_by: str = Field(default="usd", description="usd, or carbon: emissions of an epoch")
    shows_all: bool = Field(default=False, description="whether the table has all offers")

    def problem(self) -> CloudganError | None:
        """Returns the error that no option meets the limits of the job."""
        if self.choice is None or self.choice.chosen is not None:
            return None
        return PlanError("no offer meets the limits of this job")

    def view(self) -> View:
        """Returns what to take, and why an apparently cheaper offer is not it."""
        choice = self.choice
        more = "-v shows the evidence, --all every offer, --report=offers.html a plot"
        notes = (*self.notes, more)
        if self.ranked_by == "carbon":
            line = "Emissions of an epoch, the lowest first"
            return View(line=line, table=self.carbon_table(), notes=notes, basis=self._basis())
        if choice is None:
            best = self.offers[0]
            usd = "unknown" if best.high_usd is None else usd_text(best.high_usd)
            line = f"Cheapest epoch: {best.row.node_type} on {_where_text(best)}, at most {usd} USD"
            notes = (*notes, "--epochs=60 --max-hours=2 beside these flags is for a whole job")
            return View(line=line, table=self._offers_table(), notes=notes, basis=self._basis())
        if choice.chosen is None:
            nothing, _, rest = choice.why_none.partition(": the fastest")
            nearest = f"the fastest{rest.partition('; the smallest')[0]}" if rest else ""
            change = " or ".join(choice.changes) or "none; see `cloudgan offers` without --epochs"
            change = f"smallest change that fits: {change}"
            notes = (*filter(None, (nearest, change)), *notes)
            table = self._options_table(choice)
            return View(line=nothing, table=table, notes=notes, done=False, basis=self._basis())
        return View(
            line=_decision(choice),
            table=self._options_table(choice),
            notes=notes,
            commands=((plan_command(self, choice.chosen), "plans it"),),
            basis=self._basis(),
        )

    def _basis(self) -> tuple[str, ...]:
        """Returns how the first row is known, and why offers are left out."""
        if self.choice:
            lines = _evidence(self.choice)
        else:
            first = self.offers[0]
            lines = (f"offer: {first.row.offer}", f"time: {first.grade}, {first.basis}")
        left_out = (
            f"left out: {counted(group.count, 'offer')} such as {group.examples[0]}: {group.reason}"
            for group in self.left_out
        )
        return (*lines, *left_out)

    def page(self) -> Page:
        """Returns the page of `--report`: time against cost of the options, and every offer."""
        choice, sections = self.choice, []
        lead = (
            f"{counted(len(self.offers), 'offer')}; an epoch has {counted(self.showers, 'shower')}."
        )
        if choice is not None:
            text, chosen = _decision(choice), choice.chosen
            is_marked = chosen in choice.pareto_front
            lead = (
                f"{text[0].upper()}{text[1:]}.{' It is marked in the table.' if is_marked else ''}"
            )
            risk = chosen.spot.text if chosen and chosen.spot else ""
            risks = Bullets(tuple(filter(None, (risk, _assumed(choice)))))
            front = Table.of(
                (_option_row(option, option == chosen) for option in choice.pareto_front),
                f"Pareto front for {counted(choice.epochs, 'epoch')}: none of {choice.considered} options is both"
                " faster and cheaper, by upper bounds.",
                align="rrrlrrrlrr",
                interactive=True,
            )
            sections.append(Section("Time against cost", (_plot(choice), front, risks)))
        if self.offers:  # else the job needs more than one node
            rows = (_offer_row(one, self.day) for one in self.offers)
            table = Table.of(rows, _CAPTIONS[self.ranked_by], align="rllrrrrlrl", interactive=True)
            sections.append(Section("Offers", (table,)))
        measured = (f"throughput from: {name}" for name in self.measured_runs)
        basis = Bullets((*self.notes, f"carbon: {COVERS}", *measured))
        sections.append(Section("Basis", (basis,)))
        return Page("Offers", lead, tuple(sections), f"cloudgan {__version__}")

    def _options_table(self, choice: JobChoice) -> Table:
        """Returns the best options of a job, the chosen one first."""
        options = (self.shows_all and choice.options) or choice.rows
        is_chosen = {one: "chosen" in one.best_for for one in options}
        ranked = sorted(
            options, key=lambda one: (not is_chosen[one], _misses(choice, one) != "", one.usd)
        )
        rows: list[dict[str, Cell]] = [
            {
                "  nodes": f"{'✔' if is_chosen[one] else ' '} {_nodes_text(one)}",
                "USD": usd_cell(one.usd),
                "time": time_cell(one.seconds),
                "where": _where_text(one),
                "remark": _remark(choice, one),
            }
            for one in ranked
        ]
        return Table.of(rows, align="lrrll")

    def _offers_table(self) -> Table:
        """Returns each node type and market in its cheapest region; all offers have their region."""
        folded: dict[tuple[object, ...], Candidate] = {}
        for one in self.offers:
            place = one.row.region if self.shows_all else ""
            folded.setdefault((one.row.provider, one.row.node_type, one.row.market, place), one)
        rows: list[dict[str, Cell]] = [
            {
                "nodes": _node_and_accelerators(one.row),
                "USD/epoch": usd_range_cell(one.low_usd, one.high_usd),
                "time/epoch": None
                if one.low_seconds is None
                else duration_range(one.low_seconds, one.seconds, " - "),
                "USD/h": one.row.usd_per_hour,
                "where": _where_text(one) + (f" {one.row.region}" if self.shows_all else ""),
            }
            for one in list(folded.values())[: None if self.shows_all else MOST_ROWS]
        ]
        return Table.of(rows, align="lrrrl")

    def carbon_table(self) -> Table:
        """Returns the emissions of an epoch on each offer, the lowest first, unknown ones last."""
        rows = (
            {
                "node": one.row.node_type.removeprefix("Standard_"),
                "accelerators": f"{one.row.accelerator_count} x {one.row.accelerator}",
                "g CO2e/epoch": one.carbon_g,
                "USD/epoch": one.high_usd,
                "where": f"{_where_text(one)} {one.row.region}",
            }
            for one in self.offers[: None if self.shows_all else MOST_ROWS]
        )
        return Table.of(rows, f"Upper bounds. Carbon of {COVERS}.", align="llrrl")


def _nodes_text(one: Candidate) -> str:
    """Returns such as ``2 x g2-standard-4``."""
    return f"{one.nodes} x {one.row.node_type.removeprefix('Standard_')}"


def _where_text(one: Candidate) -> str:
    """Returns such as ``AWS spot``."""
    return f"{title_of(one.row.provider)} {one.row.market.replace('_', ' ')}"


def _decision(choice: JobChoice) -> str:
    """Returns the selected option in words."""
    option = choice.chosen
    if option is None:
        return choice.why_none
    hours = (choice.deadline_seconds or 0) / HOUR_SECONDS
    limits = [f"within {hours:g} h"] if hours else []
    limits += [f"for at most {choice.budget_usd:g} USD"] if choice.budget_usd else []
    which = "Fastest" if choice.budget_usd and not choice.deadline_seconds else "Cheapest"
    return (
        f"{which} for {counted(choice.epochs, 'epoch')}{' ' if limits else ''}{' and '.join(limits)}:"
        f" {_nodes_text(option)} on {_where_text(option)}"
    )


def _evidence(choice: JobChoice) -> tuple[str, ...]:
    """Returns how time, batch and risk of the chosen option are known."""
    chosen = choice.chosen
    lines: list[str] = []
    if chosen is not None:
        regions = ", ".join(chosen.regions)
        lines += [f"offer: {chosen.row.offer}, at the same price in {regions}"]
        lines += [f"time: {chosen.grade}, {chosen.basis}", f"batch: {chosen.learning}"]
        if chosen.row.range_text:
            lines.append(f"price of a node: {chosen.row.range_text}; USD are those of its last day")
        if chosen.spot:
            lines.append(f"spot: {chosen.spot.text}")
    return (*lines, _assumed(choice))


def _assumed(choice: JobChoice) -> str:
    """Returns the rates of preemptions, and what is assumed of them."""
    given = choice.assumed
    risks = [one.spot for one in choice.rows if one.spot]
    found = {one.losses_basis: one.losses_per_node_hour for one in risks}
    rates = "; ".join(
        f"{rate:.2g} ({basis})" for basis, rate in sorted(found.items(), reverse=True)
    )
    return (
        f"spot nodes: {f'preemptions per hour and node: {rates}; ' if rates else ''}assumed, not measured:"
        f" {given['restart_seconds']:g} s to restart, {given['checkpoint_seconds']:g} s per checkpoint"
        " (--losses-per-node-hour, --restart-seconds, --checkpoint-seconds)"
    )


def _node_and_accelerators(row: PriceRow) -> str:
    node_type = row.node_type.removeprefix("Standard_")
    count = "" if row.accelerator_count == 1 else f"{row.accelerator_count} x "
    return node_type if "+" in node_type else f"{node_type}, {count}{row.accelerator}"


def _misses(choice: JobChoice, one: Candidate) -> str:
    """Returns the limit that an option may exceed, or an empty string."""
    if choice.deadline_seconds is not None and one.seconds > choice.deadline_seconds:
        return f"over {choice.deadline_seconds / HOUR_SECONDS:g} h"
    if choice.budget_usd is not None and one.usd > choice.budget_usd:
        return f"over {choice.budget_usd:g} USD"
    return ""


def _remark(choice: JobChoice, one: Candidate) -> str:
    """Returns how the time is known, and why the option is not the chosen one."""
    roles = [role for role in one.best_for if role in ("fastest", "safest")]
    why, chosen = _misses(choice, one), choice.chosen
    if not why and chosen is not None and one.usd < chosen.usd:
        why = "slower"  # without a deadline the fastest within the budget is chosen
    return ", ".join((one.grade, *filter(None, (why,)), *roles))


def plan_command(found: OffersReport, option: Candidate) -> str:
    """Returns the command that plans an option."""
    choice, is_own = found.choice, option.row.provider not in CLOUDS
    provider = "kubernetes" if is_own else option.row.provider
    words = [f"cloudgan plan --provider={provider} --price-as={option.row.offer}"]
    words += [f"--price-file={found.price_file}", "--store=s3://BUCKET/PREFIX"] if is_own else []
    words += [f"--nodes={option.nodes}", f"--global-batch={option.global_batch}"]
    is_default = found.network == PAPER_NETWORK or found.network not in PROFILES
    words += [] if is_default else [f"--preset={found.network}"]
    words += [] if found.showers == PAPER_SHOWERS else ["--data=FILE.h5"]
    if choice is not None:
        words += [] if choice.epochs == TrainingConfig().epochs else [f"--epochs={choice.epochs}"]
        seconds = choice.deadline_seconds
        if seconds is None and option.seconds > _PLAN_HOURS * HOUR_SECONDS:
            seconds = math.ceil(option.seconds / HOUR_SECONDS) * HOUR_SECONDS
        if seconds is not None:
            words.append(f"--max-hours={seconds / HOUR_SECONDS:g}")
        if choice.budget_usd is not None:
            words.append(f"--budget-usd={choice.budget_usd:g}")
    return " ".join(words)


def _plot(choice: JobChoice) -> Plot:
    """Returns time and cost of all options; those of the front have the numbers of their rows."""
    kinds = sorted({(one.row.provider, one.row.market) for one in choice.options})
    clouds = list(dict.fromkeys(cloud for cloud, _ in kinds))
    places = [(option.seconds / HOUR_SECONDS, option.usd) for option in choice.pareto_front]
    numbers = {place: str(number) for number, place in enumerate(places, 1)}

    def point(option: Candidate) -> Point:
        hours = option.seconds / HOUR_SECONDS
        low = f"{(option.low_seconds or 0) / HOUR_SECONDS:.3g} h, {number_text(option.low_usd or 0.0)} USD, low"
        return Point(
            hours,
            option.usd,
            f"{option.nodes} x {option.row.offer}",
            f"{hours:.3g} h, {number_text(option.usd)} USD, high; {low}\n{option.grade}",
            numbers.get((hours, option.usd), ""),
        )

    return Plot(
        f"Time and cost of {counted(choice.epochs, 'epoch')}, upper bounds",
        Axis("time for the job (h)", log=True),
        Axis("cost of the job (USD)", log=True),
        tuple(
            PointSeries(
                f"{title_of(cloud)}, {market.replace('_', ' ')}",
                tuple(
                    point(one)
                    for one in choice.options
                    if (one.row.provider, one.row.market) == (cloud, market)
                ),
                Style(clouds.index(cloud), second=market != "on_demand"),
            )
            for cloud, market in kinds
        ),
        front=tuple(places),
        caption="The cheapest offer per accelerator, number of nodes and market, at the upper bounds of"
        " time and cost. Colour: cloud; filled: on demand, hollow: spot. Numbers: rows of the table of the"
        " Pareto front.",
    )


def _offer_row(one: Candidate, day: dt.date) -> dict[str, Cell]:
    row = one.row
    return {
        "USD/epoch at most": _usd(one.high_usd),
        "offer": row.offer,
        "accelerators": f"{row.accelerator_count} x {row.accelerator}",
        "epoch at most": time_cell(one.high_seconds),
        "USD/h": _usd(row.usd_per_hour),
        "USD/epoch at least": _usd(one.low_usd),
        "epoch at least": time_cell(one.low_seconds),
        "throughput": one.grade or one.why_not,
        "g CO2e/epoch at most": one.carbon_g,
        "price of": price_age(row, day),
    }


def _option_row(option: Candidate, is_chosen: bool) -> dict[str, Cell]:
    spot, offer = option.spot, option.row.offer
    chance = spot.interruption if spot else 0.0
    losses = spot.break_even_losses_per_node_hour if spot else None
    return {
        "USD at most": _usd(option.usd),
        "time at most": time_cell(option.seconds),
        "nodes": option.nodes,
        "offer": Mark(True, offer) if is_chosen else offer,
        "USD at least": _usd(option.low_usd),
        "time at least": time_cell(option.low_seconds),
        "chance of a preemption": Number(chance, f"{chance:.0%}"),
        "throughput": option.grade,
        "global batch": option.global_batch,
        "spot pays above (h per preemption)": (1 / losses if losses else None) if spot else "",
    }


def _usd(value: float | None) -> Number:
    return Number(value, "" if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.3g}")


def price_age(row: PriceRow, day: dt.date) -> str:
    """Returns the age of an offer's price."""
    text = row.ago_text(row.age_days(day))
    return f"{text}, not confirmed" if row.confidence == "C" and text != "undated" else text
