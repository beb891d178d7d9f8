"""Replicas or processes in place of threads: the same cores, several ways to share them.

A way's efficiency is its speed over that of one replica in one process that has all cores by
threads. On accelerators each replica brings a device of its own, so there it is the speed over that
many times the speed of one.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cloudgan.bench.spread import Spread, paired, spread
from cloudgan.bench.train_program import ProgramRun, make_showers, run_train
from cloudgan.bench.turns import Turns
from cloudgan.core.config import parse_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress

Kind = Literal["strong", "weak"]
_LEAST_SHOWERS = 250
_TRAINED_SHARE = 0.9  # held_back_fraction is a tenth by default
_STREAM = 50


class Way(NamedTuple):
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
        """Into how many the global batch is cut."""
        return self.replicas * self.workers


BASE = Way()


@dataclass(frozen=True)
class WayResult:
    """A way and the runs of the program that went it, in their order."""

    way: Way
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
    """All that was measured; the base, threads only, is the first way.

    Attributes:
        kind: strong: all ways have one global batch; weak: each replica has one batch.
        preset: What was trained.
        steps: Of each run.
        ways: In the order of a round.
        interrupted: Whether Ctrl-C ended it early.
    """

    kind: Kind
    preset: str
    steps: int
    ways: tuple[WayResult, ...]
    interrupted: bool

    def training_efficiency(self, way: WayResult) -> Spread:
        """Of training only, pairs of one round."""
        return self._efficiency(way, lambda one: one.training)

    def end_to_end_efficiency(self, way: WayResult) -> Spread:
        """Of program time, pairs of one round."""
        return self._efficiency(way, lambda one: one.end_to_end)

    def _efficiency(self, way: WayResult, speeds: Callable[[WayResult], list[float]]) -> Spread:
        base = self.ways[0]
        grown = 1 if base.runs[0].device == "CPU" else way.way.parts
        return paired(speeds(way), [grown * speed for speed in speeds(base)])


def make_configs(
    kind: Kind, ways: Sequence[Way], *, preset: str, batch: int, steps: int, kernels: str
) -> dict[Way, RunConfig]:
    """Returns what each way trains.

    Args:
        kind: strong shares `batch` among the replicas; weak gives each as much.
        ways: Without repetition.
        preset: What is trained.
        batch: Showers per step, of all replicas or of each.
        steps: Of each run.
        kernels: Formulation of the layers.

    Raises:
        ConfigError: A value is not allowed, or the replicas do not divide the batch.
    """
    size = "global_batch_size" if kind == "strong" else "batch_per_replica"
    made = {}
    for way in ways:
        training: dict[str, Any] = {size: batch, "max_steps": steps, "kernels": kernels}
        # Enough epochs for the steps; no test losses, which belong to an epoch's end.
        training |= {"epochs": max(1, steps), "validation_showers": 0}
        if way.workers > 1:
            training |= {"strategy": "multiworker", "workers": way.workers}
        elif way.replicas > 1:
            training |= {"strategy": "mirrored", "replicas": way.replicas}
        else:
            training |= {"strategy": "one"}
        asked = {"model": {"preset": preset}, "training": training}
        made[way] = parse_config(asked, f"the command line ({way.name})")
        made[way].global_batch(way.parts)
    return made


def measure_scaling(
    kind: Kind, configs: dict[Way, RunConfig], *, rounds: int, progress: Progress
) -> ScalingResult:
    """Runs the program for each way in turns, on showers that are simulated for it.

    Args:
        kind: What the configurations were made for.
        configs: By way, the base first.
        rounds: How many runs each way has.
        progress: Shows the runs.

    Raises:
        CloudganError: A run failed, or not one round was finished.
    """
    batches = {way: config.global_batch(way.parts) for way, config in configs.items()}
    first = configs[BASE]
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as name:
        folder = Path(name)
        needed = max(_LEAST_SHOWERS, 2 * max(batches.values()) / _TRAINED_SHARE)
        showers = _STREAM * -(-int(needed) // _STREAM)
        progress.start(f"simulating and converting {showers} showers")
        shards = make_showers(folder, showers, first.model.image_shape[:2])
        turns = Turns(
            {
                way.name: partial(_turn, _on(config, shards), folder / way.name, count())
                for way, config in configs.items()
            }
        )
        turns.take(rounds, progress)
    taken = turns.taken
    ways = tuple(
        WayResult(way, batches[way], taken[way.name]) for way in configs if way.name in taken
    )
    steps = first.training.max_steps or 0
    return ScalingResult(kind, first.model.preset, steps, ways, turns.interrupted)


def _on(config: RunConfig, shards: Path) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"path": str(shards)})})


def _turn(config: RunConfig, folder: Path, numbers: Iterator[int]) -> ProgramRun:
    return run_train(config, folder / str(next(numbers)))
