"""The training step as `train` compiles it, its convolutions one by one, and the machine's limits.

Work of the children of `bench step`: each function yields its facts, then a row per request.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.bench.harness import timed
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.data.batches import Batch, Floats
from cloudgan.data.showers import ENERGY_UNIT_GEV
from cloudgan.gan.convolutions import choose_conv_impl, convolutions, step_macs
from cloudgan.gan.layers import Stage
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.simulation.gflash import simulate
from cloudgan.training.calibration import shape_scale
from cloudgan.training.gan import POLICIES, build_gan, make_lr_schedules, make_stages
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.tensorflow_backend import (
    choose_strategy,
    device_kind,
    make_strategy,
    set_up_devices,
)
from cloudgan.training.tensorflow_engine import compile_steps, held_out_pipeline, no_votes

_LEAST_ROUND_SECONDS, _MOST_STEPS = 0.5, 500
_MACS_OF_A_ROUND = 50e9  # more than two cores compute in half a second
_STEPS_PER_EPOCH = 1000  # only a learning-rate warm-up depends on it
_CPU_SIDE, _ACCELERATOR_SIDE = 2048, 8192
_COPIED_BYTES = 256 * 2**20
_REPEATS = 3


def steps(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what was built, then seconds of a step and the machine's matrix speed right after it."""
    run = parse_config(config, "the variant")
    threads, strategy = _set_up(run)
    replicas = int(strategy.num_replicas_in_sync)
    batch = run.global_batch(replicas)
    conv_impl = choose_conv_impl(run, device_kind())
    given, step = _gan_step(run, strategy, batch, conv_impl)
    call = compile_steps(strategy, step)
    feed = held_out_pipeline(given, global_batch_size=batch, replicas=replicas, own=range(replicas))
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: feed))

    def run_steps(count: int) -> tuple[float, float, float]:
        """Runs steps; returns wall and CPU seconds of one, and the discriminator's loss on real showers."""
        sums: list[Any] = []

        def work() -> None:
            losses, _ = call(iterator, tf.constant(count, tf.int32), no_votes())
            sums.append(np.asarray(losses))  # waits for the device

        wall, cpu = timed(work, count)
        if not np.isfinite(sums[0]).all():
            raise CloudganError(
                "a loss of the measured step is NaN or infinite, so its time means nothing"
            )
        loss = sums[0][PASSES.index("discriminator_real"), loss_columns().index("total")]
        return wall, cpu, float(loss) / count

    yield {
        "precision": run.training.precision,
        "conv_impl": conv_impl,
        "device": device_kind(),
        "threads": threads,
        "replicas": replicas,
        "global_batch": batch,
        "first_loss": run_steps(1)[2],
    }
    count, macs = 1, sum(step_macs(run.model, "phases").values()) * batch
    if macs < _MACS_OF_A_ROUND:
        count = min(_MOST_STEPS, math.ceil(_LEAST_ROUND_SECONDS / run_steps(1)[0]))
    multiply, matrix, flop = _matrix_product(run.training.precision)
    while True:
        wall, cpu, _ = run_steps(count)
        speed = flop / min(_seconds(multiply, matrix, matrix))
        yield {
            "seconds_per_step": wall,
            "cpu_seconds_per_step": cpu,
            "showers_per_second": batch / wall,
            "matmul_gflops": speed / 1e9,
            "limit_seconds": 2 * macs / speed,  # of direct convolution
            "share_of_direct_limit": 2 * macs / speed / wall,
            "steps": count,
        }


