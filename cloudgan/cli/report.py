"""The page that `demo` writes: what was trained, what it learned, how fast, for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.validation_page import figure_sections, numbers_section, verdict_sections
from cloudgan.core import record
from cloudgan.core.quality import quality_of
from cloudgan.reports import curves
from cloudgan.reports.page import (
    Bullets,
    Graphic,
    KeyFigures,
    Page,
    Paragraph,
    Section,
    Table,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.cli.judgement import Judgement
    from cloudgan.cli.pricing import Prices
    from cloudgan.core.record import RunRecord, Started
    from cloudgan.reports.page import Block
    from cloudgan.run_folder import RunFolder
    from cloudgan.validation.assessment import Assessment


def write_report(folder: RunFolder, judgement: Judgement, prices: Prices, *, ended: str) -> Path:
    """Writes report.html into the run's folder and returns its path."""
    run = record.read(folder.record_file)
    started = run.started()
    if started is None:
        raise ValueError(f"{folder.record_file} has no start")
    page = Page(
        title=f"cloudgan: {folder.path.name}",
        lead=_lead(judgement, ended),
        sections=(
            Section("In short", (_key_figures(run, judgement, prices),)),
            *verdict_sections(judgement.assessment, judgement.verdict),
            _not_learned(judgement),
            *figure_sections(judgement.samples, judgement.assessment),
            numbers_section(judgement.assessment, judgement.untrained),
            _losses(run),
            *quality_sections(run),
            _speed(run, started),
            prices.section(),
            _provenance(folder, started),
        ),
        footer=f"Written by cloudgan {started.versions.get('cloudgan', '')} from"
        f" {folder.record_file.name}; nothing on this page is loaded from elsewhere.",
    )
    path = folder.path / "report.html"
    write(page, path)
    return path


def _lead(judgement: Judgement, ended: str) -> str:
    passed = sum(check.grade != "fail" for check in judgement.verdict.checks)
    return (
        f"A generative adversarial network learned electron showers in a calorimeter on this"
        f" machine. {ended} It passes {passed} of {len(judgement.verdict.checks)} checks on showers"
        " it never saw; what it did not learn stands below."
    )


def _key_figures(run: RunRecord, judgement: Judgement, prices: Prices) -> KeyFigures:
    rate, steady = run.samples_per_second(), run.steady_epoch_seconds()
    profile, untrained = (_profile(each) for each in (judgement.assessment, judgement.untrained))
    return KeyFigures(
        (
            (_text(rate, ".0f"), "showers per second in training", "first call left out"),
            (_text(steady, ".1f", " s"), "per epoch", "median, after the first"),
            (
                _text(profile, ".1%"),
                "mean error of the longitudinal profile",
                f"untrained {_text(untrained, '.0%')}",
            ),
            prices.key_figure(),
        )
    )


def _profile(assessment: Assessment) -> float | None:
    return next(m.value for m in assessment.all("profile_z") if m.where == "core")


def _not_learned(judgement: Judgement) -> Section:
    told: Block = Paragraph("Nothing that the shipped gates ask for.")
    if judgement.not_learned:
        told = Bullets(judgement.not_learned)
    return Section(
        "What it did not learn",
        (
            Paragraph("By the gates of cloudgan validate, which ask for more than a demo can:"),
            told,
        ),
    )


def _losses(run: RunRecord) -> Section:
    epochs = run.epochs()
    steps = [float(epoch.step) for epoch in epochs]
    totals: dict[str, list[float | None]] = {}
    for name in epochs[0].losses:
        label = name.replace("_", ", ")
        totals[label] = [epoch.losses[name]["total"] for epoch in epochs]
        totals[f"{label}, held back"] = [
            epoch.test_losses[name]["total"] if epoch.test_losses else None for epoch in epochs
        ]
    terms = {
        term: [epoch.losses["generator"][term] for epoch in epochs]
        for term in ("real_fake", "energy", "angle", "ecal_sum", "longitudinal")
    }
    return Section(
        "Losses",
        (
            Graphic(
                curves.lines(_loss_chart("losses", "Weighted totals"), steps, totals),
                "Mean over each epoch. The losses of a GAN do not fall to zero: the two networks"
                " hold each other up.",
            ),
            Graphic(
                curves.lines(_loss_chart("terms", "Generator, unweighted terms"), steps, terms),
                "real/fake: binary cross-entropy; energy and sum: percent; angle: rad.",
            ),
        ),
    )


