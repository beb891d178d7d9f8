"""One training step of mini at batch 32: showers/s, and how much oneDNN gains, in one run.

Both settings take turns in processes of their own, because TensorFlow reads the setting once; the
ratio is of the best rounds, since other work on the machine only ever slows a round down.
"""

from __future__ import annotations

import subprocess
import sys

from cloudgan.core.settings import child_environment

BATCH = 32
STEPS = 20
ROUNDS = 3
SETTINGS = {"oneDNN": "1", "Eigen": "0"}


def measure() -> float:
    """Returns showers per second of the compiled step, tracing left out."""
    import time

    import numpy as np
    import tensorflow as tf

    from cloudgan.core.presets import PRESETS
    from cloudgan.training.draws import Draws
    from cloudgan.training.gan import Rates, build_gan
    from cloudgan.training.step import GanStep

    preset, draws = PRESETS["mini"], Draws(0)
    gan = build_gan(
        preset, draws, seed=0, precision="float32", synchronized=False, rates=Rates(1e-3, 1e-3)
    )
    step = GanStep(gan, preset, draws, global_batch_size=BATCH, layer_target=np.full(25, 8e-4))
    image = np.random.default_rng(0).gamma(0.05, 1.0, (BATCH, *preset.image_shape, 1))
    batch = {
        "image": tf.constant(image, tf.float32),
        "energy": tf.fill((BATCH, 1), 0.5),
        "angle": tf.fill((BATCH, 1), 1.5),
        "ecal": tf.constant(image.sum((1, 2, 3)), tf.float32),
        "step": tf.zeros((1,), tf.int64),
        "first_row": tf.zeros((1,), tf.int64),
    }
    run = tf.function(step, autograph=False)
    run(batch)
    run(batch)
    began = time.perf_counter()
    for _ in range(STEPS):
        run(batch).numpy()
    return BATCH * STEPS / (time.perf_counter() - began)


def in_a_process(value: str) -> float:
    """Measures with TF_ENABLE_ONEDNN_OPTS set to `value`."""
    environment = child_environment(TF_ENABLE_ONEDNN_OPTS=value, TF_CPP_MIN_LOG_LEVEL="3")
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "measure"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> None:
    """Measures both settings in turn and prints the best of each and their ratio."""
    found: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(ROUNDS):
        for name, value in SETTINGS.items():
            found[name].append(in_a_process(value))
    for name, rates in found.items():
        shown = ", ".join(f"{rate:.0f}" for rate in rates)
        print(f"{name}: {max(rates):.0f} showers/s at batch {BATCH} (rounds: {shown})")
    print(f"ratio oneDNN / Eigen: {max(found['oneDNN']) / max(found['Eigen']):.2f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(measure())
    else:
        main()
