"""The page report.html of a run: showers, verdict, losses, speed, cost, provenance; written when a training ends."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cloudgan.api.cost import price
from cloudgan.api.run import Run, loss_chart
from cloudgan.core.errors import CloudganError, DataError, counted
from cloudgan.core.progress import Progress
from cloudgan.data.held_out import LEAST_TO_COMPARE
from cloudgan.money.run_cost import RunCost
from cloudgan.reports.charts import Axis, Line, Plot
from cloudgan.reports.page import Bullets, KeyFigures, Page, Paragraph, Section, write
from cloudgan.reports.table import Table
from cloudgan.reports.words import in_words
from cloudgan.schema import record
from cloudgan.schema.losses import LOSS_TERMS
from cloudgan.schema.options.showers import ValidateOptions
from cloudgan.schema.quality import quality_of
from cloudgan.schema.record import RunRecord, Started
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.validation.assessment import Assessment
from cloudgan.validation.page import headline
from cloudgan.validation.result import RUN_SHOWERS, Validation

_LEARNED = (
    ("Fréchet physics distance", "fpd", ""),
    ("error of correlations between features", "correlation", "features, rms"),
)
"""Figures that training improves: label, measure and its part."""


def run_page(
    run: Run,
    validation: Validation | None = None,
    priced: RunCost | None = None,
    introduction: str = "",
) -> Page:
    """Returns the report of a run.

    Args:
        run: With at least one process that started.
        validation: Of its generator; None: it was not validated after the training.
        priced: Its cost; None: not shown.
        introduction: First sentences.
    """
    found = run.record
    started = found.started()
    if started is None:
        raise DataError(f"{run.folder.record_file} holds no start of a process")
    stopped, epochs, said = found.stopped(), found.epochs(), [introduction]
    if stopped and epochs:
        said.append(ending(stopped.reason, epochs[-1].step))
    judged: list[Section] = []
    if validation:
        judged = list(validation.sections())
        grade = headline(validation.assessment, validation.verdict)
        said.append(f"{grade[:1].upper()}{grade[1:]}.")
        said.append(validation.run.change if validation.run else "")
    summary = Section("Summary", (_key_figures(found, validation, priced),))
    trained = (_losses(found), *quality_sections(found), _speed(found, started)) if epochs else ()
    return Page(
        title=f"Run {run.path.name}",
        lead=" ".join(filter(None, said)),
        sections=(
            *judged[:1],
            summary,
            *judged[1:],
            *trained,
            *([priced.section()] if priced else []),
            _provenance(run, started),
        ),
        footer=f"Written by cloudgan {started.versions.get('cloudgan', '')} from"
        f" {run.folder.record_file.name}. The page loads nothing from the network.",
    )


def ending(reason: StopReason, step: int) -> str:
    """Returns why the training ended, as a sentence."""
    why = {
        "max_steps": "at the maximum number of steps",
        "max_seconds": "at the time limit",
        "finished": "at the last epoch",
        "plateau": "without further improvement",
    }
    return f"Training ended after {counted(step, 'step')}, {why.get(reason, reason)}."


def _key_figures(
    run: RunRecord, validation: Validation | None, priced: RunCost | None
) -> KeyFigures:
    def text(value: float | None, form: str, unit: str = "") -> str:
        return "unknown" if value is None else f"{value:{form}}{unit}"

    def measured(assessment: Assessment | None, name: str, where: str) -> str:
        found = assessment.all(name) if assessment else ()
        return text(next((m.value for m in found if m.where == where), None), ".2g")

    figures = [
        (text(run.samples_per_second(), ".0f"), "showers per second in training", "without the first call"),
        (text(run.steady_epoch_seconds(), ".1f", " s"), "per epoch", "median, after the first"),
    ]  # fmt: skip
    for label, name, where in _LEARNED if validation else ():
        untrained = validation.run.untrained if validation and validation.run else None
        assessment = validation.assessment if validation else None
        before = measured(untrained, name, where)
        figures.append((measured(assessment, name, where), label, f"untrained {before}"))
    return KeyFigures((*figures, *([priced.key_figure()] if priced else [])))


def _losses(run: RunRecord) -> Section:
    epochs = run.epochs()
    terms = [term for term in LOSS_TERMS if any(one.losses["generator"][term] for one in epochs)]
    steps = tuple(float(epoch.step) for epoch in epochs)
    lines = tuple(
        Line(in_words(term), steps, tuple(one.losses["generator"][term] for one in epochs))
        for term in terms
    )
    chart = Plot(
        "Generator, unweighted terms", Axis("step"), Axis("loss", log=True), lines=lines,
        caption="Terms of the generator's loss, before their weights. Real or fake: binary cross-entropy;"
        " energies: percent; angle: rad.",
    )  # fmt: skip
    return Section("Losses", (loss_chart(run), chart))


def quality_sections(run: RunRecord) -> tuple[Section, ...]:
    """Returns the quality metrics over the epochs; nothing if no epoch was validated."""
    found = run.validations()
    if not found:
        return ()
    steps = tuple(float(each.step) for each in found)
    lines = tuple(
        Line(in_words(name), steps, tuple(each.metrics.get(name) for each in found))
        for name in dict.fromkeys(name for each in found for name in each.metrics)
    )
    chart = Plot(
        "Quality", Axis("step"), Axis("distance from Monte Carlo", log=True), lines=lines,
        caption=f"Of {found[-1].showers} generated showers against as many held-out ones, the same at each"
        f" validation; lower is better. {quality_of(found)}; the best checkpoint is kept (--step=best).",
    )  # fmt: skip
    return (Section("Quality during training", (chart,)),)


def _speed(run: RunRecord, started: Started) -> Section:
    epochs = run.epochs()
    x = tuple(float(epoch.epoch + 1) for epoch in epochs)
    rates = tuple(epoch.samples_per_second or None for epoch in epochs)
    chart = Plot(
        "Throughput", Axis("epoch"), Axis("showers per second", from_zero=True),
        lines=(Line("training", x, rates),),
        caption=f"Training alone, on {started.hardware.describe()}, batch"
        f" {started.numerics.global_batch_size}.",
    )  # fmt: skip
    return Section("Speed", (chart, _durations(run, started)))


def _durations(run: RunRecord, started: Started) -> Table:
    epochs, wheels = run.epochs(), started.wheels
    installed = [("wheels: download and installation", wheels.seconds)] if wheels else []
    rows = (
        *installed,
        ("start-up, to the first step", started.startup_seconds),
        ("first epoch, with tracing", run.first_epoch_seconds()),
        ("of which tracing and compiling", epochs[0].trace_seconds),
        ("steady epoch, median", run.steady_epoch_seconds()),
        ("all validation", sum(epoch.validation_seconds for epoch in epochs)),
        ("all checkpoints", sum(epoch.checkpoint_seconds for epoch in epochs)),
        ("program, start to end", run.program_seconds()),
    )
    return Table(
        ("part", "seconds"),
        tuple((name, None if s is None else round(s, 1)) for name, s in rows),
        "Duration of each part.",
    )


def _provenance(run: Run, started: Started) -> Section:
    config = run.folder.read_config()
    preset = config.model if config else None
    facts = [
        f"Training showers: {started.training_showers}; held out: {started.held_out_showers}.",
        *started.notes,
        (
            f"Strategy {started.strategy}, loop {started.loop}, precision"
            f" {started.numerics.precision}, {started.numerics.threads} threads,"
            f" {started.numerics.math_library}, configuration {started.config_hash}."
        ),
        "Versions: " + ", ".join(f"{name} {v}" for name, v in started.versions.items()) + ".",
        *([f"Image: {started.image}."] if started.image else []),
        f"Commit: {started.git_commit or 'unknown (installed package)'}.",
    ]
    method = (
        "Networks and losses follow the 3DGAN of arXiv:2111.04628, made smaller for a laptop:"
        " the central 17 x 17 cells, sub-pixel output, EMA generator, a longitudinal term."
        if preset and preset.networks == "mini"
        else "Networks and losses follow the 3DGAN of arXiv:2111.04628."
    )
    return Section("Provenance", (Paragraph(method), Bullets(tuple(facts))))


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
        found = price(folder)
        has_price = found.report.priced_as or found.report.billed_attempts
        priced = found if has_price else None
        page = run_page(Run(folder.path), validation, priced, introduction)
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
    validation = validate_run(folder, progress, ValidateOptions(showers=showers), classify=False)
    return validation, f"{few} {all_of_them}" if showers < min(held_out, RUN_SHOWERS) else ""
