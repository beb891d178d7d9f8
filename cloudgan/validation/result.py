"""What `cloudgan validate` and `cloudgan demo` return: the verdict, its page, and what a person reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pydantic import Field

from cloudgan import __version__
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import CloudganError, VerdictError
from cloudgan.reports.page import Block, Graphic, Page, Paragraph, Section, fragment
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.validation.assessment import Assessment
from cloudgan.validation.gates import Check, Verdict
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
    measures_table,
    value,
    verdict_section,
)
from cloudgan.validation.samples import Samples

RUN_SHOWERS = 1000
"""Showers that a run generates for a validation, by default."""


@dataclass(frozen=True)
class RunFacts:
    """What only the validation of a run has.

    They are its folder, the step of the checkpoint, the assessment of the same network before its first step, and what
    training changed, in one sentence.
    """

    folder: RunFolder
    step: int
    untrained: Assessment
    change: str


@dataclass(frozen=True)
class Validation:
    """Result of a validation; a notebook shows the headline, the checks and the figures.

    Attributes:
        assessment: All measures, each with its error and its MC-MC baseline.
        provenance: Properties of the files, a table per sample.
    """

    title: str
    reference_name: str
    samples: Samples
    assessment: Assessment
    verdict: Verdict
    run: RunFacts | None = None
    provenance: tuple[Table, ...] = ()

    def result(self, *, report: str | None = None, gate: bool = False) -> ValidationResult:
        """Returns the measures and the verdict, without the showers."""
        return ValidationResult(
            run=str(self.run.folder.path) if self.run else None,
            step=self.run.step if self.run else None,
            reference=self.reference_name,
            untrained=self.run.untrained if self.run else None,
            change=self.run.change if self.run else None,
            assessment=self.assessment,
            verdict=self.verdict,
            report=report,
            gate=gate,
        )

    def page(self) -> Page:
        """Returns the report: verdict, figures, all measures, provenance."""
        provenance = (Section("Provenance", self.provenance),) if self.provenance else ()
        return Page(
            title=f"Validation of {self.title}",
            lead=headline(self.assessment, self.verdict),
            sections=(*self.sections(), *provenance),
            footer=f"Written by cloudgan {__version__}. The page loads nothing from the network.",
        )

    def sections(self) -> Iterator[Section]:
        """Yields showers beside Monte Carlo, the verdict, the other figures, all checks and all measures."""
        from cloudgan.validation.figures import figures  # loads Matplotlib

        assessment, verdict, run = self.assessment, self.verdict, self.run
        families = groupby(figures(self.samples, assessment), key=lambda figure: figure.family)
        drawn = [
            Section(family, tuple(Graphic(figure.svg, figure.caption) for figure in members))
            for family, members in families
        ]
        first = 1 if self.samples.pairs else 0
        yield from drawn[:first]
        yield verdict_section(assessment, verdict, run.change if run else "")
        yield from drawn[first:]
        caption = f"Ratios are generated over Monte Carlo. {LIMITS_NOTE}"
        yield Section("Checks", (checks_table(verdict.checks, caption),))
        notes = (Paragraph(_UNTRAINED),) if run else ()
        table = measures_table(assessment, run.untrained if run else None)
        yield Section("All measures", (*notes, table))

    def write(self) -> None:
        """Writes verdict.json into the folder of the run, atomically; `cost` reads it.

        Raises:
            DataError: The file cannot be written.
        """
        if self.run:
            here = {"run", "report", "gate"}
            text = self.result().model_dump_json(indent=2, exclude=here) + "\n"
            write_atomic(self.run.folder.verdict_file, text.encode())

    def __repr__(self) -> str:
        return f"<Validation of {self.title}: {headline(self.assessment, self.verdict)}>"

    def _repr_html_(self) -> str:
        from cloudgan.validation.figures import figures  # loads Matplotlib

        shown = figures(self.samples, self.assessment)
        blocks: tuple[Block, ...] = (
            Paragraph(headline(self.assessment, self.verdict)),
            checks_table(condensed(self.verdict)),
            *(Graphic(figure.svg, figure.caption) for figure in shown),
        )
        return fragment((Section(self.title, blocks),))


_ROWS = 9
"""Of the checks on a terminal: with the lines around them they fill a screen of 24 lines."""
_SIGNS = {"at the baseline": "✓", "good": "✓", "acceptable": "~", "cannot tell": "?", "fail": "✗"}
_UNTRAINED = (
    "Untrained is the same network before its first step: its output layer has each cell's"
    " distribution as measured on the training showers."
)
_DOUBTS = ("In sample", "It is unknown", "No Monte Carlo")
"""Beginnings of notes that make the verdict worth less than it says."""
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
            warnings=tuple(note for note in self.verdict.notes if note.startswith(_DOUBTS)),
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

    def badness(check: Check) -> tuple[int, float]:
        grade = _ORDER.index(check.grade) if check.grade in _ORDER else len(_ORDER)
        return grade, -(check.measure.excess or 0.0) / (check.acceptable or 1.0)

    checks = sorted(condensed(verdict), key=badness)
    rows = tuple(
        (_short(check.title), value(check.measure), baseline(check.measure, with_error=False),
         limits(check, check.acceptable), _SIGNS.get(check.grade, "-"))
        for check in checks[:_ROWS]
    )  # fmt: skip
    more = len(checks) - len(rows)
    rest = (f"{more} more measures are no worse: -v or --report=FILE",) if more > 0 else ()
    table = Table(("measure", "value", "baseline", "limit", ""), rows, align="lrrll")
    return table, (_LEGEND, *rest)


def _short(title: str) -> str:
    """Shortens a title so that the table has 80 columns; the page has all of it."""
    return _PARENTHESES.sub("", title).replace(", mean error", ", mean")
