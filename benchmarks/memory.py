"""Peak memory of real training steps beside what is expected of them; and the factors that fit best.

    python benchmarks/memory.py [NETWORKS ...] [--json]

Each case is a process of its own that trains two steps and then reads the most memory it ever had
(VmHWM, so Linux only). `FACTORS`, `PROCESS_BYTES`, `REPLICA_BYTES` and `ERROR` of
cloudgan/models/footprint.py are to be what this prints. All cases take some ten minutes on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from cloudgan.core import settings
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.core.presets import PRESETS
from cloudgan.models import footprint

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
    """All cases of the presets that are `wanted`; of all presets, where none is named."""
    found = [
        Case(name, form, batch)
        for name, batches in BATCHES.items()
        for form in ("published", "fast")
        for batch in batches
    ]
    found += [Case(name, "fast", batch, 2) for name, batch in TWO_REPLICAS.items()]
    return [case for case in found if not wanted or case.preset in wanted]


def train(case: Case) -> int:
    """Trains a few steps in this process; returns its peak in bytes."""
    settings.quiet_tensorflow()  # and with oneDNN, as the program does: Eigen takes more

    import numpy as np
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


def expected(case: Case) -> int:
    """What the program says before it trains."""
    found = footprint.footprint(
        PRESETS[case.preset], formulation=case.formulation, precision="float32"
    )
    # No generator is finished here.
    bare = footprint.Footprint(found.weights, found.shower, found.least, finishing=0)
    return bare.of_process(case.batch, case.replicas)


def factor(case: Case, peak: int, process_bytes: float) -> float:
    """Which factor makes the expected peak the measured one."""
    found = footprint.footprint(
        PRESETS[case.preset], formulation=case.formulation, precision="float32"
    )
    return (peak - process_bytes - found.weights) / (case.batch * found.least)


def fitted(peaks: dict[Case, int]) -> dict[str, float]:
    """The factor of each networks and form, from its largest batch: small ones hardly feel it."""
    single = [case for case in peaks if case.replicas == 1]
    largest = {
        (case.preset, case.formulation): case for case in sorted(single, key=lambda c: c.batch)
    }
    return {
        " ".join(key): round(factor(case, peaks[case], footprint.PROCESS_BYTES), 2)
        for key, case in largest.items()
    }


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
    result: dict[str, Any] = {"factors": fitted(peaks), "largest_error": round(worst, 3)}
    if as_json:
        result["peaks"] = [case._asdict() | {"bytes": peak} for case, peak in peaks.items()]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        print(train(Case(*json.loads(sys.argv[2]))))
    else:
        given = sys.argv[1:]
        main([name for name in given if name != "--json"], as_json="--json" in given)
