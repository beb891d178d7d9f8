"""Measures the input pipeline of `train` in turns: decoding each shower, or reading preprocessed ones."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.pipeline.input_pipeline import input_pipeline
from cloudgan.data.pipeline.preprocessed_cache import cache_path
from cloudgan.data.pipeline.training_set import Kept, TrainingSet, open_training_set
from cloudgan.reports.table import Number, Table
from cloudgan.schema.config import DataConfig
from cloudgan.schema.provenance import versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cloudgan.bench.measurement import Spread
    from cloudgan.schema.presets import Preset

NAMES: dict[Kept, str] = {"none": "decoded", "memory": "memory", "disk": "file"}
_COLD_SHOWERS = 4096
_IMAGE_BYTES = 4


@dataclass(frozen=True)
class InputRequest:
    """What to read, and how.

    Attributes:
        shards: Folder of shards; preprocessed showers are cached beside it, as in `train`.
        batch: Showers per element.
        threads: Reader threads.
        seconds: Duration of the warm part of a turn.
    """

    shards: Path
    preset: Preset
    batch: int
    threads: int
    seconds: float


class Turn(NamedTuple):
    """One turn: drop the page cache, open the set, read cold, then read warm.

    Attributes:
        open_seconds: Until the first shower, including checks and preprocessing.
        cold_showers_per_second: Of the first showers.
        showers_per_second: Of the later showers.
        cpu_seconds: Of all threads, per later shower.
    """

    open_seconds: float
    cold_showers_per_second: float
    showers_per_second: float
    cpu_seconds: float


@dataclass(frozen=True)
class InputResult:
    """All measurements.

    Attributes:
        showers: Training showers in the set.
        make_seconds: To preprocess all showers and write the file; None: the file existed.
        rounds: By name: decoded, memory, file; same index, same round.
        note: Why there is no file.
        step_showers_per_second: Rate of training; None: unknown.
        interrupted: Whether Ctrl-C ended it early.
    """

    asked: InputRequest
    showers: int
    make_seconds: float | None
    rounds: dict[str, Sequence[Turn]]
    note: str
    step_showers_per_second: float | None
    interrupted: bool

    def of(self, name: str, what: str) -> Spread:
        """Returns a quantity of all turns of one variant."""
        return spread([getattr(turn, what) for turn in self.rounds[name]])

    def faster(self, name: str, what: str = "showers_per_second") -> Spread:
        """Returns a quantity relative to decoding, in pairs of one round."""
        pairs = (self.rounds[name], self.rounds["decoded"])
        above, below = ([getattr(turn, what) for turn in side] for side in pairs)
        return paired(above, below)

    @property
    def image_bytes(self) -> int:
        """Size of the dense image of one shower."""
        x, y, z = self.asked.preset.image_shape
        return x * y * z * _IMAGE_BYTES


def measure_input(
    asked: InputRequest, *, rounds: int, step_showers_per_second: float | None, progress: Progress
) -> InputResult:
    """Measures the three ways to read in turns.

    Raises:
        DataError: The shards are damaged, or too small for the preset.
        CloudganError: No round was completed.
    """
    view = _opened(asked, "none", Silent()).view
    is_made = cache_path(asked.shards, view).exists()
    began = time.perf_counter()
    first = _opened(asked, "disk", progress)
    seconds = time.perf_counter() - began
    kinds: tuple[Kept, ...] = ("none", "memory")
    if first.kept == "disk":
        kinds = (*kinds, "disk")
    rounds_run = Rounds({NAMES[kind]: partial(_turn, asked, kind) for kind in kinds})
    rounds_run.run(rounds, progress)
    return InputResult(
        asked,
        first.count,
        seconds if first.kept == "disk" and not is_made else None,
        dict(rounds_run.results),
        "" if first.kept == "disk" else first.describe()[-1],
        step_showers_per_second,
        rounds_run.interrupted,
    )


def _opened(asked: InputRequest, kind: Kept, progress: Progress) -> TrainingSet:
    return open_training_set(
        asked.shards, asked.preset, DataConfig(), cache=kind, progress=progress
    )


def _turn(asked: InputRequest, kind: Kept) -> Turn:
    forget_pages(asked.shards)
    began = time.perf_counter()
    training_set = _opened(asked, kind, Silent())
    open_seconds = time.perf_counter() - began
    order = EpochSampler(training_set.train_counts, 0, asked.batch)
    elements: Iterator[object] = iter(
        input_pipeline(
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
    """Drops the page cache of the files below `folder`, if the system supports it."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


