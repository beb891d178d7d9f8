"""The page report.html of a run: verdict, figures, losses, cost."""

from __future__ import annotations

from cloudgan.api.cost import RunCost
from cloudgan.api.demo import _losses, quality_sections
from cloudgan.api.run import Run
from cloudgan.api.validate import Validation
from cloudgan.api.validation_page import figure_sections, measures_section, verdict_sections
from cloudgan.reports.page import Page, Section


def run_page(
    run: Run,
    validation: Validation | None = None,
    priced: RunCost | None = None,
    introduction: str = "",
) -> Page:
    """Returns the report of a run."""
    judged: tuple[Section, ...] = ()
    if validation:
        judged = (
            *verdict_sections(validation.assessment, validation.verdict),
            *figure_sections(validation.samples, validation.assessment),
            measures_section(validation.assessment),
        )
    record = run.record
    trained = (_losses(record), *quality_sections(record)) if record.epochs() else ()
    priced_as = (priced.section(),) if priced else ()
    return Page(f"Run {run.path.name}", lead=introduction, sections=(*judged, *trained, *priced_as))
