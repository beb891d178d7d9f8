"""The order of the training showers: a function of (seed, epoch).

N showers in blocks, GB showers per step. The position in the endless stream of epochs is one integer, so
a resume needs only the step, and every worker can compute its own rows. Blocks are shuffled per epoch,
grouped by k, and each group is shuffled: a worker reads from k regions of the files at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError

LastBatch = Literal["carry", "drop"]
CACHED_EPOCHS = 3


class EpochSampler:
    """Maps steps and rows to showers.

    Of `workers` that exchange weights, this one trains the global steps step * workers + `worker`: no
    shower is read twice in an epoch. Arguments named `step` count this worker's own steps.

    With `carry` the last batch of an epoch is filled with the first showers of the next one; with
    `drop` the showers that fill no batch are omitted (others in each epoch), as published.
    """

    def __init__(
        self,
        counts: Sequence[int],
        seed: int,
        global_batch_size: int,
        blocks_per_group: int = 4,
        last_batch: LastBatch = "carry",
        *,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self._worker, self.workers = worker, workers
        self.count = int(sum(counts))
        self.global_batch_size = global_batch_size
        self._seed = seed
        self._counts = np.asarray(counts, np.int64)
        self._first = np.concatenate(([0], np.cumsum(self._counts)))
        self._per_group = blocks_per_group
        dropped = self.count % global_batch_size if last_batch == "drop" else 0
        self._used = self.count - dropped  # of each epoch
        self._epochs: dict[int, NDArray[np.int64]] = {}
        self._lock = Lock()
        if self.count < 1:
            raise ConfigError("there are no showers to train on")
        if not self._used:
            raise ConfigError(
                f"a global batch of {global_batch_size} is larger than the {self.count} showers"
                " and the last batch is dropped, so no batch remains; use a smaller"
                " batch, more showers, or last_batch: carry"
            )

    def global_step(self, step: int) -> int:
        """Returns the number, among those of all workers, of this worker's `step`."""
        return step * self.workers + self._worker

    @property
    def samples_dropped_per_epoch(self) -> int:
        """Showers per epoch that are not used."""
        return self.count - self._used

    @property
    def most_steps_per_epoch(self) -> int:
        """Steps of the longest epoch: with `carry` epochs differ by one."""
        return -(-self._used // self.global_batch_size)

    def samples_carried(self, epoch: int) -> int:
        """Showers of the next epoch that fill the last batch of `epoch`."""
        return self._all_steps_through(epoch) * self.global_batch_size - (epoch + 1) * self._used

    def steps_through(self, epoch: int) -> int:
        """Returns this worker's steps until the end of `epoch` (from 0); 0 for epoch -1."""
        return self.own_steps(self._all_steps_through(epoch))

    def own_steps(self, steps: int) -> int:
        """Returns how many of the first `steps` global steps are this worker's."""
        return max(0, -(-(steps - self._worker) // self.workers))

    def _all_steps_through(self, epoch: int) -> int:
        return -(-(epoch + 1) * self._used // self.global_batch_size)

    def epoch_of(self, step: int) -> int:
        """Returns the epoch of the first shower of `step`."""
        return self.global_step(step) * self.global_batch_size // self._used

    def epoch_to_validate(self, step: int, every: int) -> int | None:
        """Returns the epoch that ends with `step`, if it is the last of `every` ones; 0: of none."""
        epoch = self.epoch_of(step - 1)
        ends = bool(every) and step > 0 and step == self.steps_through(epoch)
        return epoch if ends and (epoch + 1) % every == 0 else None

    def rows(self, step: int, first_row: int, count: int) -> NDArray[np.int64]:
        """Returns the showers, 0..N-1, in `count` rows of the global batch of `step`."""
        position = self.global_step(step) * self.global_batch_size + first_row
        found = []
        while count > 0:
            epoch, start = divmod(position, self._used)
            part = self._of_epoch(epoch)[start : min(start + count, self._used)]
            found.append(part)
            position += len(part)
            count -= len(part)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _of_epoch(self, epoch: int) -> NDArray[np.int64]:
        with self._lock:
            if epoch not in self._epochs:
                self._epochs[epoch] = self._shuffled(epoch)
                by_distance = sorted(self._epochs, key=lambda cached: abs(cached - epoch))
                for far in by_distance[CACHED_EPOCHS:]:
                    del self._epochs[far]
            return self._epochs[epoch]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        blocks = self._permutation(len(self._counts), epoch, 0)
        groups = []
        for number, start in enumerate(range(0, len(blocks), self._per_group)):
            members = blocks[start : start + self._per_group]
            showers = np.concatenate(
                [np.arange(self._first[block], self._first[block + 1]) for block in members]
            )
            groups.append(showers[self._permutation(len(showers), epoch, number + 1)])
        return np.concatenate(groups)

    def _permutation(self, size: int, epoch: int, stream: int) -> NDArray[np.intp]:
        # The raw words of Philox are the same in every NumPy; Generator.permutation may change.
        words = np.random.Philox(key=[self._seed, epoch], counter=[0, 0, 0, stream])
        return np.argsort(words.random_raw(size), kind="stable")
