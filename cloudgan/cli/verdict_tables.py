"""The numbers of a validation as tables, for the terminal, the page and Markdown alike."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from cloudgan.reports.number import error_text
from cloudgan.reports.table import Mark, Number, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.reports.table import Cell
    from cloudgan.validation.assessment import Assessment, Measure
    from cloudgan.validation.verdict import Check, Grade, Verdict

FLOOR_SAID = "The floor is the same number for two random halves of the Monte Carlo: what chance alone gives."
_CHANCE = 0.5
_FEW = 2
_GRADES: tuple[Grade, ...] = ("at the floor", "good", "acceptable", "fail")


def checks_table(checks: Sequence[Check], caption: str = "") -> Table:
    """Each check: what was found, its floor, the limits for good and for acceptable, the grade."""
    return Table(
        ("property", "found", "floor", "limits", "grade"),
        tuple(
            (check.title, found(check.measure), floor(check.measure, with_error=False),
             limits(check), grade(check))
            for check in checks
        ),
        caption,
        "lrrll",
    )  # fmt: skip


def condensed(verdict: Verdict) -> tuple[Check, ...]:
    """The checks for a terminal: of one property in many bins only the worst, which decides."""
    found: list[Check] = []
    for _, group in groupby(verdict.checks, key=_property):
        checks = list(group)
        if len(checks) <= _FEW:
            found += checks
            continue
        worst = max(checks, key=_badness)
        title = f"{worst.title} (of {len(checks)})"
        found.append(worst.model_copy(update={"title": title}))
    return tuple(found)


def _property(check: Check) -> tuple[str, str, float, float]:
    title = check.title.removesuffix(f", {check.measure.where}")
    return check.measure.name, title, check.good, check.acceptable


def _badness(check: Check) -> tuple[int, float]:
    away = math.inf if check.measure.away is None else check.measure.away
    return _GRADES.index(check.grade), away


def measures_table(assessment: Assessment, untrained: Assessment | None = None) -> Table:
    """All that was measured, each with its error and its floor."""
    before = {(m.name, m.where): m for m in untrained.measures} if untrained else {}
    heads = ["measure", "where", "found", "floor", "ideal", "at the floor"]
    rows: list[tuple[Cell, ...]] = []
    for measure in assessment.measures:
        row: list[Cell] = [
            measure.name.replace("_", " "), measure.where or "all showers", found(measure), floor(measure),
            Number(measure.ideal, f"{measure.ideal:g}"),
            None if measure.value is None or measure.floor is None else measure.is_at_floor,
        ]  # fmt: skip
        if untrained:
            row.insert(2, found(before.get((measure.name, measure.where))))
        rows.append(tuple(row))
    if untrained:
        heads.insert(2, "untrained")
    return Table(
        tuple(heads), tuple(rows), f"Generated against Monte Carlo. {FLOOR_SAID}",
        "ll" + "r" * (len(heads) - 3) + "l", interactive=True,
    )  # fmt: skip


def found(measure: Measure | None) -> Number:
    """The value with its error."""
    if measure is None or measure.value is None:
        return Number(None, "")
    return Number(measure.value, error_text(measure.value, measure.error))


def floor(measure: Measure, *, with_error: bool = True) -> Number:
    """The floor, with its scatter where there is room for it."""
    if measure.floor is None:
        return Number(None, "")
    scatter = measure.floor_error if with_error else None
    if with_error or measure.error is None:
        return Number(measure.floor, error_text(measure.floor, scatter))
    # As many digits as what stands beside it.
    text, _, _ = error_text(measure.floor, measure.floor_error or measure.error).partition(" ±")
    return Number(measure.floor, text)


def limits(check: Check) -> str:
    """Limits for good and acceptable: ``1 ± 0.02 / 0.05`` around an ideal, ``< 0.02 / 0.1`` above it."""
    ideal = check.measure.ideal
    if ideal in {0.0, _CHANCE}:
        return f"< {ideal + check.good:.4g} / {ideal + check.acceptable:.4g}"
    return f"{ideal:g} ± {check.good:.4g} / {check.acceptable:.4g}"


def grade(check: Check) -> Mark:
    """The grade in a sign and a word."""
    if check.measure.value is None:
        return Mark(None)
    return Mark(check.grade != "fail", check.grade)
