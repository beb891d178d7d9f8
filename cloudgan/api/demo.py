"""The demo: simulates, trains, validates and prices on this machine, and writes a report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from cloudgan.api.cost import run_cost
from cloudgan.api.run import Run
from cloudgan.api.run_page import ending, run_page
from cloudgan.api.showers import simulate_parametric
from cloudgan.api.train import train_run
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.data.held_out import LEAST_TO_JUDGE, held_out_every
from cloudgan.money.run_cost import RunCost
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import fragment, write
from cloudgan.reports.table import usd_text
from cloudgan.schema.options.showers import DemoOptions, ValidateOptions
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.run_options import resolve
from cloudgan.training.stopping import Outcome
from cloudgan.training.tensorflow_import import require_tensorflow
from cloudgan.validation.result import DemoResult, Validation

SIMULATED = "showers.h5"
HELD_OUT_FRACTION = 0.2
EPOCHS = 1000  # more than the limits above allow
VALIDATE_EVERY = 4
INTRODUCTION = (
    "A generative adversarial network learned electron showers in a calorimeter on this machine. Its output"
    " layer has each cell's distribution as measured on the training showers; training corrects what"
    " they leave."
)


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
            price=f"{usd_text(offer.usd_per_run)} USD on a {offer.row.node_type} as fast as this machine"
            if offer and offer.usd_per_run is not None
            else self.cost.own_cost(),
        )

    def ending(self) -> str:
        """Returns why the training ended, as a sentence."""
        return ending(self.outcome.reason, self.outcome.step)

    def __repr__(self) -> str:
        return f"<Demo {self.run.path}: {self.ending()} Report: {self.report}>"

    def _repr_html_(self) -> str:
        page = run_page(self.run, self.validation, self.cost, INTRODUCTION)
        return fragment(page.sections)


@command
def demo(options: DemoOptions, *, progress: Progress | None = None) -> Demo:
    """Simulates showers, trains a GAN, validates and prices it, and writes report.html.

    Args:
        options: How large it is.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A value is not valid.
        CloudganError: A part failed.
    """
    began = time.perf_counter()
    progress = progress or usual_progress()
    simulated = RunFolder(options.run).path / SIMULATED
    simulates = not (options.data or simulated.exists())
    held_out = options.showers // held_out_every(HELD_OUT_FRACTION, options.showers)
    validates = simulates and held_out >= LEAST_TO_JUDGE
    keys = {
        "data.path": str(options.data or simulated),
        "data.unit": options.unit,
        "data.held_out_fraction": HELD_OUT_FRACTION,
        "model.preset": "mini",
        "training.seed": options.seed,
        "training.epochs": EPOCHS,
        "training.max_steps": options.max_steps,
        "training.max_seconds": options.max_seconds,
        "training.validate_every": VALIDATE_EVERY if validates else None,
    }
    config, folder = resolve(keys, config=None, run=options.run)
    if simulates:
        folder.refuse_foreign()
        folder.check(config)
        require_tensorflow()
        folder.write_config(config)  # marks the folder as that of a run
        simulate_parametric(simulated, options.showers, seed=options.seed, progress=progress)
    outcome = train_run(config, folder, progress, began_seconds=began)
    if outcome is None:
        raise ConfigError(f"{folder.config_file} asks for several workers; a demo has one")
    from cloudgan.api.validate_run import validate_run

    validation = validate_run(folder, progress, ValidateOptions())
    validation.write()
    priced = run_cost(folder)
    progress.start("writing the report")
    trained = Run(folder.path)
    report = folder.path / "report.html"
    write(run_page(trained, validation, priced, INTRODUCTION), report)
    return Demo(trained, outcome, validation, priced, report, time.perf_counter() - began)
