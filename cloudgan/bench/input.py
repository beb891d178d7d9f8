"""Measures the feed that `train` reads from: decoding each shower, or from prepared ones, in turns."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.bench.spread import Spread, paired, spread
from cloudgan.bench.turns import Turns
from cloudgan.core.config import DataConfig
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.feed import feed
from cloudgan.data.order import Order
from cloudgan.data.prepared_cache import cache_path
from cloudgan.data.training_set import Kept, TrainingSet, open_training_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cloudgan.core.presets import Preset

NAMES: dict[Kept, str] = {"none": "decoded", "memory": "memory", "disk": "file"}
_COLD_SHOWERS = 4096
_IMAGE_BYTES = 4


@dataclass(frozen=True)
class Asked:
    """What is read and how.

    Attributes:
        shards: A folder of them; prepared showers are kept beside it, as `train` does.
        batch: Showers per element.
        threads: Readers.
        seconds: How long the warm part of a turn lasts.
    """

    shards: Path
    preset: Preset
    batch: int
    threads: int
    seconds: float


class Turn(NamedTuple):
    """One turn: the files leave the memory, the set is opened, an epoch's begin and then more is read.

    Attributes:
        open_seconds: Until the first shower can be read; what is checked or prepared is in it.
        cold_showers_per_second: Of those read first.
        showers_per_second: Of the later ones.
        cpu_seconds: Of all threads of the process, for one of the later showers.
    """

    open_seconds: float
    cold_showers_per_second: float
    showers_per_second: float
    cpu_seconds: float


@dataclass(frozen=True)
class InputResult:
    """All that was measured.

    Attributes:
        showers: To train on, in the set.
        make_seconds: To prepare all showers and write the file, once; None: there was one.
        turns: By name: decoded, memory, file; of two lists the same place is the same round.
        told: Why there is no file.
        step_showers_per_second: What training takes; None: nobody said.
        interrupted: Whether Ctrl-C ended it early.
    """

    asked: Asked
    showers: int
    make_seconds: float | None
    turns: dict[str, Sequence[Turn]]
    told: str
    step_showers_per_second: float | None
    interrupted: bool

    def of(self, name: str, what: str) -> Spread:
        """A number of all turns of one variant."""
        return spread([getattr(turn, what) for turn in self.turns[name]])

    def faster(self, name: str, what: str = "showers_per_second") -> Spread:
        """A number of a variant over that of decoding, each pair of the same round."""
        pairs = (self.turns[name], self.turns["decoded"])
        above, below = ([getattr(turn, what) for turn in side] for side in pairs)
        return paired(above, below)

    @property
    def image_bytes(self) -> int:
        """Of the dense image of one shower, as the networks get it."""
        x, y, z = self.asked.preset.image_shape
        return x * y * z * _IMAGE_BYTES


def measure_input(
    asked: Asked, *, rounds: int, step_showers_per_second: float | None, progress: Progress
) -> InputResult:
    """Lets the three ways to read take turns.

    Raises:
        DataError: The shards are damaged, or too small for the preset.
        CloudganError: Not one round was finished.
    """
    view = _opened(asked, "none", Silent()).view
    is_made = cache_path(asked.shards, view).exists()
    began = time.perf_counter()
    first = _opened(asked, "disk", progress)
    seconds = time.perf_counter() - began
    kinds: tuple[Kept, ...] = ("none", "memory")
    if first.kept == "disk":
        kinds = (*kinds, "disk")
    turns = Turns({NAMES[kind]: partial(_turn, asked, kind) for kind in kinds})
    turns.take(rounds, progress)
    return InputResult(
        asked,
        first.count,
        seconds if first.kept == "disk" and not is_made else None,
        dict(turns.taken),
        "" if first.kept == "disk" else first.describe()[-1],
        step_showers_per_second,
        turns.interrupted,
    )


def _opened(asked: Asked, kind: Kept, progress: Progress) -> TrainingSet:
    return open_training_set(
        asked.shards, asked.preset, DataConfig(), cache=kind, progress=progress
    )


def _turn(asked: Asked, kind: Kept) -> Turn:
    forget_pages(asked.shards)
    began = time.perf_counter()
    training_set = _opened(asked, kind, Silent())
    open_seconds = time.perf_counter() - began
    order = Order(training_set.train_counts, 0, asked.batch)
    elements: Iterator[object] = iter(
        feed(
            training_set,
            order,
            worker_first_replica=0,
            local_replicas=1,
            replicas=1,
            start_step=0,
            threads=asked.threads,
        )
    )
    cold = -(-min(order.count, _COLD_SHOWERS) // asked.batch)
    began = time.perf_counter()
    for _ in itertools.islice(elements, cold):
        pass
    cold_seconds = time.perf_counter() - began
    showers, began, cpu = 0, time.perf_counter(), time.process_time()
    while (seconds := time.perf_counter() - began) < asked.seconds or not showers:
        next(elements)
        showers += asked.batch
    cpu_seconds = (time.process_time() - cpu) / showers
    return Turn(open_seconds, cold * asked.batch / cold_seconds, showers / seconds, cpu_seconds)


def forget_pages(folder: Path) -> None:
    """Asks the system to forget what it keeps of the files below `folder`, where it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
