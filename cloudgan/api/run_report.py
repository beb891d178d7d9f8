"""Writes report.html at the end of a training, unless it would take long beside it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cloudgan.api.cost import price
from cloudgan.api.run import Run
from cloudgan.api.run_page import run_page
from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Progress
from cloudgan.money.run_cost import RunCost
from cloudgan.reports.page import write
from cloudgan.schema import record
from cloudgan.schema.held_out import LEAST_TO_COMPARE
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.validation.validation import RUN_SHOWERS, Validation

REPORT = "report.html"
SHORT_SECONDS = 20.0
"""Training as short gets no page, which takes about 10 s on two cores: `cloudgan validate --report` writes one."""
_SECONDS = 10.0
"""Of training: so many showers are generated, which takes less time each than a training step."""


class WrittenReport(NamedTuple):
    """The page, or why there is none; neither: the training was short."""

    path: Path | None
    why_missing: str = ""


def write_report(
    folder: RunFolder, progress: Progress, *, least_seconds: float = SHORT_SECONDS
) -> WrittenReport:
    """Writes the page of a run into its folder; a page that cannot be written fails no training.

    Args:
        folder: Of the run.
        progress: Receives each task.
        least_seconds: A run that trained less gets no page.
    """
    stopped = record.read_if_whole(folder.record_file).stopped()
    if (stopped.train_seconds if stopped else 0.0) < least_seconds:
        return WrittenReport(None)
    progress.start(f"writing {REPORT}")
    path = folder.path / REPORT
    try:
        validation, introduction = _validation(folder, progress)
        progress.start(f"drawing the figures of {REPORT}")
        page = run_page(Run(folder.path), validation, _price(folder), introduction)
        write(page, path)
    except CloudganError as error:
        return WrittenReport(None, f"no {REPORT}: {error}")
    return WrittenReport(path)


def _validation(folder: RunFolder, progress: Progress) -> tuple[Validation | None, str]:
    """Compares with held-out showers, as many as take little time; returns why not with all, or not at all."""
    found = record.read(folder.record_file)
    started, rate = found.started(), found.samples_per_second() or 0.0
    held_out = started.held_out_showers if started else 0
    showers = min(held_out, RUN_SHOWERS, max(LEAST_TO_COMPARE, int(rate * _SECONDS)))
    if showers < LEAST_TO_COMPARE:
        return None, f"With {held_out} held-out showers nothing can be compared with Monte Carlo."
    from cloudgan.api.validate_run import validate_run

    few = (
        f"{showers:,} of {held_out:,} held-out showers were compared, as many as take little time."
    )
    all_of_them = (
        f"`cloudgan validate {shown_run(folder.path)}` compares more, also by classifiers."
    )
    validation = validate_run(folder, progress, showers=showers, classify=False)
    return validation, f"{few} {all_of_them}" if showers < min(held_out, RUN_SHOWERS) else ""


def _price(folder: RunFolder) -> RunCost | None:
    """Returns the cost if the run's machine has a price."""
    found = price(folder)
    return found if found.report.priced_as or found.report.billed_attempts else None
