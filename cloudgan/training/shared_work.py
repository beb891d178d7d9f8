"""Work in numbered parts that the processes of a synchronous run divide among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import tensorflow as tf
    from numpy.typing import NDArray

    from cloudgan.training.context import TrainingContext

_WORDS = 2**16
"""32-bit words of one collective operation: one traced function serves arrays of all sizes."""


@dataclass(frozen=True)
class SharedWork:
    """The share of one process, and the exchange of what all processes found.

    Attributes:
        processes: That divide the work; all of them call `joined` in the same order.
        own: Number of this process from 0.
        add: Sums (`_WORDS`,) int32 over the processes; None for one process.
    """

    processes: int = 1
    own: int = 0
    add: Callable[[Any], Any] | None = None

    def parts(self, count: int) -> range:
        """Returns this process' parts of `count`: every `processes`-th one."""
        return range(self.own, count, self.processes)

    def joined(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Joins what the processes found; a collective operation with several processes.

        The bits are summed as integers, so that they are exact for NaN and for -0 too.

        Args:
            arrays: Same shapes and types on every process, of 4 or 8 bytes a value; all bits are 0 where
                another process computes.

        Returns:
            The complete arrays, the same on every process.
        """
        if self.add is None:
            return list(arrays)
        import tensorflow as tf  # noqa: PLC0415 - JAX imports this module without it

        words = np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.int32) for a in arrays])
        padded = np.zeros(-(-words.size // _WORDS) * _WORDS, np.int32)
        padded[: words.size] = words
        sums = [np.asarray(self.add(tf.constant(some))) for some in padded.reshape(-1, _WORDS)]
        ends = np.cumsum([a.nbytes // 4 for a in arrays])
        parts = np.split(np.concatenate(sums), ends)
        return [p.view(a.dtype).reshape(a.shape) for p, a in zip(parts, arrays, strict=False)]


ALONE = SharedWork()


def shared_work(context: TrainingContext, strategy: tf.distribute.Strategy) -> SharedWork:
    """Returns the share of this process; call it while no collective operation is traced or run."""
    processes = context.numerics.workers
    if processes == 1 or context.cluster is None:
        return ALONE
    return SharedWork(processes, context.cluster.index, _adder(strategy, processes))


def _adder(strategy: tf.distribute.Strategy, processes: int) -> Callable[[Any], Any]:
    import tensorflow as tf  # noqa: PLC0415

    local_replicas = int(strategy.num_replicas_in_sync) // processes

    @tf.function(autograph=False)
    def add(words: tf.Tensor) -> Any:
        def once() -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.where(tf.equal(replica % local_replicas, 0), words, tf.zeros_like(words))

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(once), axis=None)

    traced: Callable[[Any], Any] = add.get_concrete_function(tf.TensorSpec((_WORDS,), tf.int32))
    return traced
