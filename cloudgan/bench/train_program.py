"""Whole runs of `cloudgan train`, from the start of the program to its end, and what they took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core import record
from cloudgan.core.errors import CloudganError
from cloudgan.core.settings import child_environment
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.record import RunRecord

_GRACE_SECONDS = 90.0  # a step of the paper preset, and its checkpoint
_LAST_LINES = 12


class ProgramRun(NamedTuple):
    """What one run of the program took.

    Attributes:
        showers: That it trained on.
        program_seconds: From its start to its end, by our own clock.
        startup_seconds: From its start to the first step's begin, by its record.
        first_call_seconds: Of the first call of the step, which traces and compiles.
        steady_showers_per_second: While training, without that call.
        cpu_seconds: Of all its processes and threads.
        device: What computed: CPU, or the accelerator's name.
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
        CloudganError: They could not be converted.
    """
    write_hdf5(folder / "showers.h5", simulate(count, seed=0, cells=cells))
    shards = folder / "shards"
    run_program(
        ("convert", str(folder / "showers.h5"), str(shards), "--json"), folder / "convert.log"
    )
    return shards


def run_train(config: RunConfig, folder: Path) -> ProgramRun:
    """Runs `cloudgan train` for a configuration in a new folder, and waits for its end.

    Raises:
        CloudganError: It failed, and what its last lines were; or its steps were too few to have
            any but the first call.
    """
    folder.mkdir(parents=True)
    written = folder / "asked.yaml"  # JSON is YAML too
    written.write_text(config.model_dump_json(), encoding="utf-8")
    run = RunFolder(folder / "run")
    cpu, began = _children_cpu_seconds(), time.perf_counter()
    command = ("train", f"--config={written}", f"--run={run.path}", "--json")
    run_program(command, folder / "train.log")
    seconds, cpu = time.perf_counter() - began, _children_cpu_seconds() - cpu
    return _took(record.read(run.record_file), seconds, cpu)


def _took(found: RunRecord, program_seconds: float, cpu_seconds: float) -> ProgramRun:
    started, epochs = found.started(), found.epochs()
    if started is None or not epochs:
        raise CloudganError("a run of the program left a record without an epoch")
    steady = [(one.train_seconds - one.trace_seconds, one.samples_per_second) for one in epochs]
    seconds = sum(spent for spent, rate in steady if rate)
    if not seconds:
        raise CloudganError("the first call did all steps of a run; take more with --steps")
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
    """Runs `cloudgan` with `words` to its end; what it says goes into the file `log`.

    It is out of reach of the terminal's Ctrl-C, which we pass on, so that it ends its own processes.

    Raises:
        CloudganError: It failed, and what its last lines were.
    """
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603
            (sys.executable, "-m", "cloudgan", *words),
            env=child_environment(TF_CONFIG=None, CLOUDGAN_SUPERVISED=None),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        raise CloudganError(
            f"`cloudgan {' '.join(words)}` ended with exit code {code}; its last lines:\n"
            + "\n".join(f"  {line}" for line in lines)
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks it to end; a second Ctrl-C, or its silence, kills it."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(_GRACE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


def _children_cpu_seconds() -> float:
    """CPU time of all processes that we, or those we started, have waited for."""
    times = os.times()
    return times.children_user + times.children_system
