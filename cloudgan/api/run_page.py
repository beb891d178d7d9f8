"""The page report.html of a run: showers, verdict, losses, speed, cost, provenance."""

from __future__ import annotations

from cloudgan.api.cost import RunCost
from cloudgan.api.run import Run, loss_graphic
from cloudgan.api.validate import Validation
from cloudgan.api.validation_page import headline, improvement, validation_sections
from cloudgan.core.errors import DataError
from cloudgan.reports.page import Bullets, Graphic, KeyFigures, Page, Paragraph, Section
from cloudgan.reports.table import Table
from cloudgan.schema.losses import LOSS_TERMS
from cloudgan.schema.quality import quality_of
from cloudgan.schema.record import RunRecord, Started
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.words import in_words
from cloudgan.validation.acceptance.assessment import Assessment

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

    Raises:
        DataError: The record holds no start.
    """
    found = run.record
    started = found.started()
    if started is None:
        raise DataError(f"{run.folder.record_file} holds no start of a process")
    judged: list[Section] = []
    if validation:
        untrained = validation.run.untrained if validation.run else None
        of = (validation.assessment, validation.verdict, validation.samples, untrained)
        judged = list(validation_sections(*of))
    summary = Section("Summary", (_key_figures(found, validation, priced),))
    trained = (
        (_losses(found), *quality_sections(found), _speed(found, started)) if found.epochs() else ()
    )
    return Page(
        title=f"Run {run.path.name}",
        lead=" ".join(filter(None, (introduction, _ending(found), _judgement(validation)))),
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


def _ending(run: RunRecord) -> str:
    stopped, epochs = run.stopped(), run.epochs()
    return ending(stopped.reason, epochs[-1].step) if stopped and epochs else ""


def ending(reason: StopReason, step: int) -> str:
    """Returns why the training ended, as a sentence."""
    why = {
        "max_steps": "at the maximum number of steps",
        "max_seconds": "at the time limit",
        "finished": "at the last epoch",
        "plateau": "without further improvement",
    }
    return f"Training ended after {step:,} steps, {why.get(reason, reason)}."


def _judgement(validation: Validation | None) -> str:
    if validation is None:
        return ""
    said = headline(validation.assessment, validation.verdict)
    untrained = validation.run.untrained if validation.run else None
    learned = f" {improvement(validation.assessment, untrained)}" if untrained else ""
    return f"{said[:1].upper()}{said[1:]}.{learned}"


def _key_figures(
    run: RunRecord, validation: Validation | None, priced: RunCost | None
) -> KeyFigures:
    rate, steady = run.samples_per_second(), run.steady_epoch_seconds()
    untrained = validation.run.untrained if validation and validation.run else None

    def before(name: str, where: str) -> str:
        value = _value(untrained, name, where) if untrained else None
        return f"untrained {_text(value, '.2g')}"

    learned = (
        (_text(_value(validation.assessment, *each), ".2g"), label, before(*each))
        for label, *each in (_LEARNED if validation else ())
        if validation
    )
    return KeyFigures(
        (
            (_text(rate, ".0f"), "showers per second in training", "without the first call"),
            (_text(steady, ".1f", " s"), "per epoch", "median, after the first"),
            *learned,
            *([priced.key_figure()] if priced else []),
        )
    )


def _value(assessment: Assessment, name: str, where: str) -> float | None:
    return next((m.value for m in assessment.all(name) if m.where == where), None)


def _losses(run: RunRecord) -> Section:
    from cloudgan.reports import drawing

    epochs = run.epochs()
    steps = [float(epoch.step) for epoch in epochs]
    terms: dict[str, list[float | None]] = {
        in_words(term): [epoch.losses["generator"][term] for epoch in epochs]
        for term in LOSS_TERMS
        if any(epoch.losses["generator"][term] for epoch in epochs)
    }
    chart = drawing.Chart("terms", "Generator, unweighted terms", "step", "loss", log_y=True)
    return Section(
        "Losses",
        (
            loss_graphic(run),
            Graphic(
                drawing.lines(chart, steps, terms),
                "Terms of the generator's loss, before their weights. Real or fake: binary cross-entropy;"
                " energies: percent; angle: rad.",
            ),
        ),
    )


def quality_sections(run: RunRecord) -> tuple[Section, ...]:
    """Returns the quality metrics over the epochs; nothing if no epoch was validated."""
    from cloudgan.reports import drawing

    found = run.validations()
    if not found:
        return ()
    steps = [float(each.step) for each in found]
    series: dict[str, list[float | None]] = {
        in_words(name): [each.metrics.get(name) for each in found]
        for name in dict.fromkeys(name for each in found for name in each.metrics)
    }
    chart = drawing.Chart("quality", "Quality", "step", "distance from Monte Carlo", log_y=True)
    return (
        Section(
            "Quality during training",
            (
                Graphic(
                    drawing.lines(chart, steps, series),
                    f"Of {found[-1].showers} generated showers against as many held-out ones, the"
                    f" same at each validation; lower is better. {quality_of(found)}; the best"
                    " checkpoint is kept (--step=best).",
                ),
            ),
        ),
    )


def _speed(run: RunRecord, started: Started) -> Section:
    from cloudgan.reports import drawing

    epochs = run.epochs()
    chart = drawing.Chart(
        "throughput", "Throughput", "epoch", "showers per second", from_zero=True, height_inches=2.4
    )
    rates: list[float | None] = [epoch.samples_per_second or None for epoch in epochs]
    return Section(
        "Speed",
        (
            Graphic(
                drawing.lines(chart, [float(e.epoch + 1) for e in epochs], {"training": rates}),
                f"Training alone, on {started.hardware.describe()}, batch"
                f" {started.numerics.global_batch_size}.",
            ),
            _durations(run, started),
        ),
    )


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


def _text(value: float | None, form: str, unit: str = "") -> str:
    return "unknown" if value is None else f"{value:{form}}{unit}"
