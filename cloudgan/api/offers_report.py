"""The result of `offers`: nodes by price and epoch time, the best for a job, and their screen."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from cloudgan.api.offer_choice import JobChoice, decision, evidence, nodes_text, where_text
from cloudgan.api.offers_page import offers_page
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.durations import HOUR_SECONDS, duration_range
from cloudgan.core.errors import CloudganError, PlanError
from cloudgan.money.carbon import COVERS
from cloudgan.reports.page import Page
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table, time_cell, usd_cell, usd_range, usd_text
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.presets import PROFILES
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.speed.measured import PAPER_NETWORK

MOST_ROWS = 8


class OffersReport(Result):
    """Offers, and the best options for a job."""

    day: dt.date = Field(description="on which the ages of prices are counted")
    network: str
    showers: int
    measured_runs: tuple[str, ...]
    notes: tuple[str, ...]
    offers: tuple[Candidate, ...]
    choice: JobChoice | None
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
            return View(line=line, table=self.carbon_table(), notes=notes)
        if choice is None:
            best = self.offers[0]
            usd = "unknown" if best.high_usd is None else usd_text(best.high_usd)
            line = f"Cheapest epoch: {best.row.node_type} on {where_text(best)}, at most {usd} USD"
            job = ("cloudgan offers --epochs=60 --max-hours=2", "for a whole job")
            return View(line=line, table=self.table(), notes=notes, commands=(job,))
        if choice.chosen is None:
            nothing, _, rest = choice.why_none.partition(": the fastest")
            nearest = f"the fastest{rest.partition('; the smallest')[0]}" if rest else ""
            change = f"smallest change that fits: {self._changes()}"
            notes = (*filter(None, (nearest, change)), *notes)
            return View(line=nothing, table=self.table(), notes=notes, done=False)
        return View(
            line=decision(choice),
            table=self.table(),
            notes=notes,
            commands=((plan_command(self, choice.chosen), "plans it"),),
            basis=tuple(evidence(choice)),
        )

    def page(self) -> Page:
        """Returns the page of `--report`."""
        return offers_page(
            self.choice, self.offers, self.day, self.showers, self.notes, runs=self.measured_runs
        )

    def _changes(self) -> str:
        changes = self.choice.changes if self.choice else ()
        return " or ".join(changes) or "none; see `cloudgan offers` without --epochs"

    def table(self) -> Table:
        """Returns the best options of a job, the chosen one first, else the cheapest offers."""
        choice = self.choice
        if choice is None:
            return self._offers_table(None if self.shows_all else MOST_ROWS)
        options = (self.shows_all and choice.options) or choice.rows
        is_chosen = {one: "chosen" in one.best_for for one in options}
        ranked = sorted(
            options, key=lambda one: (not is_chosen[one], _misses(choice, one) != "", one.usd)
        )
        rows: list[dict[str, Cell]] = [
            {
                "  nodes": f"{'✔' if is_chosen[one] else ' '} {nodes_text(one)}",
                "USD": usd_cell(one.usd),
                "time": time_cell(one.seconds),
                "where": where_text(one),
                "remark": _remark(choice, one),
            }
            for one in ranked
        ]
        return Table.of(rows, align="lrrll")

    def _offers_table(self, most: int | None) -> Table:
        folded: dict[tuple[object, ...], Candidate] = {}
        for one in self.offers:
            key = (one.row.provider, one.row.node_type, one.row.market, one.row.usd_per_hour)
            folded.setdefault(key, one)
        rows: list[dict[str, Cell]] = [
            {
                "nodes": _node_and_accelerators(one),
                "USD/epoch": _range(one.low_usd, one.high_usd),
                "time/epoch": _epoch_time(one),
                "USD/h": one.row.usd_per_hour,
                "where": where_text(one),
            }
            for one in list(folded.values())[:most]
        ]
        return Table.of(rows, align="lrrrl")

    def carbon_table(self) -> Table:
        """Returns the emissions of an epoch on each offer, the lowest first, unknown ones last."""
        ranked = sorted(
            self.offers,
            key=lambda one: (one.carbon_g is None, one.carbon_g or 0.0),
        )
        rows = (
            {
                "node": one.row.node_type.removeprefix("Standard_"),
                "accelerators": f"{one.row.accelerator_count} x {one.row.accelerator}",
                "g CO2e/epoch": one.carbon_g,
                "USD/epoch": one.high_usd,
                "where": f"{where_text(one)} {one.row.region}",
            }
            for one in (ranked if self.shows_all else ranked[:MOST_ROWS])
        )
        return Table.of(rows, f"Upper bounds. Carbon of {COVERS}.", align="llrrl")


def _node_and_accelerators(one: Candidate) -> str:
    row = one.row
    node_type = row.node_type.removeprefix("Standard_")
    count = "" if row.accelerator_count == 1 else f"{row.accelerator_count} x "
    return node_type if "+" in node_type else f"{node_type}, {count}{row.accelerator}"


def _epoch_time(one: Candidate) -> str | None:
    if one.low_seconds is None:
        return None
    return duration_range(one.low_seconds, one.seconds, " - ")


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
    choice = found.choice
    provider = option.row.provider
    if provider not in CLOUDS:
        provider = "kubernetes"
    words = [f"cloudgan plan --provider={provider} --price-as={option.row.offer}"]
    words += [f"--nodes={option.nodes}", f"--global-batch={option.global_batch}"]
    is_default = found.network == PAPER_NETWORK or found.network not in PROFILES
    words += [] if is_default else [f"--preset={found.network}"]
    if choice is not None:
        words += [] if choice.epochs == TrainingConfig().epochs else [f"--epochs={choice.epochs}"]
        if choice.deadline_seconds is not None:
            words.append(f"--max-hours={choice.deadline_seconds / HOUR_SECONDS:g}")
        if choice.budget_usd is not None:
            words.append(f"--budget-usd={choice.budget_usd:g}")
    return " ".join(words)


def _range(low: float | None, high: float | None) -> Number:
    if low is None or high is None:
        return Number(None, "")
    return Number(high, usd_range(low, high, " - "))
