"""Peak memory of real training steps beside what is expected of them; and the rows of the table that fit best.

    python benchmarks/memory.py [paper|fixed25|mini|smoke ...] [published|phases|fft ...] [--json]

Each case is a process of its own that trains two steps and then reads the most memory it ever had
(VmHWM, so Linux only). `memory` of each profile in cloudgan/schema/presets.py and `ERROR` of cloudgan/gan/footprint.py are what this
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
from cloudgan.core.documents import parse_json
from cloudgan.core.hardware import peak_memory_bytes
from cloudgan.gan import footprint
from cloudgan.gan.convolutions import CONV_IMPLS
from cloudgan.schema.presets import PROFILES, find_preset

STEPS = 2


class Case(NamedTuple):
    """What one process trains."""

    preset: str
    conv_impl: str
    batch: int
    replicas: int = 1


def cases(wanted: list[str]) -> list[Case]:
    """Returns the cases of the presets and conv_impls in `wanted`; default: all."""
    names = [name for name in PROFILES if name in wanted] or list(PROFILES)
    impls = [impl for impl in CONV_IMPLS if impl in wanted] or list(CONV_IMPLS)
    single = [
        Case(name, impl, batch)
        for name in names
        for impl in impls
        for batch in PROFILES[name].memory_batches
    ]
    pairs = [(name, PROFILES[name].memory_batch_of_two) for name in names]
    return single + [Case(name, impl, size, 2) for name, size in pairs if size for impl in impls]


def train(case: Case) -> int:
    """Trains a few steps in this process; returns its peak in bytes."""
    settings.quiet_tensorflow()  # and with oneDNN, as the program does: Eigen takes more

    import tensorflow as tf

    from cloudgan.schema.config import parse_config
    from cloudgan.schema.training_config import TrainingConfig
    from cloudgan.training.gan import build_gan
    from cloudgan.training.rng import Rng
    from cloudgan.training.step import GanStep
    from cloudgan.training.tensorflow_backend import choose_strategy, make_strategy, set_up_devices
    from cloudgan.training.tensorflow_engine import compile_steps, dummy_batches, no_votes

    asked = {"replicas": case.replicas} if case.replicas > 1 else {}
    set_up_devices(TrainingConfig(**asked), threads=2)
    config = parse_config({"model": {"preset": case.preset}, "training": asked}, "benchmark")
    strategy = make_strategy(config, choose_strategy(config.training, None))
    preset, rng = config.model, Rng(0)
    with strategy.scope():
        gan = build_gan(preset, rng, conv_impl=case.conv_impl)
    size = case.batch * case.replicas
    target = np.full(preset.image_shape[2], 8e-4)
    step = GanStep(gan, preset, rng, global_batch_size=size, layer_target=target)
    run = compile_steps(strategy, step)
    blank = dummy_batches(case.batch, preset.image_shape)
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
        find_preset(case.preset), conv_impl=case.conv_impl, precision="float32"
    )
    return dataclasses.replace(found, finishing=0)


def expected(case: Case) -> int:
    """What the program says before it trains."""
    return footprint_of(case).of_process(case.batch, case.replicas)


def fitted(peaks: dict[Case, int]) -> dict[str, str]:
    """Returns `NetworkProfile.memory` of all networks: least squares of relative errors."""
    rows = {}
    for preset, conv_impl in sorted({case[:2] for case in peaks}):
        alike = [c for c in peaks if c[:2] == (preset, conv_impl) and c.replicas == 1]
        taken = footprint_of(alike[0])
        kept = np.array([[1.0, case.batch * taken.least] for case in alike])
        found = np.array([peaks[case] for case in alike], float)
        (process, factor), *_ = np.linalg.lstsq(
            kept / found[:, None], (found - taken.weights) / found
        )
        rows[f"{preset} {conv_impl}"] = f"MeasuredMemory({process / 2**20:.0f}, {factor:.2f})"
    return rows


def main(wanted: list[str], *, as_json: bool) -> None:
    """Measures all cases and prints them beside what was expected."""
    peaks = {}
    for case in cases(wanted):
        peaks[case] = in_a_process(case)
        off = expected(case) / peaks[case] - 1
        print(
            f"{case.preset:8} {case.conv_impl:10} batch {case.batch:5} x {case.replicas}: measured"
            f" {peaks[case] / 2**20:6.0f} MiB, expected {expected(case) / 2**20:6.0f} ({off:+.1%})",
            file=sys.stderr if as_json else sys.stdout,
            flush=True,
        )
    worst = max(abs(expected(case) / peak - 1) for case, peak in peaks.items())
    result: dict[str, Any] = {
        "measured": fitted(peaks),
        "largest_error": round(worst, 3),
    }
    if as_json:
        result["peaks"] = [case._asdict() | {"bytes": peak} for case, peak in peaks.items()]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        print(train(Case(*parse_json(sys.argv[2], "case"))))
    else:
        given = sys.argv[1:]
        main([name for name in given if name != "--json"], as_json="--json" in given)
