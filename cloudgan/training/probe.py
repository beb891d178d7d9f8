"""One way to compute, measured in this process: what `cloudgan.training.race` starts and asks.

A pass is the generator, the discriminator on what it made, and the gradients of both: the
arithmetic of a step without its updates, which cost the same in every way.
"""

from __future__ import annotations

import math
import os
import queue
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.core.config import TrainingConfig, parse_config
from cloudgan.core.hardware import this_machine
from cloudgan.models.formulation import choose_formulation
from cloudgan.models.networks import latent_length
from cloudgan.training.draws import Call, Draws
from cloudgan.training.gan import Rates, build_gan
from cloudgan.training.precision import arithmetic, resolved
from cloudgan.training.race import MARK, Probe
from cloudgan.training.strategy import device_kind, set_up_devices

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_SECONDS = 0.3
"""Of one answer: shorter passes are repeated, for their mean."""


def compiled_pass(probe: Probe) -> Callable[[], Any]:
    """Builds the networks in the way that `probe` says and compiles one pass."""
    precision = arithmetic(probe.precision)
    wanted = {"model": probe.preset.model_dump(), "training": {"kernels": probe.kernels}}
    config = resolved(parse_config(wanted, "a candidate"), precision)
    draws = Draws(0)
    gan = build_gan(
        probe.preset,
        draws,
        seed=0,
        precision=precision,
        synchronized=False,
        rates=Rates(1e-3, 1e-3),
        formulation=choose_formulation(config, device_kind(), probe.choice.formulation),
    )
    zero = tf.zeros((), tf.int64)
    latent = tf.random.stateless_normal((probe.batch, latent_length(probe.preset)), (0, 0))
    latent = tf.cast(latent, gan.generator.weights[0].dtype)
    weights = [*gan.generator.trainable_variables, *gan.discriminator.trainable_variables]

    @tf.function(autograph=False)
    def run() -> Any:
        with draws.at(zero, zero, Call.GENERATOR), tf.GradientTape() as tape:
            outputs = gan.discriminator(gan.generator(latent, training=True), training=True)
            loss = tf.add_n([tf.reduce_mean(output) for output in outputs])
        return tape.gradient(loss, weights)

    return run


def measured_seconds(run: Callable[[], Any]) -> float:
    """Returns the mean wall time of a pass."""
    began, passes = time.perf_counter(), 0
    while True:
        run()[0].numpy()
        passes += 1
        seconds = time.perf_counter() - began
        if seconds >= _LEAST_SECONDS:
            return seconds / passes


def main(text: str) -> None:
    """Says when it is ready, then measures once for each line it is sent, until there is none."""
    probe = Probe.model_validate_json(text)
    signal.alarm(math.ceil(probe.most_seconds) + 5)  # one that hangs may have nobody to end it
    asked = _lines_until_alone()
    threads = probe.choice.threads or this_machine().cores
    inter_threads = probe.choice.inter_threads
    set_up_devices(TrainingConfig(), threads=threads, inter_threads=inter_threads)
    run = compiled_pass(probe)
    run()[0].numpy()
    _say("ready")
    while asked.get():
        _say(repr(measured_seconds(run)))


def _lines_until_alone() -> queue.SimpleQueue[str]:
    """Returns the lines we are sent; when who started us is gone, so are we, at once."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=listen, name="lifeline", daemon=True).start()
    return lines


def _say(what: str) -> None:
    print(MARK + what, flush=True)  # noqa: T201  the pipe of who started us


if __name__ == "__main__":
    main(sys.argv[1])
