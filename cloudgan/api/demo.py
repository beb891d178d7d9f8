"""The demo: simulates, trains, validates and prices on this machine, and writes a report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.api.cost import cost
from cloudgan.api.cost_page import short_usd
from cloudgan.api.run import Run, loss_graphic
from cloudgan.api.run_options import resolve
from cloudgan.api.showers import simulate_parametric
from cloudgan.api.tensorflow_import import require_tensorflow
from cloudgan.api.train import train_run
from cloudgan.api.validate import validate_demo
from cloudgan.api.validation_page import figure_sections, measures_section, verdict_sections
from cloudgan.api.validation_result import DemoResult
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.reports.page import (
    Bullets,
    Graphic,
    KeyFigures,
    Page,
    Paragraph,
    Section,
    fragment,
    write,
)
from cloudgan.reports.table import Table
from cloudgan.schema.held_out import LEAST_TO_JUDGE, held_out_every
from cloudgan.schema.losses import LOSS_TERMS
from cloudgan.schema.quality import quality_of
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.api.cost import RunCost
    from cloudgan.api.validate import Validation
    from cloudgan.core.progress import Progress
    from cloudgan.schema.ecal_unit import EcalUnit
    from cloudgan.schema.record import RunRecord, Started
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.outcome import Outcome
    from cloudgan.validation.acceptance.assessment import Assessment

SIMULATED = "showers.h5"
SHOWERS = 5000
HELD_OUT_FRACTION = 0.2
MAX_STEPS = 2000
MAX_SECONDS = 180.0
EPOCHS = 1000  # more than the limits above allow
VALIDATE_EVERY = 4
_LEARNED = (
    ("Fréchet physics distance", "fpd", ""),
    ("error of correlations between features", "correlation", "features, rms"),
)
"""Figures that training improves: label, measure and its part."""


@dataclass(frozen=True)
class Demo:
    """Result of a demo; a notebook shows its report.

    Attributes:
        run: The trained run.
        outcome: How the training ended.
        validation: Of the newest checkpoint.
        cost: Of the run.
        report: Path of report.html.
        program_seconds: Duration of the whole demo.
    """

    run: Run
    outcome: Outcome
    validation: Validation
    cost: RunCost
    report: Path
    program_seconds: float

    def result(self) -> DemoResult:
        """Returns all figures."""
        offer = self.cost.cheapest()
        return DemoResult(
            **dict(self.validation.result(report=str(self.report))),
            ended=self.outcome.reason,
            train_seconds=round(self.outcome.train_seconds, 1),
            program_seconds=round(self.program_seconds, 1),
            cost=self.cost.report,
            ending=self.ending(),
            price=f"{short_usd(offer.usd_per_run)} USD on a {offer.row.node_type} as fast as this machine"
            if offer
            else self.cost.own_cost(),
        )

    def ending(self) -> str:
        """Returns why the training ended, as a sentence."""
        return ending(self.outcome.reason, self.outcome.step)

    def _repr_html_(self) -> str:
        page = demo_page(self.run, self.validation, self.cost, self.ending())
        return fragment(page.sections)


def demo(
    *,
    data: str | Path | None = None,
    unit: EcalUnit | None = None,
    run: str | Path = "runs/demo",
    showers: int = SHOWERS,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Demo:
    """Simulates showers, trains a GAN, validates and prices it, and writes report.html.

    Args:
        data: Your own showers instead of simulated ones.
        unit: Unit of ECAL in files that state none, where several fit.
        run: Folder of the run; a demo resumes the run in it.
        showers: Number of showers to simulate; a fifth is held out.
        max_steps: Training stops after this many steps ...
        max_seconds: ... or after this many seconds, whichever comes first.
        seed: Of every random number.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A value is not valid.
        CloudganError: A part failed.
    """
    began = time.perf_counter()
    progress = progress or Silent()
    ranges.check(showers=showers, seed=seed, max_steps=max_steps, max_seconds=max_seconds)
    simulated = RunFolder(run).path / SIMULATED
    simulates = not (data or simulated.exists())
    keys = {
        "data.path": str(data or simulated),
        "data.unit": unit,
        "data.held_out_fraction": HELD_OUT_FRACTION,
        "model.preset": "mini",
        "training.seed": seed,
        "training.epochs": EPOCHS,
        "training.max_steps": max_steps,
        "training.max_seconds": max_seconds,
        "training.validate_every": _validate_every(showers) if simulates else None,
    }
    config, folder = resolve(keys, config=None, run=str(run))
    if simulates:
        folder.refuse_foreign()
        folder.check(config)
        require_tensorflow()
        folder.write_config(config)  # marks the folder as that of a run
        simulate_parametric(simulated, showers, seed=seed, progress=progress)
    outcome = train_run(config, folder, progress, began_seconds=began)
    if outcome is None:
        raise ConfigError(f"{folder.config_file} asks for several workers; a demo has one")
    validation = validate_demo(folder, progress)
    validation.write()
    priced = cost(Run(folder.path))
    progress.start("writing the report")
    trained = Run(folder.path)
    report = folder.path / "report.html"
    write(demo_page(trained, validation, priced, ending(outcome.reason, outcome.step)), report)
    return Demo(trained, outcome, validation, priced, report, time.perf_counter() - began)


def ending(reason: StopReason, step: int) -> str:
    """Returns why the training ended, as a sentence."""
    why = {
        "max_steps": "at the maximum number of steps",
        "max_seconds": "at the time limit",
        "finished": "at the last epoch",
        "plateau": "without further improvement",
    }
    return f"Training ended after {step} steps, {why.get(reason, reason)}."


def _validate_every(showers: int) -> int | None:
    """Returns the default interval; None if too few showers are held out."""
    count = showers // held_out_every(HELD_OUT_FRACTION, showers)
    return VALIDATE_EVERY if count >= LEAST_TO_JUDGE else None


def demo_page(run: Run, validation: Validation, priced: RunCost, ended: str) -> Page:
    """Returns the report of a demo: verdict, figures, losses, speed, cost, provenance.

    Raises:
        DataError: The record holds no start.
    """
    found = run.record
    started = found.started()
    if started is None:
        raise DataError(f"{run.folder.record_file} holds no start of a process")
    untrained = validation.run.untrained if validation.run else None
    return Page(
        title=f"cloudgan: {run.path.name}",
        lead=_lead(validation, ended),
        sections=(
            Section("Summary", (_key_figures(found, validation, priced),)),
            *verdict_sections(validation.assessment, validation.verdict),
            *figure_sections(validation.samples, validation.assessment),
            measures_section(validation.assessment, untrained),
            _losses(found),
            *quality_sections(found),
            _speed(found, started),
            priced.section(),
            _provenance(run, started),
        ),
        footer=f"Written by cloudgan {started.versions.get('cloudgan', '')} from"
        f" {run.folder.record_file.name}. The page loads nothing from the network.",
    )


def _lead(validation: Validation, ended: str) -> str:
    checks = [check for check in validation.verdict.checks if check.measure.applies]
    passed = sum(check.grade != "fail" for check in checks)
    return (
        "A generative adversarial network learned electron showers in a calorimeter on this machine. Its"
        " output layer has each cell's distribution as measured on the training showers; training adds how"
        f" cells and layers vary together. {ended} It passes {passed} of {len(checks)} checks on held-out"
        " showers."
    )


def _key_figures(run: RunRecord, validation: Validation, priced: RunCost) -> KeyFigures:
    rate, steady = run.samples_per_second(), run.steady_epoch_seconds()

    def before(name: str, where: str) -> str:
        untrained = validation.run.untrained if validation.run else None
        value = _value(untrained, name, where) if untrained else None
        return f"untrained {_text(value, '.2g')}"

    return KeyFigures(
        (
            (_text(rate, ".0f"), "showers per second in training", "without the first call"),
            (_text(steady, ".1f", " s"), "per epoch", "median, after the first"),
            *(
                (_text(_value(validation.assessment, *each), ".2g"), label, before(*each))
                for label, *each in _LEARNED
            ),
            priced.key_figure(),
        )
    )


def _value(assessment: Assessment, name: str, where: str) -> float | None:
    return next((m.value for m in assessment.all(name) if m.where == where), None)


def _losses(run: RunRecord) -> Section:
    from cloudgan.reports import drawing

    epochs = run.epochs()
    steps = [float(epoch.step) for epoch in epochs]
    terms: dict[str, list[float | None]] = {
        term: [epoch.losses["generator"][term] for epoch in epochs]
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
                "real/fake: binary cross-entropy; energy and sum: percent; angle: rad.",
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
        name: [each.metrics.get(name) for each in found]
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
    chart = drawing.Chart("throughput", "Throughput", "epoch", "showers per second", from_zero=True)
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
