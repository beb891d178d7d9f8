"""Losses on held-out showers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.schema.losses import loss_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.data.pipeline.preprocessing import Batch
    from cloudgan.training.step import GanStep


def compile_held_out_losses(strategy: tf.distribute.Strategy, step: GanStep) -> Any:
    """Compiles the losses of one global batch, without updates."""

    @tf.function(autograph=False)
    def run(batch: Any) -> tf.Tensor:
        shares = strategy.run(step.evaluate, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    return run


def held_out_losses(
    run_test: Callable[..., Any], dataset: Any, batches: int
) -> dict[str, dict[str, float]] | None:
    """Returns the mean losses over `batches` global batches of held-out showers; None for 0 batches.

    Every worker calls this after the same step, because of the reduction.
    """
    if not batches:
        return None
    iterator = iter(dataset)
    sums = [np.asarray(run_test(next(iterator))) for _ in range(batches)]
    return loss_table(np.mean(sums, axis=0))


def held_out_pipeline(
    held_out: Batch, *, global_batch_size: int, replicas: int, own: range
) -> tf.data.Dataset:
    """Returns an endless dataset of global batches of held-out showers for a worker's `own` replicas.

    For a finite dataset TensorFlow checks at each batch whether all workers have one: a collective
    operation that would interleave with those of the steps when a background thread traces this.
    """
    size = global_batch_size // replicas
    firsts = [
        (step, replica * size)
        for step in range(len(held_out.energy) // global_batch_size)
        for replica in own
    ]
    steps, rows = (np.array(column, np.int64)[:, None] for column in zip(*firsts, strict=True))
    places = tf.data.Dataset.from_tensor_slices({"step": steps, "first_row": rows})
    starts = steps * global_batch_size + rows
    blocks = starts + np.arange(size)
    values = held_out._asdict() | {"image": held_out.image[..., None]}
    showers = tf.data.Dataset.from_tensor_slices(
        {name: np.asarray(value)[blocks] for name, value in values.items()}
    )
    both = tf.data.Dataset.zip(showers, places).map(lambda batch, place: {**batch, **place})
    return both.repeat()
