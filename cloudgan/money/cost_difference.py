"""Compares the cost of a run or plan with an earlier one, for a comment on a pull request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cloudgan.core.document import Document
from cloudgan.core.documents import parse_json, parse_model, read_bytes
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import (
    BudgetError,
    CloudganError,
    ConfigError,
    DataError,
    number_text,
)
from cloudgan.money.carbon import COVERS, carbon_g_per_epoch
from cloudgan.reports.page import Bullets, Page, Section, page_markdown
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Number, Table
from cloudgan.schema.cost_report import CostReport, at_least
from cloudgan.schema.plan import Plan
from cloudgan.schema.price_row import PriceRow

_GRAMS_PER_KG = 1000
_NAMES = {
    "usd": "cost (USD)",
    "hours": "time of the program (h)",
    "usd_per_epoch": "cost of an epoch (USD)",
    "kwh": "energy of the accelerators (kWh)",
    "co2_kg": "CO2 equivalent (kg)",
}


class Figure(Document):
    """A value without its unknown parts; None: unknown, with the reason."""

    value: float | None
    unknown: tuple[str, ...] = ()
    why_unknown: str = ""

    @classmethod
    def of(cls, value: float | None, why: str | None, unknown: tuple[str, ...] = ()) -> Figure:
        """Returns a figure; the reason counts only without a value."""
        return cls(value=value, unknown=unknown, why_unknown=why or "" if value is None else "")

    def cell(self) -> Number:
        """Returns the value for a table, such as ``at least 3.1``."""
        if self.value is None:
            return Number(None, "unknown")
        return Number(self.value, at_least(self.value, self.unknown))


class CostFigures(Document):
    """The figures of one run or plan, by the keys of the JSON output."""

    name: str
    basis: str
    figures: dict[str, Figure]


class CostDifference(Result):
    """The cost of a run or plan beside the cost of an earlier one."""

    base: CostFigures
    new: CostFigures
    budget_usd: float | None
    allow_unknown: bool = False

    def change(self, key: str) -> float | None:
        """Returns the difference; None if a value is unknown, or if different parts of it are."""
        old, new = self.base.figures[key], self.new.figures[key]
        if old.value is None or new.value is None or set(old.unknown) != set(new.unknown):
            return None
        return new.value - old.value

    def problem(self) -> CloudganError | None:
        """Returns the error of a cost above the budget, or of one that no budget can limit."""
        usd = self.new.figures["usd"]
        if self.budget_usd is None or (usd.value is None and self.allow_unknown):
            return None
        if usd.value is None:
            return ConfigError(
                f"the cost of {self.new.name} is unknown ({usd.why_unknown}), so"
                f" --budget-usd={self.budget_usd:g} cannot be checked; price a run on your own"
                " machine by --price-as=OFFER, or accept it with --allow-unknown"
            )
        if usd.value > self.budget_usd:
            return BudgetError(
                f"{self.new.name} costs {usd.cell().text} USD, more than"
                f" --budget-usd={self.budget_usd:g}"
            )
        if usd.unknown and not self.allow_unknown:
            return BudgetError(
                f"{self.new.name} costs {usd.cell().text} USD without {', '.join(usd.unknown)}, which"
                f" are unknown and may exceed --budget-usd={self.budget_usd:g}; accept them with"
                " --allow-unknown"
            )
        return None

    def as_json(self) -> dict[str, Any]:
        """Returns both sides, the differences, and whether the budget is exceeded."""
        usd, is_over = self.new.figures["usd"], None
        if usd.value is not None and self.budget_usd is not None:
            is_over = True if usd.value > self.budget_usd else None if usd.unknown else False
        return {
            **self.model_dump(mode="json"),
            "difference": {key: self.change(key) for key in _NAMES},
            "is_over_budget": is_over,
        }

    def view(self) -> View:
        """Returns the comment for a pull request, in Markdown."""
        return View(page_markdown(self.page()).rstrip())

    def page(self) -> Page:
        """Returns the comment: a table, and what its values leave out."""
        rows = tuple(
            (
                name,
                self.base.figures[key].cell(),
                self.new.figures[key].cell(),
                self._change_cell(key),
            )
            for key, name in _NAMES.items()
        )
        columns = ("", f"base: {self.base.basis}", f"now: {self.new.basis}", "difference")
        table = Table(columns, rows, align="lrrr")
        problem = self.problem()
        title = f"Cost of {self.new.name}"
        if self.base.name != self.new.name:
            title += f" against {self.base.name}"
        return Page(
            title,
            lead=f"{problem}." if problem else "",
            sections=(Section("Difference", (table, Bullets(tuple(self._notes())))),),
        )

    def _change_cell(self, key: str) -> Number:
        change, old = self.change(key), self.base.figures[key].value
        if change is None:
            return Number(None, "unknown")
        share = f" ({change / old:+.1%})" if old else ""
        sign = "+" if change > 0 else ""
        return Number(change, f"{sign}{number_text(float(change))}{share}")

    def _notes(self) -> Iterator[str]:
        for side, found in (("base", self.base), ("now", self.new)):
            for key, name in _NAMES.items():
                figure = found.figures[key]
                if figure.value is None:
                    yield f"{side}, {name}: unknown, {figure.why_unknown}"
                elif figure.unknown:
                    yield f"{side}, {name}: without {', '.join(figure.unknown)}, which are unknown"
        yield f"energy and CO2 equivalent: {COVERS}"


def read_figures(path: Path) -> CostFigures:
    """Reads the output of `cloudgan cost RUN --json` or `cloudgan plan --json`, or their files.

    Raises:
        DataError: The file is missing, or is neither of them.
    """
    content = read_bytes(path)
    found = parse_json(content, str(path))
    keys = found if isinstance(found, dict) else {}
    if "line_items" in keys:
        return figures_of_run(parse_model(content, CostReport, str(path)))
    if "spec_hash" in keys:
        return figures_of_plan(parse_model(content, Plan, str(path)))
    raise DataError(
        f"{path}: neither the cost of a run nor a plan; write it with"
        " `cloudgan cost RUN --json > FILE` or `cloudgan plan --json > FILE`"
    )


def figures_of_plan(plan: Plan) -> CostFigures:
    """Returns the figures of a plan at the slow edge of its forecast."""
    ahead, price = plan.forecast, plan.price
    why = ahead.why_unknown or "the plan has no price"
    usd = Figure.of(ahead.high_usd, why)
    if plan.cost is not None and usd.value is not None:
        usd = Figure.of(plan.cost.known_usd, why, plan.cost.unknown)
    per_epoch = price.cost_usd(ahead.high_epoch_seconds, plan.workers.nodes) if price else None
    paid = plan.cost.training_seconds if plan.cost else None  # with preemptions
    seconds = ahead.high_seconds if paid is None else paid
    energy = [(price, seconds, plan.workers.nodes)] if price else []
    return CostFigures(
        name=plan.run,
        basis="forecast, slow edge",
        figures={
            "usd": usd,
            "hours": _hours(seconds, why),
            "usd_per_epoch": Figure.of(per_epoch, why),
            **_energy(energy),
        },
    )


def figures_of_run(report: CostReport) -> CostFigures:
    """Returns the figures of a run that ended."""
    total, epoch = report.totals, report.unit_costs.per_epoch
    usd = report.known_usd
    rows = {row.row_id: row for row in report.rows if isinstance(row, PriceRow)}
    seconds = report.durations.program_seconds
    if report.billed_attempts:
        energy = [
            (rows.get(one.price_row or ""), one.up_node_seconds, 1)
            for one in report.billed_attempts
            if one.up_node_seconds != 0  # of no node there is no price row
        ]
    else:
        row = rows.get(report.priced_as or "")
        energy = [(row, seconds, 1)] if row else []
    return CostFigures(
        name=report.run,
        basis="measured",
        figures={
            "usd": Figure.of(usd, "no line item has a price", () if usd is None else total.unknown),
            "hours": _hours(seconds, "the record has no end of the program"),
            "usd_per_epoch": Figure.of(epoch.usd, epoch.why_unknown, epoch.unknown),
            **_energy(energy),
        },
    )


def _hours(seconds: float | None, why: str) -> Figure:
    return Figure.of(None if seconds is None else seconds / HOUR_SECONDS, why)


def _energy(parts: Sequence[tuple[PriceRow | None, float | None, int]]) -> dict[str, Figure]:
    """Returns the figures of energy and carbon: sums over nodes with their seconds."""
    found = [carbon_g_per_epoch(row, seconds, nodes) for row, seconds, nodes in parts if row]
    why = "; ".join(dict.fromkeys(one.why_unknown for one in found if one.why_unknown))
    if not found or len(found) < len(parts):
        why = "no price row names the nodes and their accelerators"

    def total(values: list[float | None], unit: float = 1.0) -> float | None:
        known = [value / unit for value in values if value is not None]
        return math.fsum(known) if 0 < len(parts) == len(known) else None

    return {
        "kwh": Figure.of(total([one.kwh for one in found]), why),
        "co2_kg": Figure.of(total([one.grams for one in found], _GRAMS_PER_KG), why),
    }
