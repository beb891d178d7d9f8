"""Whole runs of `cloudgan` as programs: their times, and several at once on shares of the machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from cloudgan.bench.harness import Row
from cloudgan.bench.processes import Process
from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Progress
from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.training.cluster import share_gpus


def make_showers(
    folder: Path, count: int, progress: Progress, cells: tuple[int, int] = (51, 51)
) -> Path:
    """Simulates `count` showers in a window of cells in x and y, and returns the store of them."""
    progress.start(f"simulating and converting {count} showers")
    write_hdf5(folder / "showers.h5", simulate(count, seed=0, cells=cells))
    convert(str(folder / "showers.h5"), folder / "store", progress=progress)
    return folder / "store"


def program(
    *words: str, environment: Mapping[str, str] | None = None, cores: frozenset[int] = frozenset()
) -> Process:
    """Returns a call of `cloudgan`."""
    command = (sys.executable, "-m", "cloudgan", *words)
    said = f"`cloudgan {' '.join(words)}`"
    return Process(said, command, environment=environment, cores=cores)


def run_programs(*programs: Process) -> None:
    """Runs programs at the same time to their ends, and waits in their order: one that failed ends the later ones."""
    with ExitStack() as stack:
        for started in [stack.enter_context(one) for one in programs]:
            started.wait()


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
    programs = []
    for run, gpus, cores in zip(runs, share_gpus(copies), core_shares(copies), strict=True):
        words = ("train", f"--config={written}", f"--run={run.path}", "--json")
        programs.append(program(*words, environment=gpus, cores=cores))
    cpu, began = _children_cpu_seconds(), time.perf_counter()
    run_programs(*programs)
    seconds, cpu = time.perf_counter() - began, _children_cpu_seconds() - cpu
    records = [record.read(run.record_file) for run in runs]
    times = [_training_times(found) for found in records]
    sums = {key: sum(one[key] for one in times) for key in ("showers", "showers_per_second")}
    longest = ("startup_seconds", "first_call_seconds")
    row = sums | {
        "end_to_end_showers_per_second": sums["showers"] / seconds,
        "program_seconds": seconds,
        **{key: max(one[key] for one in times) for key in longest},
        "cpu_seconds": cpu,
    }
    return row, records[0]


def _training_times(found: RunRecord) -> Row:
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
