"""Losses on held-back showers, and the calibration of an untrained generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.training.draws import Call
from cloudgan.training.session import loss_table
from cloudgan.training.step import latent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.presets import Preset
    from cloudgan.data.image_view import Batch
    from cloudgan.training.draws import Draws
    from cloudgan.training.gan import Gan
    from cloudgan.training.step import GanStep


def compile_test(strategy: tf.distribute.Strategy, step: GanStep) -> Callable[..., Any]:
    """Compiles the losses of one global batch without any update."""

    @tf.function
    def run(batch: Any) -> tf.Tensor:
        shares = strategy.run(step.test, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    return run


def test_losses(
    run_test: Callable[..., Any], dataset: Any, batches: int
) -> dict[str, dict[str, float]] | None:
    """Mean losses over `batches` global batches of held-back showers; None where there are none.

    Every worker calls this after the same step: the reduction needs all of them.
    """
    if not batches:
        return None
    iterator = iter(dataset)
    sums = [np.asarray(run_test(next(iterator))) for _ in range(batches)]
    return loss_table(np.mean(sums, axis=0))


def held_back_feed(
    held_back: Batch, *, global_batch_size: int, replicas: int, own: range
) -> tf.data.Dataset:
    """Hands whole global batches of held-back showers to a worker's `own` replicas, in order."""
    size = global_batch_size // replicas
    firsts = [
        (step, replica * size)
        for step in range(len(held_back.energy) // global_batch_size)
        for replica in own
    ]
    steps, rows = (np.array(column, np.int64)[:, None] for column in zip(*firsts, strict=True))
    places = tf.data.Dataset.from_tensor_slices({"step": steps, "first_row": rows})
    starts = steps * global_batch_size + rows
    blocks = starts + np.arange(size)
    values = held_back._asdict() | {"image": held_back.image[..., None]}
    showers = tf.data.Dataset.from_tensor_slices(
        {name: np.asarray(value)[blocks] for name, value in values.items()}
    )
    return tf.data.Dataset.zip(showers, places).map(lambda batch, place: {**batch, **place})


def calibrate(gan: Gan, preset: Preset, draws: Draws, batch: Batch) -> float:
    """Makes the untrained generator's mean sum that of the first global batch.

    The constant is rounded to three digits, so that every worker finds the same one.

    Args:
        gan: Networks; the calibration of generator and average is set.
        preset: Where `calibrated_output` is off nothing happens.
        draws: For the latent vectors.
        batch: The first global batch.

    Returns:
        The constant; 1 where there is none.
    """
    if not preset.calibrated_output:
        return 1.0
    zero = tf.zeros((), tf.int64)
    with draws.at(zero, zero, Call.CALIBRATION):
        dtype = gan.generator.weights[0].dtype
        energy, angle = (tf.cast(value, dtype) for value in (batch.energy, batch.angle))
        latent = latent_of(preset, draws, energy, angle)
    image = np.asarray(gan.generator(latent, training=False), np.float64)
    wanted, found = float(np.mean(batch.ecal)), float(
        (image ** (1 / preset.image_power)).sum((1, 2, 3, 4)).mean()
    )
    constant = float(f"{(wanted / found) ** preset.image_power:.3g}") if found > 0 else 1.0
    gan.generator.get_layer("output").calibration.assign(constant)
    if gan.average:
        gan.average.set_weights(gan.generator.get_weights())
    return constant