_COLUMNS = ("open_seconds", "cold_showers_per_second", "showers_per_second", "cpu_seconds")


def input_json(result: InputResult) -> dict[str, Any]:
    """Returns all results by name; seconds, bytes, showers per second."""
    asked, file = result.asked, "file" in result.rounds
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "data": str(asked.shards),
        "preset": asked.preset.preset,
        "showers": result.showers,
        "batch": asked.batch,
        "threads": asked.threads,
        "rounds": min(map(len, result.rounds.values())),
        "interrupted": result.interrupted,
        "bytes_per_image": result.image_bytes,
        "make_file_seconds": result.make_seconds,
        "no_file": result.note or None,
        "step_showers_per_second": result.step_showers_per_second,
        "variants": [_variant(result, name) for name in result.rounds],
        "ratio": result.faster("file").as_json() if file else None,
        "cpu_ratio": result.faster("file", "cpu_seconds").as_json() if file else None,
    }


def _variant(result: InputResult, name: str) -> dict[str, Any]:
    rate, step = result.of(name, "showers_per_second"), result.step_showers_per_second
    return {
        "name": name,
        **{what: result.of(name, what).as_json() for what in _COLUMNS},
        "image_bytes_per_second": rate.median * result.image_bytes,
        "ratio_to_step": rate.median / step if step else None,
    }


def input_table(result: InputResult) -> Table:
    """Returns a row per way to read: medians with range."""
    asked, step = result.asked, result.step_showers_per_second
    rows = []
    for name in result.rounds:
        rate, cpu = result.of(name, "showers_per_second"), result.of(name, "cpu_seconds")
        row = (
            name,
            _spread_text(result.of(name, "open_seconds"), digits=2),
            _spread_text(result.of(name, "cold_showers_per_second")),
            _spread_text(rate),
            round(rate.median * result.image_bytes / 1e6),
            round(cpu.median * 1e6, 1),
        )
        rows.append((*row, round(rate.median / step, 1)) if step else row)
    heads = ("showers", "open, s", "cold, 1/s", "warm, 1/s", "images, MB/s", "CPU, µs each")
    return Table(
        (*heads, "times the step") if step else heads,
        tuple(rows),
        f"{asked.preset.preset}, batches of {asked.batch}, {asked.threads} readers,"
        f" {result.showers} showers",
    )


def _spread_text(numbers: Spread, digits: int = 0) -> Number:
    low, high = f"{numbers.min:.{digits}f}", f"{numbers.max:.{digits}f}"
    return Number(numbers.median, f"{numbers.median:.{digits}f} ({low} to {high})")


def input_lines(result: InputResult) -> Iterator[str]:
    """Yields further results as sentences."""
    if result.note:
        yield result.note
    if result.make_seconds is not None:
        yield f"Preprocessing all showers and writing the file took {result.make_seconds:.1f} s, once."
    if "file" in result.rounds:
        faster, cpu = result.faster("file"), result.faster("file", "cpu_seconds")
        yield f"From the file showers come {faster.describe()} times as fast as decoded ones,"
        yield f"for {cpu.describe()} times the CPU time."
    if result.step_showers_per_second:
        yield f"A step takes {result.step_showers_per_second:.4g} showers/s."
    else:
        yield "The rate of a step is unknown; give --step-showers-per-second=N or --measure-step."
    yield f"Measured on {this_machine().describe()}."
