"""Whole runs of `cloudgan train` as programs: their times, and several at once on shares of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import CloudganError
from cloudgan.core.settings import child_environment
from cloudgan.data.sources.hdf5_writer import write_hdf5
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from cloudgan.training.cluster import share_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import RunRecord

_GRACE_SECONDS = 90.0  # a step of the paper preset, and its checkpoint
_LAST_LINES = 12


class ProgramRun(NamedTuple):
    """Times of one run of the program.

    Attributes:
        showers: Trained showers.
        program_seconds: From start to end.
        startup_seconds: From start to the first step, from its record.
        first_call_seconds: First call of the step, which traces and compiles.
        steady_showers_per_second: During training, without that call.
        cpu_seconds: Of all its processes and threads.
        device: CPU, or name of the accelerator.
    """

    showers: int
    program_seconds: float
    startup_seconds: float
    first_call_seconds: float
    steady_showers_per_second: float
    cpu_seconds: float
    device: str


def make_showers(folder: Path, count: int, cells: tuple[int, int]) -> Path:
    """Simulates `count` showers and converts them to a folder of shards, which is returned.

    Raises:
        CloudganError: The conversion failed.
    """
    write_hdf5(folder / "showers.h5", simulate(count, seed=0, cells=cells))
    shards = folder / "shards"
    run_program(
        ("convert", str(folder / "showers.h5"), str(shards), "--json"), folder / "convert.log"
    )
    return shards


def run_train(config: RunConfig, folder: Path, *, copies: int = 1) -> ProgramRun:
    """Runs `cloudgan train` for a configuration in a new folder, and waits for its end.

    Args:
        config: Of the run.
        folder: Is created.
        copies: Independent runs at the same time, each with its share of the cores or GPUs. Their showers,
            speeds and CPU times are added, of the other times the longest is returned.

    Raises:
        CloudganError: One failed, and what its last lines were; or its steps were too few to have
            any but the first call.
    """
    folder.mkdir(parents=True)
    written = folder / "asked.yaml"  # JSON is YAML too
    written.write_text(config.model_dump_json(), encoding="utf-8")
    runs = [run_folder(folder, number) for number in range(copies)]
    shares = zip(share_gpus(copies), core_shares(copies), strict=True)
    cpu, began = _children_cpu_seconds(), time.perf_counter()
    programs: list[_Program] = []
    try:
        for run, (gpus, cores) in zip(runs, shares, strict=True):
            words = ("train", f"--config={written}", f"--run={run.path}", "--json")
            with pinned(cores):
                programs.append(_Program(words, run.path.with_suffix(".log"), gpus))
        for program in programs:
            program.wait()
    finally:
        for program in programs:
            program.end()
    seconds, cpu = time.perf_counter() - began, _children_cpu_seconds() - cpu
    found = [_program_run(record.read(run.record_file), seconds, cpu) for run in runs]
    return ProgramRun(
        showers=sum(one.showers for one in found),
        program_seconds=seconds,
        startup_seconds=max(one.startup_seconds for one in found),
        first_call_seconds=max(one.first_call_seconds for one in found),
        steady_showers_per_second=sum(one.steady_showers_per_second for one in found),
        cpu_seconds=cpu,
        device=found[0].device,
    )


def run_folder(folder: Path, copy: int = 0) -> RunFolder:
    """Returns the folder of one of the runs that `run_train` made in `folder`, counted from 0."""
    return RunFolder(folder / f"run-{copy}")


def core_shares(copies: int) -> list[set[int]]:
    """Returns equal disjoint sets of cores; empty ones if the system cannot pin or has too few cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = len(cores) // copies
    return [set(cores[each * i : each * (i + 1)]) for i in range(copies)]


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
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


def _program_run(found: RunRecord, program_seconds: float, cpu_seconds: float) -> ProgramRun:
    started, epochs = found.started(), found.epochs()
    if started is None or not epochs:
        raise CloudganError("the run recorded no epoch")
    steady = [(one.train_seconds - one.trace_seconds, one.samples_per_second) for one in epochs]
    seconds = sum(spent for spent, rate in steady if rate)
    if not seconds:
        raise CloudganError("the first call ran all steps; increase --steps")
    return ProgramRun(
        showers=sum(one.samples for one in epochs),
        program_seconds=program_seconds,
        startup_seconds=started.startup_seconds,
        first_call_seconds=sum(one.trace_seconds for one in epochs),
        steady_showers_per_second=sum(spent * rate for spent, rate in steady) / seconds,
        cpu_seconds=cpu_seconds,
        device=started.numerics.device,
    )


def run_program(words: tuple[str, ...], log: Path) -> None:
    """Runs `cloudgan` with `words` to its end; its output goes to the file `log`.

    Ctrl-C reaches it through this process, so that it ends its own workers.

    Raises:
        CloudganError: It failed; the message has its last lines.
    """
    program = _Program(words, log, {})
    try:
        program.wait()
    finally:
        program.end()


class _Program:
    """A running `cloudgan`; starts when it is made."""

    def __init__(self, words: tuple[str, ...], log: Path, environment: Mapping[str, str]) -> None:
        self._words, self._log = words, log
        with log.open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603
                (sys.executable, "-m", "cloudgan", *words),
                env=child_environment(TF_CONFIG=None, CLOUDGAN_SUPERVISED=None, **environment),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Waits for the end.

        Raises:
            CloudganError: It failed.
        """
        code = self._process.wait()
        if code:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            lines = "\n".join(f"  {line}" for line in text.splitlines()[-_LAST_LINES:])
            raise CloudganError(
                f"`cloudgan {' '.join(self._words)}` ended with exit code {code}; its last lines:\n{lines}"
            )

    def end(self) -> None:
        """Terminates the program if it runs; kills it on a second Ctrl-C or after the grace period."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.wait(_GRACE_SECONDS)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _children_cpu_seconds() -> float:
    """Returns the CPU time of all descendants that have ended."""
    times = os.times()
    return times.children_user + times.children_system
