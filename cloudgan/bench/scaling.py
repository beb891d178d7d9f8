"""Scaling over replicas or processes: the same cores, shared in several ways.

The efficiency of a variant is its speed over that of one replica in one process with all cores as
threads. On accelerators each replica has its own device, so it is the speed over that many times the
speed of one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.core.settings import child_environment
from cloudgan.data.sources.hdf5_writer import write_hdf5
from cloudgan.reports.table import Table
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.provenance import versions
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloudgan.core.progress import Progress
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
    return _program_run(record.read(run.record_file), seconds, cpu)


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
    """Terminates the process; kills it on a second Ctrl-C or after the grace period."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(_GRACE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


def _children_cpu_seconds() -> float:
    """Returns the CPU time of all descendants that have ended."""
    times = os.times()
    return times.children_user + times.children_system


Kind = Literal["strong", "weak"]
_LEAST_SHOWERS = 250
_TRAINED_SHARE = 0.9  # held_out_fraction is a tenth by default
_STREAM = 50


class ScalingVariant(NamedTuple):
    """How the cores are shared: replicas of one process, or processes of one replica."""

    replicas: int = 1
    workers: int = 1

    @property
    def name(self) -> str:
        """Such as ``2 replicas``; one of each is ``threads only``."""
        if self.workers > 1:
            return f"{self.workers} processes"
        return f"{self.replicas} replicas" if self.replicas > 1 else "threads only"

    @property
    def parts(self) -> int:
        """Parts of the global batch."""
        return self.replicas * self.workers


BASE = ScalingVariant()


@dataclass(frozen=True)
class ScalingPoint:
    """One variant and its runs, in order."""

    variant: ScalingVariant
    global_batch: int
    runs: Sequence[ProgramRun]

    @property
    def training(self) -> list[float]:
        """Showers per second while training, the first call left out."""
        return [one.steady_showers_per_second for one in self.runs]

    @property
    def end_to_end(self) -> list[float]:
        """Showers per second of program time."""
        return [one.showers / one.program_seconds for one in self.runs]

    def of(self, name: str) -> Spread:
        """Sums up one of the durations of `ProgramRun`."""
        return spread([getattr(one, name) for one in self.runs])


@dataclass(frozen=True)
class ScalingResult:
    """All measurements; the base, threads only, is the first point.

    Attributes:
        kind: strong: all points have one global batch; weak: each replica has one batch.
        preset: What was trained.
        steps: Of each run.
        ways: In the order of a round.
        interrupted: Whether Ctrl-C ended it early.
    """

    kind: Kind
    preset: str
    steps: int
    points: tuple[ScalingPoint, ...]
    interrupted: bool

    def training_efficiency(self, variant: ScalingPoint) -> Spread:
        """Of training only, pairs of one round."""
        return self._efficiency(variant, lambda one: one.training)

    def end_to_end_efficiency(self, variant: ScalingPoint) -> Spread:
        """Of program time, pairs of one round."""
        return self._efficiency(variant, lambda one: one.end_to_end)

    def _efficiency(
        self, variant: ScalingPoint, speeds: Callable[[ScalingPoint], list[float]]
    ) -> Spread:
        base = self.points[0]
        grown = 1 if base.runs[0].device == "CPU" else variant.variant.parts
        return paired(speeds(variant), [grown * speed for speed in speeds(base)])


def make_configs(
    kind: Kind,
    points: Sequence[ScalingVariant],
    *,
    preset: str,
    batch: int,
    steps: int,
    conv_impl: str,
) -> dict[ScalingVariant, RunConfig]:
    """Returns the configuration of each variant.

    Args:
        kind: strong shares `batch` among the replicas; weak gives each as much.
        points: Without repetition.
        preset: What is trained.
        batch: Showers per step, of all replicas or of each.
        steps: Of each run.
        conv_impl: Formulation of the layers.

    Raises:
        ConfigError: A value is not allowed, or the replicas do not divide the batch.
    """
    size = "global_batch_size" if kind == "strong" else "batch_per_replica"
    made = {}
    for variant in points:
        training: dict[str, Any] = {size: batch, "max_steps": steps, "conv_impl": conv_impl}
        # Enough epochs for the steps; no test losses, which belong to an epoch's end.
        training |= {"epochs": max(1, steps), "validation_showers": 0}
        if variant.workers > 1:
            training |= {"strategy": "multiworker", "workers": variant.workers}
        elif variant.replicas > 1:
            training |= {"strategy": "mirrored", "replicas": variant.replicas}
        else:
            training |= {"strategy": "one"}
        asked = {"model": {"preset": preset}, "training": training}
        made[variant] = parse_config(asked, f"the command line ({variant.name})")
        made[variant].global_batch(variant.parts)
    return made


