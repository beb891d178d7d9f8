"""`bench input`: the input pipeline of `train`, cold from the disk, then warm.

A turn drops the page cache, opens the store, reads the first showers cold and then reads warm.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cloudgan.bench.harness import (
    Column,
    Measurement,
    Spread,
    children_in_turns,
    table_of,
    variants_json,
)
from cloudgan.bench.processes import Child, make_showers
from cloudgan.bench.step import plain_step
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.batches import TrainingSet
from cloudgan.data.convert import convert
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.manifest import has_manifest
from cloudgan.reports.table import Cell, Number
from cloudgan.schema.options.bench import BenchInputOptions
from cloudgan.schema.presets import find_preset, find_profile
from cloudgan.storage.bucket_showers import local_copy

_COLD_SHOWERS = 4096
_CELL_BYTES = 4


def _range(found: Spread) -> Cell:
    digits = 0 if found.median > 10 else 2  # noqa: PLR2004
    low, high = f"{found.min:.{digits}f}", f"{found.max:.{digits}f}"
    return Number(found.median, f"{found.median:.{digits}f} ({low} to {high})")


COLUMNS = (
    Column("open_seconds", "open, s", _range),
    Column("cold_showers_per_second", "cold, 1/s", _range),
    Column("showers_per_second", "warm, 1/s", _range),
    Column("image_bytes_per_second", "images, MB/s", lambda found: round(found.median), 1e-6),
    Column("cpu_seconds", "CPU, µs each", lambda found: round(found.median, 1), 1e6),
)
_RATIO = Column("ratio_to_step", "times the step", lambda found: round(found.median, 1))


def measure(options: BenchInputOptions, progress: Progress) -> Measurement:
    """Measures how fast the showers of `data`, or simulated ones, are read."""
    preset, step = find_preset(options.preset), options.step_showers_per_second
    if step is not None and options.measure_step:
        raise ConfigError("--step-showers-per-second and --measure-step exclude each other")
    batch = options.batch or find_profile(preset.networks).batch
    threads = options.threads or this_machine().cores
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cloudgan-")))
        source = stack.enter_context(local_copy(options.data, progress))
        if not options.data:
            store = make_showers(made, options.showers, progress)
        elif has_manifest(source):
            store = Path(source)
        else:
            store = made / "store"
            convert(source, store, unit=options.unit or "", progress=progress)
        if options.measure_step:
            training = {"batch_per_replica": batch, "threads": threads}
            found = plain_step(options.preset, training, 3, progress)
            step = found.spread("showers_per_second").median
        showers = TrainingSet.open(store, preset, progress=progress).count  # refuses bad ones
        child = Child(
            "store",
            "cloudgan.bench.input:rows",
            store=str(store),
            preset=options.preset,
            batch=batch,
            threads=threads,
            seconds=options.seconds,
        )
        measured, interrupted = children_in_turns([child], options.rounds, progress, warm_up=False)
    (one,) = measured
    columns: tuple[Column, ...] = COLUMNS
    said = "The rate of a step is unknown; give --step-showers-per-second=N or --measure-step."
    if step:
        one.put_ratio("ratio_to_step", "showers_per_second", step)
        columns, said = (*COLUMNS, _RATIO), f"A step takes {step:.4g} showers/s."
    caption = (
        f"{options.preset}, batches of {batch}, {counted(threads, 'reader')}, {showers} showers"
    )
    return Measurement(
        title="How fast are batches read?",
        data=str(store),
        preset=options.preset,
        showers=showers,
        batch=batch,
        threads=threads,
        rounds=len(one.rows),
        bytes_per_image=math.prod(preset.image_shape) * _CELL_BYTES,
        step_showers_per_second=step,
        variants=variants_json(measured, columns),
        interrupted=interrupted,
        lines=(said, f"Measured on {this_machine().describe()}."),
        tables=(table_of(measured, columns, caption, head="showers"),),
    )


def rows(
    *, store: str, preset: str, batch: int, threads: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Work of the child: yields no facts, then turns of `seconds` after the cold part."""
    from cloudgan.data.input_pipeline import input_pipeline

    path, view = Path(store), find_preset(preset)
    yield {}
    while True:
        _forget_pages(path)
        began = time.perf_counter()
        training_set = TrainingSet.open(path, view)
        open_seconds = time.perf_counter() - began
        order = EpochSampler(training_set.train_counts, 0, batch)
        elements = iter(
            input_pipeline(
                training_set,
                order,
                worker_first_replica=0,
                local_replicas=1,
                replicas=1,
                start_step=0,
                threads=threads,
            )
        )
        cold = -(-min(order.count, _COLD_SHOWERS) // batch)
        began = time.perf_counter()
        for _ in itertools.islice(elements, cold):
            pass
        cold_seconds = time.perf_counter() - began
        read, began, cpu = 0, time.perf_counter(), time.process_time()
        while (spent := time.perf_counter() - began) < seconds or not read:
            next(elements)
            read += batch
        yield {
            "open_seconds": open_seconds,
            "cold_showers_per_second": cold * batch / cold_seconds,
            "showers_per_second": read / spent,
            "image_bytes_per_second": math.prod(view.image_shape) * _CELL_BYTES * read / spent,
            "cpu_seconds": (time.process_time() - cpu) / read,
        }


def _forget_pages(folder: Path) -> None:
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