def layers(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the speed of a large copy, then of each convolution in order the seconds of a batch by pass.

    Random values; the median of three. `all_passes` is the three of them in one call, where a form may share
    what they have in common; `matmul_gflops` is measured just before.
    """
    run = parse_config(config, "the variant")
    replicas = int(_set_up(run)[1].num_replicas_in_sync)
    stages = make_stages(choose_conv_impl(run, device_kind()))
    source = tf.zeros((_COPIED_BYTES // 4,), tf.float32)
    copy = tf.function(lambda values: values + 1.0)  # TensorFlow elides a plain copy
    copy(source)
    yield {"copy_gb_per_second": 2 * _COPIED_BYTES / min(_seconds(copy, source)) / 1e9}
    multiply, matrix, flop = _matrix_product(run.training.precision)
    keras.config.set_dtype_policy(POLICIES[run.training.precision])
    for number, layer in enumerate(convolutions(run.model)):
        peak = flop / min(_seconds(multiply, matrix, matrix)) / 1e9
        image = keras.Input((*layer.cells, layer.channels))
        glorot = keras.initializers.get("glorot_uniform")
        block = layer.block._replace(normalise=False)
        stage = Stage(block, 0, glorot, leak=1.0, momentum=0.0, epsilon=0.0)
        made = stages.stage(stage, image)
        network = keras.Model(image, getattr(made, "cells", made))
        rows = run.global_batch(replicas) // replicas
        x, slope = (
            tf.cast(tf.random.stateless_normal((rows, *shape), (0, number)), network.compute_dtype)
            for shape in (
                (*layer.cells, layer.channels),
                (*layer.output_cells, layer.block.filters),
            )
        )
        times = {}
        for name, call in _passes(network).items():
            compiled = tf.function(call, autograph=False)
            _seconds(compiled, x, slope, calls=1)
            times[name] = statistics.median(_seconds(compiled, x, slope))
        yield times | {"matmul_gflops": peak}


def _passes(network: keras.Model) -> dict[str, Callable[..., Any]]:
    """Returns the three passes of a network, and all of them in one call: functions of input and slope."""
    weights = network.trainable_variables

    def gradient(sources: Callable[[tf.Tensor], Any], x: tf.Tensor, slope: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = network(x)
        return y, tape.gradient(y, sources(x), slope)

    def of(sources: Callable[[tf.Tensor], Any]) -> Callable[..., Any]:
        return lambda x, slope: gradient(sources, x, slope)[1]

    return {
        "forward": lambda x, _: network(x),
        "input_gradient": of(lambda x: x),
        "weight_gradient": of(lambda _: weights),
        "all_passes": functools.partial(gradient, lambda x: [x, *weights]),
    }


def _seconds(call: Callable[..., Any], *values: Any, calls: int = _REPEATS) -> list[float]:
    """Returns the wall seconds of calls; after each the device has finished."""

    def work() -> None:
        call(*values)
        if tf.config.list_logical_devices("GPU"):
            tf.test.experimental.sync_devices()

    return [timed(work)[0] for _ in range(calls)]


def _matrix_product(precision: str) -> tuple[Callable[..., Any], tf.Tensor, int]:
    """Returns a product of large matrices, one of them, and its operations (a product and a sum are two)."""
    side = _ACCELERATOR_SIDE if tf.config.list_logical_devices("GPU") else _CPU_SIDE
    matrix = tf.cast(tf.random.stateless_uniform((side, side), (0, 1)), precision)
    multiply = tf.function(tf.matmul)
    multiply(matrix, matrix)
    return multiply, matrix, 2 * side**3


def _set_up(run: RunConfig) -> tuple[int, tf.distribute.Strategy]:
    """Sets up the devices; returns the threads and the strategy."""
    threads = run.training.threads or this_machine().cores
    set_up_devices(run.training, threads=threads)
    return threads, make_strategy(run, choose_strategy(run.training, None))


def _gan_step(
    run: RunConfig, strategy: tf.distribute.Strategy, batch: int, conv_impl: str
) -> tuple[Batch[Floats], GanStep]:
    """Returns one global batch of parametric showers, and the step for them."""
    model, rng = run.model, Rng(run.training.seed)
    block = -(-batch // 50) * 50
    (showers,) = simulate(batch, seed=0, cells=model.image_shape[:2], block=block)
    scaled = showers.ecal_gev * np.float32(model.image_scale)
    given = Batch(
        scaled ** np.float32(model.image_power),
        showers.energy_gev[:, None] / np.float32(ENERGY_UNIT_GEV),
        showers.mtheta_rad[:, None],
        scaled.sum((1, 2, 3), dtype=np.float32)[:, None],
    )
    with strategy.scope():
        gan = build_gan(
            model,
            rng,
            precision=run.training.precision,
            synchronized=run.training.batch_norm == "synchronized",
            learning_rates=make_lr_schedules(run, batch, _STEPS_PER_EPOCH),
            conv_impl=conv_impl,
        )
    shares = showers.ecal_gev.sum((1, 2)) / showers.energy_gev[:, None]
    step = GanStep(
        gan,
        model,
        rng,
        global_batch_size=batch,
        layer_target=shares.mean(0),
        shape_scale=shape_scale(model, given),
    )
    return given, step
