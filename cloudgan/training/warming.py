"""Traces and compiles in a thread what a run will call, while the rest of the run is prepared.

One thread does one thing after the other: collective operations are numbered as they are traced and
as they run, in each process on its own, so no two may be traced, or run, at the same time. What is
called first while the steps run may trace and compile, but run none of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.data.feed import FLOATS, INTEGERS
from cloudgan.training.session import no_votes

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class Warming:
    """Calls functions for the first time, one after the other, in a thread of its own."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        """Begins with nothing; functions are called inside the scope of `strategy`."""
        self._strategy = strategy
        self._thread = ThreadPoolExecutor(1, "warming")

    def begin(self, first_call: Callable[[], Any]) -> Future[Any]:
        """Does `first_call` after those that were begun before; its errors are the result's."""

        def call() -> Any:
            with self._strategy.scope():
                return first_call()

        return self._thread.submit(call)


def warmed(warming: Warming, run: Callable[..., Any], stand_in: Any) -> Callable[..., Any]:
    """Lets compiled steps run no step now; returns a function that waits for that, then runs them.

    Args:
        warming: Where.
        run: As `compile_steps` returns it.
        stand_in: A distributed dataset of what the real one has; nothing of it is used.
    """
    ready = warming.begin(lambda: run(iter(stand_in), tf.constant(0, tf.int32), no_votes()))

    def wait_and_run(iterator: Any, steps: Any, votes: Any) -> Any:
        ready.result()
        return run(iterator, steps, votes)

    return wait_and_run


def blank_batches(batch: int, image_shape: tuple[int, int, int]) -> tf.data.Dataset:
    """An endless dataset of elements like those of `feed`, (batch, ...), all of them zeros."""
    shapes = ((batch, *image_shape, 1), *[(batch, 1)] * 3)
    element = {name: tf.zeros(shape) for name, shape in zip(FLOATS, shapes, strict=True)}
    element |= {name: tf.zeros((1,), tf.int64) for name in INTEGERS}
    return tf.data.Dataset.from_tensors(element).repeat()