def quality_sections(run: RunRecord) -> tuple[Section, ...]:
    """The numbers after epochs; nothing where no epoch was validated."""
    found = run.validations()
    if not found:
        return ()
    steps = [float(each.step) for each in found]
    series: dict[str, list[float | None]] = {
        name: [each.numbers.get(name) for each in found]
        for name in dict.fromkeys(name for each in found for name in each.numbers)
    }
    chart = curves.Chart("quality", "Quality", "step", "distance from Monte Carlo", log_y=True)
    return (
        Section(
            "Quality while it trained",
            (
                Graphic(
                    curves.lines(chart, steps, series),
                    f"Of {found[-1].showers} generated showers beside as many held-back ones, the"
                    f" same each time; less is better. {quality_of(found)}; the checkpoint of the"
                    " best is kept (--step=best).",
                ),
            ),
        ),
    )


def _loss_chart(name: str, title: str) -> curves.Chart:
    return curves.Chart(name, title, "step", "loss", log_y=True)


def _speed(run: RunRecord, started: Started) -> Section:
    epochs = run.epochs()
    chart = curves.Chart("throughput", "Throughput", "epoch", "showers per second", from_zero=True)
    rates: list[float | None] = [epoch.samples_per_second or None for epoch in epochs]
    return Section(
        "Speed",
        (
            Graphic(
                curves.lines(chart, [float(e.epoch + 1) for e in epochs], {"training": rates}),
                f"Training alone, on {started.hardware.describe()}, batch"
                f" {started.numerics.global_batch_size}.",
            ),
            _durations(run, started),
        ),
    )


def _durations(run: RunRecord, started: Started) -> Table:
    epochs, wheels = run.epochs(), started.wheels
    installed = [("wheels, fetched and installed before", wheels.seconds)] if wheels else []
    rows = (
        *installed,
        ("start-up, until the first step", started.startup_seconds),
        ("first epoch, with tracing", run.first_epoch_seconds()),
        ("of it tracing and compiling", epochs[0].trace_seconds),
        ("steady epoch, median", run.steady_epoch_seconds()),
        ("all validation", sum(epoch.validation_seconds for epoch in epochs)),
        ("all checkpoints", sum(epoch.checkpoint_seconds for epoch in epochs)),
        ("program, start to end", run.program_seconds()),
    )
    return Table(
        ("part", "seconds"),
        tuple((name, None if s is None else round(s, 1)) for name, s in rows),
        "Where the time went.",
    )


def _provenance(folder: RunFolder, started: Started) -> Section:
    config = folder.read_config()
    preset = config.model if config else None
    facts = [
        f"Training showers: {started.training_showers}; held back: {started.held_back_showers}.",
        *started.told,
        (
            f"Strategy {started.strategy}, loop {started.loop}, precision"
            f" {started.numerics.precision}, {started.numerics.threads} threads,"
            f" {started.numerics.kernels}, configuration {started.config_hash}."
        ),
        "Versions: " + ", ".join(f"{name} {v}" for name, v in started.versions.items()) + ".",
        *([f"Image: {started.image}."] if started.image else []),
        f"Commit: {started.git_commit or 'unknown (installed package)'}.",
    ]
    method = (
        "Networks and losses follow the 3DGAN of arXiv:2111.04628, made smaller for a laptop:"
        " the central 17 x 17 cells, sub-pixel output, averaged generator, a longitudinal term."
        if preset and preset.networks == "mini"
        else "Networks and losses follow the 3DGAN of arXiv:2111.04628."
    )
    return Section("How it was made", (Paragraph(method), Bullets(tuple(facts))))


def _text(value: float | None, form: str, unit: str = "") -> str:
    return "unknown" if value is None else f"{value:{form}}{unit}"
