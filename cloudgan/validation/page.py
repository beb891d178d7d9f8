"""A validation as text, tables and a page: headline, checks, figures, all measures, provenance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from cloudgan.core.errors import counted
from cloudgan.reports.page import Block, Bullets, KeyFigures, Paragraph, Section
from cloudgan.reports.table import Cell, Mark, Number, Table, error_text
from cloudgan.reports.words import in_words
from cloudgan.validation.assessment import Assessment, Measure, Sample
from cloudgan.validation.gates import GRADES, Check, Verdict

BASELINE_NOTE = (
    "The MC-MC baseline is the same measure for Monte Carlo against Monte Carlo with as many showers, from random permutations"
    " of both samples: the effect of statistics alone. p is the share of permutations in which any measure is as unusual."
)
LIMITS_NOTE = (
    "Limits of the value: for good / for acceptable, beyond the deviation of the MC-MC baseline."
)
_SHOWN = {"auc": "AUC", "fpd": "FPD", "metric": "3DGAN metric"}
_CHANCE = 0.5
_FEW = 2
_LISTED = 3


def headline(assessment: Assessment, verdict: Verdict) -> str:
    """Returns the grade and its reason, in one line."""
    if verdict.in_sample:
        out = headline(assessment, verdict.model_copy(update={"in_sample": False}))
        return out.replace(verdict.grade, f"{verdict.grade}, in sample", 1)
    match verdict.grade:
        case "at the baseline":
            showers = min(assessment.generated.showers, assessment.reference.showers)
            name = assessment.reference.name
            return f"{verdict.grade}: indistinguishable from {name} with {showers:,} showers"
        case "good":
            return f"good: all {_applied(verdict)} checks are within the limits for good"
        case "cannot tell":
            short = [check.title for check in condensed(verdict) if check.grade == "cannot tell"]
            showers = min(assessment.generated.showers, assessment.reference.showers)
            return (
                f"cannot tell: {showers:,} showers are too few for {_listed(short)}; give about"
                f" {verdict.needed:,} of each sample"
            )
        case "acceptable":
            short = [check.title for check in condensed(verdict) if check.grade == "acceptable"]
            return f"acceptable: no check fails; not good: {_listed(short)}"
        case _:
            broken = [text.rstrip(".") for text in verdict.failures] or ["a gate was missed"]
            others = len(broken) - 1
            fails = "property fails" if others == 1 else "properties fail"
            more = f"; {others} more {fails}" if others else ""
            first = broken[0]  # a name such as FPD keeps its letter
            first = first if first[1:2].isupper() else first[:1].lower() + first[1:]
            return f"fail: {first}{more}"


def describe(sample: Sample) -> str:
    """Returns such as ``mc_a.h5, 300 showers of 51x51x25 cells, 10 to 20 GeV``."""
    cells = "x".join(map(str, sample.cells))
    low, high = sample.energy_range_gev
    return (
        f"{sample.name}, {sample.showers:,} showers of {cells} cells, {low:.4g} to {high:.4g} GeV"
    )


def findings(verdict: Verdict) -> Iterator[str]:
    """Yields the failed properties, the worst first, then the notes, as lines."""
    if verdict.failures:
        yield "Failed properties, worst first:"
        yield from (f"  - {text}" for text in verdict.failures)
    if verdict.notes:
        yield "Notes:"
        yield from (f"  - {text}" for text in verdict.notes)


def checks_table(checks: Sequence[Check], caption: str = "") -> Table:
    """Returns a row per check: value, MC-MC baseline, limits for good and acceptable, grade."""
    return Table(
        ("property", "value", "baseline", "p", "limits", "grade"),
        tuple(
            (check.title, value(check.measure), baseline(check.measure, with_error=False),
             probability(check.measure), limits(check), grade(check))
            for check in checks
        ),
        caption,
        "lrrrll",
    )  # fmt: skip


def condensed(verdict: Verdict) -> tuple[Check, ...]:
    """Returns the checks for a terminal: of one property in many bins only the worst."""
    shown: list[Check] = []
    for _, group in groupby(verdict.checks, key=_property):
        checks = list(group)
        if len(checks) <= _FEW:
            shown += checks
            continue
        worst = max(checks, key=_severity)
        title = f"{worst.title} (of {len(checks)})"
        shown.append(worst.model_copy(update={"title": title}))
    return tuple(shown)


def measures_table(assessment: Assessment, untrained: Assessment | None = None) -> Table:
    """Returns all measures, each with its error and its MC-MC baseline."""
    before = {(m.name, m.where): m for m in untrained.measures} if untrained else {}
    heads = ["measure", "where", "value", "baseline", "ideal", "widths", "p"]
    rows: list[tuple[Cell, ...]] = []
    for measure in assessment.measures:
        row: list[Cell] = [
            in_words(measure.name), in_words(measure.where) or "all showers", value(measure),
            baseline(measure), Number(measure.ideal, f"{measure.ideal:g}"),
            Number(measure.widths, "" if measure.widths is None else f"{measure.widths:.1f}"),
            probability(measure),
        ]  # fmt: skip
        if untrained:
            row.insert(2, value(before.get((measure.name, measure.where))))
        rows.append(tuple(row))
    if untrained:
        heads.insert(2, "untrained")
    return Table(
        tuple(heads), tuple(rows), f"Generated against Monte Carlo. {BASELINE_NOTE}",
        "ll" + "r" * (len(heads) - 2), interactive=True,
    )  # fmt: skip


def value(measure: Measure | None) -> Number:
    """Returns the value of a measure with its error."""
    if measure is None or measure.value is None:
        return Number(None, "")
    return Number(measure.value, error_text(measure.value, measure.error))


def baseline(measure: Measure, *, with_error: bool = True) -> Number:
    """Returns the MC-MC baseline of a measure; without its error, to the digits of the value."""
    if measure.baseline is None:
        return Number(None, "")
    scatter = measure.baseline_error if with_error else None
    if with_error or measure.error is None:
        return Number(measure.baseline, error_text(measure.baseline, scatter))
    text, _, _ = error_text(measure.baseline, measure.baseline_error or measure.error).partition(
        " ±"
    )
    return Number(measure.baseline, text)


def probability(measure: Measure) -> Number:
    """Returns the p-value, corrected for the number of measures."""
    return Number(measure.p, "" if measure.p is None else f"{measure.p:.3f}")


def limits(check: Check, *deviations: float) -> str:
    """Returns the limits of a value: ``1 ± 0.02 / 0.05`` around an ideal of 1, ``< 0.02 / 0.1`` above 0 or 0.5.

    Those of the gate, or `deviations`, begin beyond the deviation of Monte Carlo from Monte Carlo, which is added.
    """
    ideal, null = check.measure.ideal, check.measure.null or 0.0
    found = deviations or (check.good, check.acceptable)
    if null:  # an estimate: two digits
        found = tuple(float(f"{each + null:.2g}") for each in found)
    if ideal in {0.0, _CHANCE}:
        return f"< {' / '.join(f'{ideal + each:.4g}' for each in found)}"
    return f"{ideal:g} ± {' / '.join(f'{each:.4g}' for each in found)}"


def grade(check: Check) -> Mark | str:
    """Returns the grade as a sign and a word; without a sign if the check does not apply."""
    if not check.measure.applies:
        return check.grade
    if check.measure.value is None:
        return Mark(None)
    if check.grade == "cannot tell":
        return check.grade
    return Mark(check.grade != "fail", check.grade)


def verdict_section(assessment: Assessment, verdict: Verdict, change: str = "") -> Section:
    """Returns the grade, what training changed, the failed checks and the notes."""
    samples = (
        f"Generated: {describe(assessment.generated)}.",
        f"Reference: {describe(assessment.reference)}.",
        BASELINE_NOTE,
    )
    notes = dict.fromkeys(f"{note.removesuffix('.')}." for note in verdict.notes)
    blocks: list[Block] = [_key_figures(assessment, verdict)]
    if change:
        blocks.append(Paragraph(change))
    if verdict.failures:
        blocks += [Paragraph("Failed properties, worst first:"), Bullets(verdict.failures)]
    else:
        blocks.append(Paragraph("No check failed."))
    return Section("Verdict", (*blocks, Bullets((*samples, *notes))))


def training_change(trained: Verdict, untrained: Verdict) -> str:
    """Returns which gates training brought to pass and which to fail, as a sentence; what cannot tell is neither.

    Where no gate fails, it is about the checks with a significant difference, of a size that is acceptable.
    """
    after, before = ({c.title: c.grade for c in v.checks} for v in (trained, untrained))
    failed = [title for title, grade in before.items() if grade == "fail"]
    mended = [title for title in failed if after.get(title, "fail") not in {"cannot tell", "fail"}]
    broken = [
        title
        for title, grade in after.items()
        if grade == "fail" and before.get(title, "fail") != "fail"
    ]
    if failed or broken:
        said = f"Training: of {counted(len(failed), 'check')} that the untrained network fails"
        return f"{said}, {_which(mended, 'pass', 'passes')}; {_which(broken, 'fail only since', 'fails only since')}."
    said = "Training changed no gate: the untrained network fails none."
    differ = [title for title, grade in before.items() if grade in _SIGNIFICANT]
    near = [title for title in differ if after.get(title) == "at the baseline"]
    since = [
        title
        for title, grade in after.items()
        if grade in _SIGNIFICANT and before.get(title) == "at the baseline"
    ]
    if differ or since:
        said += f" Of {counted(len(differ), 'check')} in which it differs significantly from Monte Carlo,"
        said += f" {_which(near, 'no longer differ', 'no longer differs')};"
        said += f" {_which(since, 'differ only since', 'differs only since')}."
    return said


_SIGNIFICANT = ("good", "acceptable")


def _which(titles: list[str], many: str, one: str) -> str:
    """Returns such as ``2 pass: tail, hits``."""
    named = f": {_listed(titles)}" if titles else ""
    return f"{len(titles)} {one if len(titles) == 1 else many}{named}"


def _key_figures(assessment: Assessment, verdict: Verdict) -> KeyFigures:
    grades = [check.grade for check in verdict.checks]
    unclear = grades.count("cannot tell")
    applied = _applied(verdict)
    remarks = [f"{grades.count('at the baseline')} as near as Monte Carlo to Monte Carlo"]
    remarks += [f"{unclear} cannot tell"] * bool(unclear)
    figures = [
        (verdict.grade, "grade", "the worst of the checks"),
        (f"{applied - grades.count('fail') - unclear} of {applied}", "checks passed", ", ".join(remarks)),
    ]  # fmt: skip
    for measure in assessment.measures:
        if measure.name in _SHOWN and measure.value is not None:
            text, _, error = error_text(measure.value, measure.error).partition(" ± ")
            remarks = [f"± {error}"] * bool(error)
            remarks += [] if measure.baseline is None else [f"baseline {measure.baseline:.2g}"]
            where = f", {measure.where}" if measure.where else ""
            figures.append((text, f"{_SHOWN[measure.name]}{where}", ", ".join(remarks)))
    return KeyFigures(tuple(figures))


def _property(check: Check) -> tuple[str, str, float, float]:
    title = check.title.removesuffix(f", {check.measure.where}")
    return check.measure.name, title, check.good, check.acceptable


def _severity(check: Check) -> tuple[int, float]:
    away = math.inf if check.measure.excess is None else check.measure.excess
    return GRADES.index(check.grade) if check.grade in GRADES else -1, away


def _applied(verdict: Verdict) -> int:
    return sum(check.measure.applies for check in verdict.checks)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
