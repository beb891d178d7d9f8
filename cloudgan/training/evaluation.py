"""Losses on held-back showers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.training.session import loss_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.data.image_view import Batch
    from cloudgan.training.step import GanStep


def compile_test(strategy: tf.distribute.Strategy, step: GanStep) -> Any:
    """Compiles the losses of one global batch without any update."""

    @tf.function(autograph=False)
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
    """Hands whole global batches of held-back showers to a worker's `own` replicas, over and over.

    Of a dataset with an end TensorFlow asks all workers at each batch whether they have one: a
    collective operation that would meet those of the steps, where a thread prepares this.
    """
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
    both = tf.data.Dataset.zip(showers, places).map(lambda batch, place: {**batch, **place})
    return both.repeat()
