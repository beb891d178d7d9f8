"""Whole runs of `cloudgan` as programs: their times, and several at once on shares of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cloudgan.bench.harness import Row
from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Progress
from cloudgan.core.settings import child_environment
from cloudgan.core.tail import last_lines
from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.training.cluster import share_gpus

_GRACE_SECONDS = 90.0  # a step of the paper preset, and its checkpoint


def make_showers(
    folder: Path, count: int, progress: Progress, cells: tuple[int, int] = (51, 51)
) -> Path:
    """Simulates `count` showers in a window of cells in x and y, and returns the store of them."""
    progress.start(f"simulating and converting {count} showers")
    write_hdf5(folder / "showers.h5", simulate(count, seed=0, cells=cells))
    convert(str(folder / "showers.h5"), folder / "store", progress=progress)
    return folder / "store"


class Program(NamedTuple):
    """A call of `cloudgan`: its words, the file of its output, more variables, and cores to which it is pinned."""

    words: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = {}
    cores: frozenset[int] = frozenset()


def run_programs(*programs: Program) -> None:
    """Runs programs at the same time to their ends.

    Ctrl-C reaches them through this process, so that they end their own workers; a second one kills them.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        for one in programs:
            with one.log.open("wb") as said, _deferred_signals(), pinned(one.cores):
                process = subprocess.Popen(  # noqa: S603
                    (sys.executable, "-m", "cloudgan", *one.words),
                    env=child_environment(
                        TF_CONFIG=None, CLOUDGAN_SUPERVISED=None, **one.environment
                    ),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
                started.append(process)
        for one, process in zip(programs, started, strict=True):
            if code := process.wait():
                said_last = last_lines(one.log.read_text(encoding="utf-8", errors="replace"))
                raise CloudganError(
                    f"`cloudgan {' '.join(one.words)}` ended with exit code {code}{said_last}"
                )
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                    process.wait(_GRACE_SECONDS)
                process.kill()
                process.wait()


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defers Ctrl-C and SIGTERM to the end of the block: in the middle of `Popen` its program would stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for one in asked:
        signal.raise_signal(one)


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Pins this thread, and the processes that it starts, to `cores`; an empty set changes nothing."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


def core_shares(copies: int) -> list[frozenset[int]]:
    """Returns equal disjoint sets of cores; empty ones if the system cannot pin or has too few cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = len(cores) // copies
    return [frozenset(cores[each * i : each * (i + 1)]) for i in range(copies)]


def run_train(config: RunConfig, folder: Path, *, copies: int = 1) -> tuple[Row, RunRecord]:
    """Runs `cloudgan train` for a configuration in a new folder, and waits for its end.

    Of independent `copies` at the same time each has its share of the cores or GPUs. Their showers and
    speeds are added, of the other times the longest is returned.

    Returns:
        Trained `showers`; `showers_per_second` while training, without the first call of the step; and the
        same of all program time, from start to end; `program_seconds`; `startup_seconds` to the first step;
        `first_call_seconds` of the step, which traces and compiles; `cpu_seconds` of all processes and
        threads. And the record of the first run.
    """
    folder.mkdir(parents=True)
    written = folder / "asked.yaml"  # JSON is YAML too
    written.write_text(config.model_dump_json(), encoding="utf-8")
    runs = [RunFolder(folder / f"run-{number}") for number in range(copies)]
    shares = zip(runs, share_gpus(copies), core_shares(copies), strict=True)
    cpu, began = _children_cpu_seconds(), time.perf_counter()
    run_programs(
        *(
            Program(
                ("train", f"--config={written}", f"--run={run.path}", "--json"),
                run.path.with_suffix(".log"),
                gpus,
                cores,
            )
            for run, gpus, cores in shares
        )
    )
    seconds, cpu = time.perf_counter() - began, _children_cpu_seconds() - cpu
    records = [record.read(run.record_file) for run in runs]
    times = [training_times(found) for found in records]
    showers = sum(one["showers"] for one in times)
    row = {
        "showers": showers,
        "showers_per_second": sum(one["showers_per_second"] for one in times),
        "end_to_end_showers_per_second": showers / seconds,
        "program_seconds": seconds,
        "startup_seconds": max(one["startup_seconds"] for one in times),
        "first_call_seconds": max(one["first_call_seconds"] for one in times),
        "cpu_seconds": cpu,
    }
    return row, records[0]


def training_times(found: RunRecord) -> Row:
    """Returns the times of a run from its record; to have no epoch, or only the first call, is a CloudganError."""
    started, epochs = found.started(), found.epochs()
    if started is None or not epochs:
        raise CloudganError("the run recorded no epoch")
    steady = [(one.train_seconds - one.trace_seconds, one.samples_per_second) for one in epochs]
    seconds = sum(spent for spent, rate in steady if rate)
    if not seconds:
        raise CloudganError("the first call ran all steps; increase --steps")
    return {
        "showers": sum(one.samples for one in epochs),
        "startup_seconds": started.startup_seconds,
        "first_call_seconds": sum(one.trace_seconds for one in epochs),
        "showers_per_second": sum(spent * rate for spent, rate in steady) / seconds,
    }


def _children_cpu_seconds() -> float:
    """Returns the CPU time of all descendants that have ended."""
    times = os.times()
    return times.children_user + times.children_system
