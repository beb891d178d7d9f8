"""The training step of a configuration as `train` compiles it, its convolutions one by one, and the machine's limits."""

from __future__ import annotations

import functools
import math
import statistics
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from cloudgan.bench.arithmetic import step_macs
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.data.pipeline.preprocessing import ENERGY_UNIT_GEV, Batch
from cloudgan.models.convolutions import choose_conv_impl, convolutions
from cloudgan.models.layers import Stage
from cloudgan.schema.config import parse_config
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.simulation.gflash import simulate
from cloudgan.training.calibration import shape_scale
from cloudgan.training.engines.tensorflow_loop import compile_steps, no_votes
from cloudgan.training.gan import POLICIES, build_gan, make_lr_schedules, make_stages
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.strategy import choose_strategy, device_kind, make_strategy, set_up_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.data.showers import Showers
    from cloudgan.models.convolutions import Convolution
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.presets import Preset

_REPEATS = 3
_CPU_SIDE, _ACCELERATOR_SIDE = 2048, 8192
_COPIED_BYTES = 256 * 2**20


def matmul_gflops(precision: str) -> float:
    """Returns 10^9 operations per second of a large product of matrices, the best of three.

    Same process, threads and libraries as the step; an addition and a multiplication are two.
    """
    side = _side()
    multiply, matrices = _product(precision, side)
    return 2 * side**3 / best_seconds(multiply, *matrices) / 1e9


def copy_gb_per_second() -> float:
    """Returns 10^9 bytes per second that a large copy reads and writes, the best of three."""
    copy, source = _copy()
    return 2 * _COPIED_BYTES / best_seconds(copy, source) / 1e9


def best_seconds(call: Callable[..., Any], *values: Any) -> float:
    """Returns the least of three durations of a call; the device has finished."""
    return min(timed(call, *values) for _ in range(_REPEATS))


def timed(call: Callable[..., Any], *values: Any) -> float:
    """Returns the wall seconds of one call; the device has finished."""
    began = time.perf_counter()
    call(*values)
    if _is_accelerated():
        tf.test.experimental.sync_devices()
    return time.perf_counter() - began


@functools.cache
def _is_accelerated() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _side() -> int:
    return _ACCELERATOR_SIDE if _is_accelerated() else _CPU_SIDE


@functools.cache
def _product(precision: str, side: int) -> tuple[Callable[..., Any], tuple[Any, Any]]:
    matrix = tf.cast(tf.random.stateless_uniform((side, side), (0, 1)), precision)
    multiply = tf.function(tf.matmul)
    multiply(matrix, matrix)
    return multiply, (matrix, matrix)


