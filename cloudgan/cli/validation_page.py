"""A validation as sections of a page: the verdict, the figures, all numbers, where the files are from."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from cloudgan.cli.verdict_tables import FLOOR_SAID, checks_table, measures_table
from cloudgan.cli.verdict_text import describe, headline
from cloudgan.reports.number import error_text
from cloudgan.reports.page import Bullets, Graphic, KeyFigures, Page, Paragraph, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.reports.page import Block
    from cloudgan.reports.table import Table
    from cloudgan.validation.assessment import Assessment
    from cloudgan.validation.plot_samples import Samples
    from cloudgan.validation.verdict import Verdict

_SHOWN = {"auc": "AUC", "fpd": "FPD", "metric": "3DGAN metric"}


def validation_page(
    assessment: Assessment,
    verdict: Verdict,
    samples: Samples,
    *,
    title: str,
    version: str,
    untrained: Assessment | None = None,
    origins: Sequence[Table] = (),
) -> Page:
    """Returns the whole report of a validation."""
    sections = (
        *verdict_sections(assessment, verdict),
        *figure_sections(samples, assessment),
        numbers_section(assessment, untrained),
    )
    made = (Section("Where the showers are from", tuple(origins)),) if origins else ()
    return Page(
        title=title,
        lead=headline(assessment, verdict),
        sections=(*sections, *made),
        footer=f"Written by cloudgan {version}; nothing on this page is loaded from elsewhere.",
    )


def verdict_sections(assessment: Assessment, verdict: Verdict) -> Iterator[Section]:
    """The grade, the checks, what broke and what is to be known."""
    samples = (
        f"Generated: {describe(assessment.generated)}.",
        f"Reference: {describe(assessment.reference)}.",
        FLOOR_SAID,
    )
    table = checks_table(
        verdict.checks,
        "Ratios are generated over Monte Carlo. Limits: what is good, and what is acceptable.",
    )
    yield Section("Verdict", (_key_figures(assessment, verdict), Bullets(samples), table))
    broken: Block = Bullets(verdict.broken) if verdict.broken else Paragraph("Nothing that a gate asks for.")  # fmt: skip
    notes = (Paragraph("To be known:"), Bullets(verdict.notes)) if verdict.notes else ()
    yield Section("What broke", (broken, *notes))


def figure_sections(samples: Samples, assessment: Assessment) -> Iterator[Section]:
    """The figures, one section a family."""
    from cloudgan.validation.figures import figures

    drawn = list(figures(samples, assessment))
    for family, members in groupby(drawn, key=lambda figure: figure.family):
        yield Section(family, tuple(Graphic(figure.svg, figure.caption) for figure in members))


def numbers_section(assessment: Assessment, untrained: Assessment | None = None) -> Section:
    """Every number that was measured, with its error and its floor."""
    told: tuple[Block, ...] = ()
    if untrained is not None:
        told = (
            Paragraph(
                "Untrained is the same network before its first step. Its energy response is nearly"
                " right, because the output is calibrated on training showers: what shows learning"
                " is all the rest."
            ),
        )
    return Section("All numbers", (*told, measures_table(assessment, untrained)))


def _key_figures(assessment: Assessment, verdict: Verdict) -> KeyFigures:
    grades = [check.grade for check in verdict.checks]
    failed = grades.count("fail")
    figures = [
        (verdict.grade, "grade", "the worst of the checks"),
        (f"{len(grades) - failed} of {len(grades)}", "checks passed",
         f"{grades.count('at the floor')} at the floor"),
    ]  # fmt: skip
    for measure in assessment.measures:
        if measure.name in _SHOWN and measure.value is not None:
            value, _, error = error_text(measure.value, measure.error).partition(" ± ")
            known = [f"± {error}"] * bool(error)
            known += [] if measure.floor is None else [f"floor {measure.floor:.2g}"]
            where = f", {measure.where}" if measure.where else ""
            figures.append((value, f"{_SHOWN[measure.name]}{where}", ", ".join(known)))
    return KeyFigures(tuple(figures))