def measure_scaling(
    kind: Kind, configs: dict[ScalingVariant, RunConfig], *, rounds: int, progress: Progress
) -> ScalingResult:
    """Runs the program for each variant in turns, on simulated showers.

    Args:
        kind: What the configurations were made for.
        configs: By variant, the base first.
        rounds: Runs of each variant.
        progress: Shows the runs.

    Raises:
        CloudganError: A run failed, or not one round was finished.
    """
    batches = {variant: config.global_batch(variant.parts) for variant, config in configs.items()}
    first = configs[BASE]
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as name:
        folder = Path(name)
        needed = max(_LEAST_SHOWERS, 2 * max(batches.values()) / _TRAINED_SHARE)
        showers = _STREAM * -(-int(needed) // _STREAM)
        progress.start(f"simulating and converting {showers} showers")
        shards = make_showers(folder, showers, first.model.image_shape[:2])
        rounds_run = Rounds(
            {
                variant.name: partial(_turn, _on(config, shards), folder / variant.name, count())
                for variant, config in configs.items()
            }
        )
        rounds_run.run(rounds, progress)
    taken = rounds_run.results
    points = tuple(
        ScalingPoint(variant, batches[variant], taken[variant.name])
        for variant in configs
        if variant.name in taken
    )
    steps = first.training.max_steps or 0
    return ScalingResult(kind, first.model.preset, steps, points, rounds_run.interrupted)


def _on(config: RunConfig, shards: Path) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"path": str(shards)})})


def _turn(config: RunConfig, folder: Path, numbers: Iterator[int]) -> ProgramRun:
    return run_train(config, folder / str(next(numbers)))


_DURATIONS = ("program_seconds", "startup_seconds", "first_call_seconds", "cpu_seconds")


def scaling_json(result: ScalingResult) -> dict[str, Any]:
    """Returns all results by name; `efficiency` by variant, against threads only."""
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "scaling": result.kind,
        "preset": result.preset,
        "steps": result.steps,
        "rounds": min(len(variant.runs) for variant in result.points),
        "interrupted": result.interrupted,
        "variants": [_way(variant) for variant in result.points],
        "efficiency": {
            variant.variant.name: {
                "training_only": result.training_efficiency(variant).as_json(),
                "end_to_end": result.end_to_end_efficiency(variant).as_json(),
            }
            for variant in result.points[1:]
        },
    }


def _way(variant: ScalingPoint) -> dict[str, Any]:
    return {
        "name": variant.variant.name,
        "replicas": variant.variant.replicas,
        "workers": variant.variant.workers,
        "global_batch": variant.global_batch,
        "device": variant.runs[0].device,
        "training_showers_per_second": spread(variant.training).as_json(),
        "end_to_end_showers_per_second": spread(variant.end_to_end).as_json(),
        **{name: variant.of(name).as_json() for name in _DURATIONS},
        "runs": [one._asdict() for one in variant.runs],
    }


def scaling_table(result: ScalingResult) -> Table:
    """A row for each way."""
    rows = tuple(
        (
            *(variant.variant.name, variant.global_batch),
            *(spread(variant.training).median, spread(variant.end_to_end).median),
            *(variant.of("program_seconds").median, variant.of("startup_seconds").median),
            *(variant.of("first_call_seconds").median, variant.of("cpu_seconds").median),
            result.training_efficiency(variant).describe(),
            result.end_to_end_efficiency(variant).describe(),
        )
        for variant in result.points
    )
    columns = (
        *("variant", "global batch", "showers/s, training only", "showers/s, end to end"),
        *("program s", "start-up s", "first call s", "CPU s"),
        *("efficiency, training only", "efficiency, end to end"),
    )
    kept = "one global batch" if result.kind == "strong" else "one batch per replica"
    said = (
        f"{result.kind.capitalize()} scaling, {kept}: {result.preset}, {result.steps} steps,"
        f" {min(len(variant.runs) for variant in result.points)} rounds in turns,"
        f" {this_machine().describe()}. Efficiency against the same cores used by threads: median"
        " (least to most) of pairs of one round."
    )
    return Table(columns, rows, said, "lrrrrrrrrr")