@functools.cache
def _copy() -> tuple[Callable[..., Any], Any]:
    """Returns a copy kernel: a sum with one, because TensorFlow elides a plain copy."""
    source = tf.zeros((_COPIED_BYTES // 4,), tf.float32)
    copy = tf.function(lambda values: values + 1.0)
    copy(source)
    return copy, source


_REPEATS = 3


class LayerWork:
    """Times single convolutions on random values."""

    def __init__(self, config: RunConfig, batch: int, conv_impl: str) -> None:
        """Prepares to time the convolutions of a preset with `batch` showers at a time."""
        self._layers = convolutions(config.model)
        self._precision, self._batch = config.training.precision, batch
        self._stages = make_stages(conv_impl)

    def time(self, number: int) -> dict[str, Any]:
        """Times layer `number`, in the order of `models.convolutions`.

        Returns:
            By pass the median seconds of a batch; `all_passes` is the three of them in one call,
            where a form may share what they have in common.
        """
        layer = self._layers[number]
        keras.config.set_dtype_policy(POLICIES[self._precision])
        network = self._alone(layer)
        kind = network.compute_dtype
        make = functools.partial(tf.random.stateless_normal, seed=(0, number))
        x = tf.cast(make((self._batch, *layer.cells, layer.channels)), kind)
        slope = tf.cast(make((self._batch, *layer.output_cells, layer.block.filters)), kind)
        weights = network.trainable_variables

        def forward(x: tf.Tensor, slope: tf.Tensor) -> Any:
            del slope
            return network(x)

        def gradient(of: str, x: tf.Tensor, slope: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = network(x)
            sources = {"input": x, "weight": weights, "all": [x, *weights]}[of]
            found = tape.gradient(y, sources, slope)
            return (y, found) if of == "all" else found

        calls = {
            "forward": forward,
            "input_gradient": functools.partial(gradient, "input"),
            "weight_gradient": functools.partial(gradient, "weight"),
            "all_passes": functools.partial(gradient, "all"),
        }
        return {name: _median(call, x, slope) for name, call in calls.items()}

    def _alone(self, layer: Convolution) -> keras.Model:
        image = keras.Input((*layer.cells, layer.channels))
        block = layer.block._replace(normalise=False)
        initializer = keras.initializers.get("glorot_uniform")
        stage = Stage(block, 0, initializer, leak=1.0, momentum=0.0, epsilon=0.0)
        made = self._stages.stage(stage, image)
        return keras.Model(image, getattr(made, "cells", made))


def _median(call: Any, x: tf.Tensor, slope: tf.Tensor) -> float:
    compiled = tf.function(call, autograph=False)
    timed(compiled, x, slope)
    return statistics.median(timed(compiled, x, slope) for _ in range(_REPEATS))


_LEAST_ROUND_SECONDS = 0.5
_MOST_STEPS = 500
_MACS_OF_A_ROUND = 50e9  # more than two cores compute in half a second
_STEPS_PER_EPOCH = 1000  # only a learning-rate warm-up depends on it


class StepWork:
    """Networks, compiled step and one global batch of parametric showers."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Sets up TensorFlow, builds the networks, traces and runs the first step.

        Args:
            config: A `RunConfig`; its preset and training are used.

        Raises:
            ConfigError: Devices are missing.
        """
        run = parse_config(config, "the variant")
        training = run.training
        self._threads = training.threads or this_machine().cores
        set_up_devices(training, threads=self._threads)
        strategy = make_strategy(run, choose_strategy(training, None))
        self._replicas = int(strategy.num_replicas_in_sync)
        self._batch = run.global_batch(self._replicas)
        self._config, rng = run, Rng(training.seed)
        showers = _showers(run.model, self._batch)
        self._conv_impl = choose_conv_impl(run, device_kind())
        with strategy.scope():
            gan = build_gan(
                run.model,
                rng,
                seed=training.seed,
                precision=training.precision,
                synchronized=training.batch_norm == "synchronized",
                learning_rates=make_lr_schedules(run, self._batch, _STEPS_PER_EPOCH),
                conv_impl=self._conv_impl,
            )
        layer = showers.ecal_gev.sum((1, 2)) / showers.energy_gev[:, None]
        arrays = _arrays(run.model, showers)
        step = GanStep(
            gan,
            run.model,
            rng,
            global_batch_size=self._batch,
            layer_target=layer.mean(0),
            shape_scale=shape_scale(
                run.model, Batch(**arrays | {"image": arrays["image"][..., 0]})
            ),
        )
        self._layers = LayerWork(run, self._batch // self._replicas, self._conv_impl)
        self._run = compile_steps(strategy, step)
        self._iterator = iter(
            strategy.distribute_datasets_from_function(lambda _: _feed(arrays, self._replicas))
        )
        self._first_loss = self._round(1)["loss"]

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers warm_up, round, matmul, copy and layer."""
        match question:
            case "warm_up":
                return self._warm_up()
            case "round":
                return self._round(given["steps"])
            case "matmul":
                return {"gflops": matmul_gflops(self._config.training.precision)}
            case "copy":
                return {"gb_per_second": copy_gb_per_second()}
            case _:
                return self._layers.time(given["number"])

    def _warm_up(self) -> dict[str, Any]:
        """Returns what was built, and the steps per round of half a second."""
        products = sum(step_macs(self._config.model, "phases").values()) * self._batch
        steps = 1
        if products < _MACS_OF_A_ROUND:
            seconds = self._round(1)["seconds"]
            steps = min(_MOST_STEPS, math.ceil(_LEAST_ROUND_SECONDS / seconds))
        return {
            "conv_impl": self._conv_impl,
            "device": device_kind(),
            "threads": self._threads,
            "replicas": self._replicas,
            "global_batch": self._batch,
            "first_loss": self._first_loss,
            "steps": steps,
        }

    def _round(self, steps: int) -> dict[str, Any]:
        """Runs `steps` steps; returns wall and CPU seconds of one, and the loss on real showers."""
        wall, cpu = time.perf_counter(), time.process_time()
        losses, _ = self._run(self._iterator, tf.constant(steps, tf.int32), no_votes())
        sums = np.asarray(losses)  # waits for the device
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if not np.isfinite(sums).all():
            raise CloudganError(
                "a loss of the measured step is NaN or infinite, so its time means nothing"
            )
        loss = (
            float(sums[PASSES.index("discriminator_real"), loss_columns().index("total")]) / steps
        )
        return {"seconds": wall / steps, "cpu_seconds": cpu / steps, "loss": loss}


def _showers(preset: Preset, count: int) -> Showers:
    """Parametric showers in the window of the preset."""
    (showers,) = simulate(count, seed=0, cells=preset.image_shape[:2], block=-(-count // 50) * 50)
    return showers


def _arrays(preset: Preset, showers: Showers) -> dict[str, np.ndarray[Any, Any]]:
    scaled = showers.ecal_gev * np.float32(preset.image_scale)
    return {
        "image": (scaled ** np.float32(preset.image_power))[..., None],
        "energy": showers.energy_gev[:, None] / np.float32(ENERGY_UNIT_GEV),
        "angle": showers.mtheta_rad[:, None],
        "ecal": scaled.sum((1, 2, 3), dtype=np.float32)[:, None],
    }


def _feed(arrays: Mapping[str, np.ndarray[Any, Any]], replicas: int) -> tf.data.Dataset:
    """Returns an endless dataset of one global batch: an element per replica, with step and first row."""
    parts = {
        name: values.reshape(replicas, -1, *values.shape[1:]) for name, values in arrays.items()
    }
    batch = len(arrays["energy"]) // replicas

    def element(number: tf.Tensor, part: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        first = number % replicas * batch
        return part | {"step": number[None] // replicas, "first_row": first[None]}

    numbered = tf.data.Dataset.zip(
        tf.data.Dataset.counter(), tf.data.Dataset.from_tensor_slices(parts).repeat()
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return numbered.map(element).prefetch(2 * replicas).with_options(options)
