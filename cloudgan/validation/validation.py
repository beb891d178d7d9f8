"""A validation: its measures, verdict and samples, for a notebook, a page and verdict.json."""

from __future__ import annotations

from dataclasses import dataclass

from cloudgan import __version__
from cloudgan.core.atomic_file import write_atomic
from cloudgan.reports.page import Block, Graphic, Page, Paragraph, Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema.run_folder import RunFolder
from cloudgan.validation.acceptance.assessment import Assessment
from cloudgan.validation.acceptance.gates import Verdict
from cloudgan.validation.figures.samples import Samples
from cloudgan.validation.page import checks_table, condensed, headline, validation_page
from cloudgan.validation.result import ValidationResult

RUN_SHOWERS = 1000
"""Showers that a run generates for a validation, by default."""


@dataclass(frozen=True)
class RunFacts:
    """What only the validation of a run has.

    Attributes:
        folder: Of the run.
        step: Of the checkpoint.
        untrained: Assessment of the same network before its first step.
        change: What training changed, in one sentence.
    """

    folder: RunFolder
    step: int
    untrained: Assessment
    change: str


@dataclass(frozen=True)
class Validation:
    """Result of a validation; a notebook shows the headline, the checks and the figures.

    Attributes:
        title: Names of both samples.
        reference_name: Name of the Monte Carlo.
        samples: Observables that the figures show.
        assessment: All measures, each with its error and its MC-MC baseline.
        verdict: Checks against the gates; ``verdict.passed`` and ``verdict.grade``.
        run: What only the validation of a run has.
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
        """Returns the measures and the verdict, without the showers.

        Args:
            report: Page that was written.
            gate: Whether a failed check ends the command.
        """
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
        return validation_page(
            self.assessment,
            self.verdict,
            self.samples,
            title=f"Validation of {self.title}",
            version=__version__,
            untrained=self.run.untrained if self.run else None,
            change=self.run.change if self.run else "",
            provenance=self.provenance,
        )

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
        from cloudgan.validation.figures.figures import figures  # loads Matplotlib

        shown = figures(self.samples, self.assessment)
        blocks: tuple[Block, ...] = (
            Paragraph(headline(self.assessment, self.verdict)),
            checks_table(condensed(self.verdict)),
            *(Graphic(figure.svg, figure.caption) for figure in shown),
        )
        return fragment((Section(self.title, blocks),))
