"""Work in numbered parts that the processes of a synchronous run divide among themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import TryAgain

WORDS = 2**16
"""32-bit words of one collective operation: one traced function serves arrays of all sizes."""


@dataclass(frozen=True)
class SharedWork:
    """The share of one process, and the exchange of what all processes found.

    Attributes:
        processes: That divide the work; all of them call `joined` in the same order.
        own: Number of this process from 0.
        add: Sums (`WORDS`,) int32 over the processes; None for one process.
    """

    processes: int = 1
    own: int = 0
    add: Callable[[NDArray[np.int32]], Any] | None = None

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
        words = np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.int32) for a in arrays])
        padded = np.zeros(-(-words.size // WORDS) * WORDS, np.int32)
        padded[: words.size] = words
        sums = [np.asarray(self.add(some)) for some in padded.reshape(-1, WORDS)]
        ends = np.cumsum([a.nbytes // 4 for a in arrays])
        parts = np.split(np.concatenate(sums), ends)
        return [p.view(a.dtype).reshape(a.shape) for p, a in zip(parts, arrays, strict=False)]

    def agree_on_checkpoint(self, step: int | None) -> None:
        """Checks that all processes found the checkpoint of one step, or none; a collective operation."""
        found = np.zeros(self.processes, np.int32)
        found[self.own] = 0 if step is None else step + 1
        (steps,) = self.joined([found])
        if len(set(steps.tolist())) == 1:
            return
        found_by = ", ".join(
            f"worker {index}: {f'step {each - 1}' if each else 'none'}"
            for index, each in enumerate(steps.tolist())
        )
        raise TryAgain(
            f"the workers found different checkpoints ({found_by}); restart all of them with the same"
            " --checkpoints or a shared folder"
        )


ALONE = SharedWork()
