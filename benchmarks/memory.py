"""Peak memory of real training steps beside what is expected of them; and the rows of the table that fit best.

    python benchmarks/memory.py [paper|fixed25|mini|smoke ...] [published|phases|transforms ...] [--json]

Each case is a process of its own that trains two steps and then reads the most memory it ever had
(VmHWM, so Linux only). `MEASURED` and `ERROR` of cloudgan/models/footprint.py are to be what this
prints. All cases take some fifteen minutes on two cores.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np

from cloudgan.core import settings
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.core.presets import PRESETS
from cloudgan.models import footprint
from cloudgan.models.formulation import FORMULATIONS

STEPS = 2
BATCHES = {
    "paper": (1, 2, 4, 8),
    "fixed25": (4, 16, 32),
    "mini": (8, 32, 128, 512),
    "smoke": (8, 32, 256, 2048),
}
TWO_REPLICAS = {"paper": 2, "mini": 128}


class Case(NamedTuple):
    """What one process trains."""

    preset: str
    formulation: str
    batch: int
    replicas: int = 1


def cases(wanted: list[str]) -> list[Case]:
    """All cases of the presets and forms that are `wanted`; where none is named, of all."""
    presets = [name for name in BATCHES if name in wanted] or list(BATCHES)
    forms = [form for form in FORMULATIONS if form in wanted] or list(FORMULATIONS)
    found = [
        Case(name, form, batch) for name in presets for form in forms for batch in BATCHES[name]
    ]
    twice = (name for name in presets if name in TWO_REPLICAS)
    return found + [Case(name, form, TWO_REPLICAS[name], 2) for name in twice for form in forms]


def train(case: Case) -> int:
    """Trains a few steps in this process; returns its peak in bytes."""
    settings.quiet_tensorflow()  # and with oneDNN, as the program does: Eigen takes more

    import tensorflow as tf

    from cloudgan.core.config import TrainingConfig, parse_config
    from cloudgan.training.draws import Draws
    from cloudgan.training.gan import Rates, build_gan
    from cloudgan.training.session import compile_steps, no_votes
    from cloudgan.training.step import GanStep
    from cloudgan.training.strategy import choose, make_strategy, set_up_devices
    from cloudgan.training.warming import blank_batches

    asked = {"replicas": case.replicas} if case.replicas > 1 else {}
    set_up_devices(TrainingConfig(**asked), threads=2)
    config = parse_config({"model": {"preset": case.preset}, "training": asked}, "benchmark")
    strategy = make_strategy(config, choose(config.training, None))
    preset, draws = config.model, Draws(0)
    with strategy.scope():
        gan = build_gan(
            preset,
            draws,
            seed=0,
            precision="float32",
            synchronized=False,
            rates=Rates(1e-4, 1e-4),
            formulation=case.formulation,
        )
    size = case.batch * case.replicas
    target = np.full(preset.image_shape[2], 8e-4)
    step = GanStep(gan, preset, draws, global_batch_size=size, layer_target=target)
    run = compile_steps(strategy, step)
    blank = blank_batches(case.batch, preset.image_shape)
    batches = iter(strategy.distribute_datasets_from_function(lambda _: blank))
    for _ in range(STEPS):
        run(batches, tf.constant(1, tf.int32), no_votes())[0].numpy()
    return peak_memory_bytes() or 0


def in_a_process(case: Case) -> int:
    """Trains a case in a new process; returns its peak in bytes."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--case", json.dumps(case)],
        env=settings.child_environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"),
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[-1])


def footprint_of(case: Case) -> footprint.Footprint:
    """What the program expects of a case; no generator is finished here."""
    found = footprint.footprint(
        PRESETS[case.preset], formulation=case.formulation, precision="float32"
    )
    return dataclasses.replace(found, finishing=0)


def expected(case: Case) -> int:
    """What the program says before it trains."""
    return footprint_of(case).of_process(case.batch, case.replicas)


def fitted(peaks: dict[Case, int]) -> dict[str, str]:
    """The row of `MEASURED` for all networks and formulations: least squares of relative errors."""
    rows = {}
    for preset, formulation in sorted({case[:2] for case in peaks}):
        alike = [c for c in peaks if c[:2] == (preset, formulation) and c.replicas == 1]
        taken = footprint_of(alike[0])
        kept = np.array([[1.0, case.batch * taken.least] for case in alike])
        found = np.array([peaks[case] for case in alike], float)
        (process, factor), *_ = np.linalg.lstsq(
            kept / found[:, None], (found - taken.weights) / found
        )
        rows[f"{preset} {formulation}"] = f"Measured({process / 2**20:.0f}, {factor:.2f})"
    return rows


def main(wanted: list[str], *, as_json: bool) -> None:
    """Measures all cases and prints them beside what was expected."""
    peaks = {}
    for case in cases(wanted):
        peaks[case] = in_a_process(case)
        off = expected(case) / peaks[case] - 1
        print(
            f"{case.preset:8} {case.formulation:10} batch {case.batch:5} x {case.replicas}: measured"
            f" {peaks[case] / 2**20:6.0f} MiB, expected {expected(case) / 2**20:6.0f} ({off:+.1%})",
            file=sys.stderr if as_json else sys.stdout,
            flush=True,
        )
    worst = max(abs(expected(case) / peak - 1) for case, peak in peaks.items())
    result: dict[str, Any] = {"measured": fitted(peaks), "largest_error": round(worst, 3)}
    if as_json:
        result["peaks"] = [case._asdict() | {"bytes": peak} for case, peak in peaks.items()]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        print(train(Case(*json.loads(sys.argv[2]))))
    else:
        given = sys.argv[1:]
        main([name for name in given if name != "--json"], as_json="--json" in given)
