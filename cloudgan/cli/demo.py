"""`cloudgan demo`: the whole story on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cloudgan.cli.judgement import Judgement, judge_demo
from cloudgan.cli.output import show_json, shown_progress
from cloudgan.cli.pricing import Prices, price
from cloudgan.cli.report import write_report
from cloudgan.cli.run_options import resolve
from cloudgan.cli.train import train_run
from cloudgan.cli.verdict_text import show_verdict
from cloudgan.core.errors import ConfigError
from cloudgan.core.held_back import LEAST_TO_JUDGE, held_back_every
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.training.run import Outcome
    from cloudgan.training.stopping import Reason

SIMULATED = "showers.h5"
SHOWERS = 5000
HELD_BACK_FRACTION = 0.2
MAX_STEPS = 2000
MAX_SECONDS = 180.0
EPOCHS = 1000  # more than the limits above allow
VALIDATE_EVERY = 4


def demo(
    *,
    data: str | None = None,
    run: str = "runs/demo",
    showers: int = SHOWERS,
    max_steps: int = MAX_STEPS,
    max_seconds: float = MAX_SECONDS,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Simulates showers, trains a GAN, judges and prices it, and writes a report; no account needed.

    Takes at most five minutes on two cores. Given again, it continues where it was stopped.

    Args:
        data: Your own showers instead of simulated ones.
        run: Folder of the run; the report is report.html in it.
        showers: How many to simulate; a fifth is held back.
        max_steps: Training stops after this many steps ...
        max_seconds: ... or after this many seconds, whichever comes first.
        seed: Of every random number.
        json: Print the result as JSON.
    """
    began = time.perf_counter()
    if showers < 1:
        raise ConfigError(f"--showers={showers}: at least one")
    simulated = RunFolder(run).path / SIMULATED
    known = not (data or simulated.exists())
    limits = {"training.max_steps": max_steps, "training.max_seconds": max_seconds}
    asked = limits | {
        "data.path": data or str(simulated),
        "data.held_back_fraction": HELD_BACK_FRACTION,
        "model.preset": "mini",
        "training.seed": seed,
        "training.epochs": EPOCHS,
        "training.validate_every": _validate_every(showers) if known else None,
    }
    config, folder = resolve(asked, config=None, run=run)
    with shown_progress(as_json=json) as progress:
        if known:
            _simulate(simulated, showers, seed, progress)
        outcome = _trained(config, folder, progress)
        judgement = judge_demo(folder, progress)
        judgement.write(folder)
        prices = price(folder)
        progress.start("writing the report")
        path = write_report(folder, judgement, prices, ended=ending(outcome.reason, outcome.step))
    seconds = time.perf_counter() - began
    if json:
        facts = {
            "run": str(folder.path),
            "report": str(path),
            "ended": outcome.reason,
            "train_seconds": round(outcome.train_seconds, 1),
            "program_seconds": round(seconds, 1),
        }
        show_json(facts | judgement.as_json() | {"cost": prices.as_json()})
        return
    print(ending(outcome.reason, outcome.step))
    show_verdict(judgement.assessment, judgement.verdict)
    _tell_rest(judgement, prices)
    print(f"{seconds:.0f} s in all; open {path}")


def _tell_rest(judgement: Judgement, prices: Prices) -> None:
    if judgement.not_learned:
        print("Not learned, by the gates of `cloudgan validate`, which ask for more:")
    print("\n".join([*(f"  - {text}" for text in judgement.not_learned), *prices.lines()]))


def ending(reason: Reason, step: int) -> str:
    """Says what ended the training."""
    why = {
        "max_steps": "because that is the number of steps it was given",
        "max_seconds": "because the time it was given was over",
        "finished": "because all epochs were done",
    }
    return f"Training ended after {step} steps, {why.get(reason, reason)}."


def _trained(config: RunConfig, folder: RunFolder, progress: Progress) -> Outcome:
    outcome = train_run(config, folder, progress)
    if outcome is None:
        raise ConfigError(f"{folder.config_file} asks for several workers; a demo has one")
    return outcome


def _validate_every(showers: int) -> int | None:
    """None, which changes nothing, where too few are held back."""
    count = showers // held_back_every(HELD_BACK_FRACTION, showers)
    return VALIDATE_EVERY if count >= LEAST_TO_JUDGE else None


def _simulate(path: Path, showers: int, seed: int, progress: Progress) -> None:
    """Writes simulated showers."""
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = simulate(showers, seed=seed)
    progress.start("simulating showers", showers, "showers")
    attrs = {"source": "cloudgan gflash (parametric)", "seed": seed}
    write_hdf5(path, blocks, attrs=attrs, progress=progress)
