"""What `cloudgan validate` and `cloudgan demo` return: the verdict, and what a person reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from cloudgan.core.errors import CloudganError, VerdictError
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import shown_run
from cloudgan.validation.acceptance.assessment import Assessment
from cloudgan.validation.acceptance.gates import Check, Verdict
from cloudgan.validation.page import (
    BASELINE_NOTE,
    LIMITS_NOTE,
    baseline,
    checks_table,
    condensed,
    describe,
    findings,
    headline,
    limits,
    value,
)

_ROWS = 9
"""Of the checks on a terminal: with the lines around them they fill a screen of 24 lines."""
_SIGNS = {"at the baseline": "✓", "good": "✓", "acceptable": "~", "cannot tell": "?", "fail": "✗"}
_ORDER = ("fail", "cannot tell", "acceptable", "good", "at the baseline")
_LEGEND = "✓ good  ~ acceptable (limit)  ? too few showers  ✗ fail  baseline: Monte Carlo"
_PARENTHESES = re.compile(r" \((of \d+|second moment)\)")


class ValidationResult(Result):
    """Verdict on a run, or on a file."""

    run: str | None = Field(None, description="folder; null: two files were compared")
    step: int | None = Field(None, description="of the checkpoint")
    reference: str = Field(description="Monte Carlo")
    untrained: Assessment | None = Field(
        None, description="of the same network before its first step"
    )
    change: str | None = Field(None, description="what training changed, in one sentence")
    assessment: Assessment
    verdict: Verdict
    report: str | None = Field(None, description="page with figures; null: not written")
    gate: bool = Field(False, description="whether a failed check ends the command with code 7")

    def view(self) -> View:
        """Returns the grade and its reason, the worst checks, and the next commands."""
        table, notes = worst_checks(self.verdict)
        return View(
            line=headline(self.assessment, self.verdict),
            table=table,
            notes=(*notes, *filter(None, (self.change,))),
            warnings=seen_note(self.verdict),
            commands=tuple(self._commands()),
            basis=self.basis(),
            done=None
            if self.verdict.in_sample or self.verdict.grade == "cannot tell"
            else self.verdict.passed,
        )

    def basis(self) -> tuple[str | Table, ...]:
        """Returns the samples, all checks, the failures and the notes."""
        return (
            f"generated: {describe(self.assessment.generated)}",
            f"reference: {describe(self.assessment.reference)}",
            checks_table(self.verdict.checks, f"{LIMITS_NOTE} {BASELINE_NOTE}"),
            *findings(self.verdict),
        )

    def _commands(self) -> Iterable[tuple[str, str]]:
        run, name = (shown_run(self.run), Path(self.run).name) if self.run else ("", "")
        if self.report:
            yield f"open {self.report}", "figures and all measures"
        elif run:
            yield f"cloudgan validate {run} --report={name}.html", "figures and all measures"
        if run and self.verdict.in_sample:
            yield f"cloudgan validate {run} --against=FILE", "showers that it was not trained on"
        elif run and self.verdict.passed:
            yield f"cloudgan export {run} exports/{name}", "ONNX for Geant4, with this verdict"

    def problem(self) -> CloudganError | None:
        """Returns the failed gates, if they were asked for."""
        if not self.gate or self.verdict.passed:
            return None
        missed = [check.title for check in self.verdict.checks if check.grade == "fail"]
        if not missed:
            return VerdictError(headline(self.assessment, self.verdict))
        return VerdictError(f"gates missed: {'; '.join(missed)}")


class DemoResult(ValidationResult):
    """Result of a demo: verdict, duration and cost."""

    ended: StopReason
    train_seconds: float
    program_seconds: float
    cost: CostReport
    ending: str = Field(exclude=True)
    price: str = Field(exclude=True)

    def view(self) -> View:
        """Returns why the training ended, the verdict, the cost and the next commands."""
        table, notes = worst_checks(self.verdict)
        verdict = headline(self.assessment, self.verdict)
        return View(
            line=f"{self.ending}\n{verdict}",
            table=table,
            notes=(*notes, *filter(None, (self.change,)), f"cost: {self.price}"),
            commands=(
                (f"open {self.report}", f"figures; {self.program_seconds:.0f} s in all"),
                ("cloudgan train showers.h5", "a GAN on your own showers"),
            ),
            basis=self.basis(),
            done=True,
        )


def worst_checks(verdict: Verdict) -> tuple[Table, tuple[str, ...]]:
    """Returns a row per property, the worst first, as many as a screen holds, and what a reader needs."""
    checks = sorted(condensed(verdict), key=_badness)
    rows = tuple(
        (_short(check.title), value(check.measure), baseline(check.measure, with_error=False),
         limits(check, check.acceptable), _SIGNS.get(check.grade, "-"))
        for check in checks[:_ROWS]
    )  # fmt: skip
    more = len(checks) - len(rows)
    rest = (f"{more} more measures are no worse: -v or --report=FILE",) if more > 0 else ()
    table = Table(("measure", "value", "baseline", "limit", ""), rows, align="lrrll")
    return table, (_LEGEND, *rest)


def seen_note(verdict: Verdict) -> tuple[str, ...]:
    """Returns the notes that make the verdict worth less than it says."""
    said = ("In sample", "It is unknown", "No Monte Carlo")
    return tuple(note for note in verdict.notes if note.startswith(said))


def _short(title: str) -> str:
    """Shortens a title so that the table has 80 columns; the page has all of it."""
    return _PARENTHESES.sub("", title).replace(", mean error", ", mean")


def _badness(check: Check) -> tuple[int, float]:
    grade = _ORDER.index(check.grade) if check.grade in _ORDER else len(_ORDER)
    return grade, -(check.measure.excess or 0.0) / (check.acceptable or 1.0)
