"""The demo: simulates, trains, validates and prices on this machine, and writes a report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.cost import run_cost
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import Run
from cloudgan.api.run_options import resolve
from cloudgan.api.run_page import ending, run_page
from cloudgan.api.showers import simulate_parametric
from cloudgan.api.tensorflow_import import require_tensorflow
from cloudgan.api.train import train_run
from cloudgan.api.validate import validate_demo
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError
from cloudgan.reports.page import fragment, write
from cloudgan.schema.held_out import LEAST_TO_JUDGE, held_out_every
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.api.cost import RunCost
    from cloudgan.api.validate import Validation
    from cloudgan.core.progress import Progress
    from cloudgan.schema.ecal_unit import EcalUnit
    from cloudgan.training.outcome import Outcome

SIMULATED = "showers.h5"
SHOWERS = 5000
HELD_OUT_FRACTION = 0.2
MAX_STEPS = 2000
MAX_SECONDS = 180.0
EPOCHS = 1000  # more than the limits above allow
VALIDATE_EVERY = 4
INTRODUCTION = (
    "A generative adversarial network learned electron showers in a calorimeter on this machine. Its output"
    " layer has each cell's distribution as measured on the training showers; training adds how cells and"
    " layers vary together."
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

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        facts = {
            "run": str(self.run.path),
            "report": str(self.report),
            "ended": self.outcome.reason,
            "train_seconds": round(self.outcome.train_seconds, 1),
            "program_seconds": round(self.program_seconds, 1),
        }
        return facts | self.validation.as_json() | {"cost": self.cost.as_json()}

    def ending(self) -> str:
        """Returns why the training ended, as a sentence."""
        return ending(self.outcome.reason, self.outcome.step)

    def __repr__(self) -> str:
        return f"<Demo {self.run.path}: {self.ending()} Report: {self.report}>"

    def _repr_html_(self) -> str:
        page = run_page(self.run, self.validation, self.cost, INTRODUCTION)
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
    progress = progress or usual_progress()
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
    priced = run_cost(folder)
    progress.start("writing the report")
    trained = Run(folder.path)
    report = folder.path / "report.html"
    write(run_page(trained, validation, priced, INTRODUCTION), report)
    return Demo(trained, outcome, validation, priced, report, time.perf_counter() - began)


def _validate_every(showers: int) -> int | None:
    """Returns the default interval; None if too few showers are held out."""
    count = showers // held_out_every(HELD_OUT_FRACTION, showers)
    return VALIDATE_EVERY if count >= LEAST_TO_JUDGE else None
