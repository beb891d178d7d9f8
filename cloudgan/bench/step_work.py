"""The training step of a configuration, as `train` compiles it, on showers that stay in memory."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.bench.arithmetic import step_macs
from cloudgan.bench.layer_work import LayerWork
from cloudgan.bench.machine_limits import copy_gb_per_second, matmul_gflops
from cloudgan.core.config import parse_config
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.data.image_view import ENERGY_UNIT_GEV, Batch
from cloudgan.models.formulation import choose_formulation
from cloudgan.simulation.gflash import simulate
from cloudgan.training.draws import Draws
from cloudgan.training.gan import build_gan
from cloudgan.training.rates import make_rates
from cloudgan.training.session import compile_steps, no_votes
from cloudgan.training.shape_scale import shape_scale
from cloudgan.training.step import COLUMNS, GanStep
from cloudgan.training.strategy import choose, device_kind, make_strategy, set_up_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.presets import Preset
    from cloudgan.data.showers import Showers

_LEAST_ROUND_SECONDS = 0.5
_MOST_STEPS = 500
_MACS_OF_A_ROUND = 50e9  # no two cores do that in half a second
_STEPS_PER_EPOCH = 1000  # nothing but a warm-up of the learning rate would ask


class StepWork:
    """Networks, compiled step and one global batch of parametric showers."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Wakes TensorFlow up, builds everything, traces and runs the first step.

        Args:
            config: A whole `RunConfig`, of which preset and training are used.

        Raises:
            ConfigError: This machine has no such devices.
        """
        run = parse_config(config, "the variant")
        training = run.training
        self._threads = training.threads or this_machine().cores
        set_up_devices(training, threads=self._threads)
        strategy = make_strategy(run, choose(training, None))
        self._replicas = int(strategy.num_replicas_in_sync)
        self._batch = run.global_batch(self._replicas)
        self._config, draws = run, Draws(training.seed)
        showers = _showers(run.model, self._batch)
        self._formulation = choose_formulation(run, device_kind())
        with strategy.scope():
            gan = build_gan(
                run.model,
                draws,
                seed=training.seed,
                precision=training.precision,
                synchronized=training.batch_norm == "synchronized",
                rates=make_rates(run, self._batch, _STEPS_PER_EPOCH),
                formulation=self._formulation,
            )
        layer = showers.ecal_gev.sum((1, 2)) / showers.energy_gev[:, None]
        arrays = _arrays(run.model, showers)
        step = GanStep(
            gan,
            run.model,
            draws,
            global_batch_size=self._batch,
            layer_target=layer.mean(0),
            shape_scale=shape_scale(
                run.model, Batch(**arrays | {"image": arrays["image"][..., 0]})
            ),
        )
        self._layers = LayerWork(run, self._batch // self._replicas, self._formulation)
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
        """Tells what was built, and how many steps make a round of half a second."""
        products = sum(step_macs(self._config.model, "phases").values()) * self._batch
        steps = 1
        if products < _MACS_OF_A_ROUND:
            seconds = self._round(1)["seconds"]
            steps = min(_MOST_STEPS, math.ceil(_LEAST_ROUND_SECONDS / seconds))
        return {
            "formulation": self._formulation,
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
            raise CloudganError("a loss of the measured step is no number: this times nothing real")
        loss = float(sums[0, COLUMNS.index("total")]) / steps
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
    """The same global batch for ever: one element a replica, with the step and its first row."""
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
