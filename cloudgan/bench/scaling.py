"""Scaling over replicas or processes: the same cores, shared in several ways.

The efficiency of a variant is its speed over that of one replica in one process with all cores as
threads. On accelerators each replica has its own device, so it is the speed over that many times the
speed of one. Beside each variant of n parts stand n independent runs on the same shares of the machine,
which exchange nothing: what they lack is the price of small batches and few threads, and what the
variant lacks against them is the price of the exchange.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.bench.training_program import ProgramRun, make_showers, run_train
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.reports.table import Table
from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import find_preset, find_profile
from cloudgan.schema.provenance import versions
from cloudgan.training.expected_memory import expected_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig

Kind = Literal["strong", "weak"]
_LEAST_SHOWERS = 250
_LEAST_STEPS = 4
TWO_CALLS = 40
"""Steps of two calls of a device with the default of training.steps_per_loop: the first one, which compiles, is
not timed, so it must not be the only one."""
_TRAINED_SHARE = 0.9  # held_out_fraction is a tenth by default
_STREAM = 50


class ScalingVariant(NamedTuple):
    """How the machine is shared: replicas of one process, processes of one replica, or independent runs.

    Attributes:
        replicas: Of each process.
        workers: Processes of each run.
        copies: Independent runs at the same time.
        share_of: One replica trains the share of the batch that each of so many devices would have.
    """

    replicas: int = 1
    workers: int = 1
    copies: int = 1
    share_of: int = 1

    @property
    def name(self) -> str:
        """Such as ``2 replicas``; one of each is ``threads only``."""
        if self.share_of > 1:
            return f"one of {self.share_of} devices"
        if self.copies > 1:
            return f"{self.copies} independent runs"
        if self.workers > 1:
            return f"{self.workers} processes"
        return f"{self.replicas} replicas" if self.replicas > 1 else "threads only"

    @property
    def parts(self) -> int:
        """Parts of the machine."""
        return self.replicas * self.workers * self.copies


BASE = ScalingVariant()


@dataclass(frozen=True)
class ScalingStudy:
    """What is measured for one preset and batch.

    Attributes:
        kind: strong: all variants have one global batch; weak: each replica has one batch.
        configs: By variant, the base first; of one of its independent runs.
    """

    kind: Kind
    configs: dict[ScalingVariant, RunConfig]

    def batch(self, variant: ScalingVariant) -> int:
        """Returns the showers per step of all parts of a variant."""
        runs = self.configs[variant].global_batch(variant.replicas * variant.workers)
        return runs * variant.copies


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
    """All measurements of a study; the base, threads only, is the first point.

    Attributes:
        kind: strong: all points have one global batch; weak: each replica has one batch.
        preset: What was trained.
        steps: Of each run.
        points: In the order of a round.
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


def make_study(
    kind: Kind,
    variants: Sequence[ScalingVariant],
    *,
    preset: str,
    batch: int | Literal["usual", "largest"] = "usual",
    steps: int | None = None,
    conv_impl: str = "auto",
    predict: Sequence[int] = (),
) -> ScalingStudy:
    """Returns the configuration of each variant, of its independent runs and of the predicted devices.

    Args:
        kind: strong shares the batch among the replicas; weak gives each as much.
        variants: Without repetition, the base first.
        preset: What is trained.
        batch: Showers per step, of all replicas or of each; usual: of the preset; largest: as many as
            should fit into the memory.
        steps: Of a run with the usual batch; None: of the preset. Another batch trains as many showers.
        conv_impl: Formulation of the layers.
        predict: Numbers of devices.

    Raises:
        ConfigError: A value is not allowed, the replicas do not divide the batch, or no batch fits.
    """
    profile = find_profile(find_preset(preset).networks)
    usual = profile.bench_batch
    parts = sorted({one.parts for one in variants if one.parts > 1})
    measured = [*variants, *(ScalingVariant(copies=n) for n in parts)]
    at = partial(_configs, kind, preset=preset, conv_impl=conv_impl)
    if batch == "largest":
        size = _largest_batch(kind, at(measured, batch=math.lcm(*parts), steps=_LEAST_STEPS))
    else:
        size = usual if batch == "usual" else batch
    wanted = profile.bench_steps if steps is None else steps
    if size != usual:
        wanted = max(min(wanted, _LEAST_STEPS), round(wanted * usual / size))
    measured += [ScalingVariant(share_of=n) for n in predict]
    return ScalingStudy(kind, at(measured, batch=size, steps=wanted))


def _configs(
    kind: Kind,
    variants: Sequence[ScalingVariant],
    *,
    preset: str,
    batch: int,
    steps: int,
    conv_impl: str,
) -> dict[ScalingVariant, RunConfig]:
    size = "global_batch_size" if kind == "strong" else "batch_per_replica"
    made = {}
    for variant in variants:
        own = batch
        if kind == "strong":
            own = -(-batch // variant.share_of) // variant.copies
        training: dict[str, Any] = {size: own, "max_steps": steps, "conv_impl": conv_impl}
        # Enough epochs for the steps; no test losses, which belong to an epoch's end.
        training |= {"epochs": max(1, steps), "validation_showers": 0}
        if steps < TWO_CALLS:
            training["steps_per_loop"] = 1
        if variant.workers > 1:
            training |= {"strategy": "multiworker", "workers": variant.workers}
        elif variant.replicas > 1:
            training |= {"strategy": "mirrored", "replicas": variant.replicas}
        else:
            training |= {"strategy": "one"}
        asked = {"model": {"preset": preset}, "training": training}
        made[variant] = parse_config(asked, f"the command line ({variant.name})")
        made[variant].global_batch(variant.replicas * variant.workers)
    return made


def _largest_batch(kind: Kind, configs: dict[ScalingVariant, RunConfig]) -> int:
    """Returns the largest batch with which every variant should fit; a multiple of their parts.

    Raises:
        ConfigError: The free memory is unknown, or too small.
    """
    fits = []
    for variant, config in configs.items():
        here = variant.workers * variant.copies
        found = expected_memory(config, workers=variant.workers, processes=here)
        largest = found.largest_batch() if found else None
        if not largest:
            why = "no batch fits into the memory" if largest == 0 else "the free memory is unknown"
            raise ConfigError(f"--batches=largest: {why}; give a number, such as --batches=16")
        fits.append(largest * (variant.parts if kind == "strong" else 1))
    several = math.lcm(*(variant.parts for variant in configs))
    return max(min(fits) // several, 1) * several


def measure_scaling(
    studies: Sequence[ScalingStudy], *, rounds: int, progress: Progress
) -> list[ScalingResult]:
    """Runs the program for each variant of each study in turns, on simulated showers.

    Args:
        studies: In the order of their measurement.
        rounds: Runs of each variant.
        progress: Shows the runs.

    Returns:
        One result for each study; fewer after Ctrl-C.

    Raises:
        CloudganError: A run failed.
        Interrupted: Nothing was measured.
    """
    results: list[ScalingResult] = []
    for study in studies:
        try:
            results.append(_measure(study, rounds=rounds, progress=progress))
        except Interrupted:
            if not results:
                raise
            results[-1] = replace(results[-1], interrupted=True)
        if results[-1].interrupted:
            break
    return results


def _measure(study: ScalingStudy, *, rounds: int, progress: Progress) -> ScalingResult:
    configs, first = study.configs, study.configs[BASE]
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as name:
        folder = Path(name)
        most = max(study.batch(variant) for variant in configs)
        needed = max(_LEAST_SHOWERS, 2 * most / _TRAINED_SHARE)
        showers = _STREAM * -(-int(needed) // _STREAM)
        progress.start(f"simulating and converting {showers} showers")
        shards = make_showers(folder, showers, first.model.image_shape[:2])
        rounds_run = Rounds(
            {
                variant.name: partial(
                    _turn, _on(config, shards), variant.copies, folder / variant.name, count()
                )
                for variant, config in configs.items()
            }
        )
        rounds_run.run(rounds, progress)
    taken = rounds_run.results
    points = tuple(
        ScalingPoint(variant, study.batch(variant), taken[variant.name])
        for variant in configs
        if variant.name in taken
    )
    steps = first.training.max_steps or 0
    return ScalingResult(study.kind, first.model.preset, steps, points, rounds_run.interrupted)


def _on(config: RunConfig, shards: Path) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update={"path": str(shards)})})


def _turn(config: RunConfig, copies: int, folder: Path, numbers: Iterator[int]) -> ProgramRun:
    return run_train(config, folder / str(next(numbers)), copies=copies)


_DURATIONS = ("program_seconds", "startup_seconds", "first_call_seconds", "cpu_seconds")


def scaling_json(results: Sequence[ScalingResult]) -> dict[str, Any]:
    """Returns all results by name; `efficiency` by variant, against threads only."""
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "scaling": results[0].kind,
        "interrupted": results[-1].interrupted,
        "studies": [_study(result) for result in results],
    }


def _study(result: ScalingResult) -> dict[str, Any]:
    return {
        "preset": result.preset,
        "global_batch": result.points[0].global_batch,
        "steps": result.steps,
        "rounds": min(len(variant.runs) for variant in result.points),
        "variants": [_variant(variant) for variant in result.points],
        "efficiency": {
            variant.variant.name: {
                "training_only": result.training_efficiency(variant).as_json(),
                "end_to_end": result.end_to_end_efficiency(variant).as_json(),
            }
            for variant in result.points[1:]
        },
    }


def _variant(variant: ScalingPoint) -> dict[str, Any]:
    return {
        "name": variant.variant.name,
        **variant.variant._asdict(),
        "global_batch": variant.global_batch,
        "device": variant.runs[0].device,
        "training_showers_per_second": spread(variant.training).as_json(),
        "end_to_end_showers_per_second": spread(variant.end_to_end).as_json(),
        **{name: variant.of(name).as_json() for name in _DURATIONS},
        "runs": [one._asdict() for one in variant.runs],
    }


def scaling_table(results: Sequence[ScalingResult]) -> Table:
    """A row for each preset, batch and variant."""
    rows = tuple(
        (
            *(result.preset, variant.variant.name, variant.global_batch),
            *(spread(variant.training).median, spread(variant.end_to_end).median),
            variant.global_batch / spread(variant.training).median,
            *(variant.of("program_seconds").median, variant.of("startup_seconds").median),
            *(variant.of("first_call_seconds").median, variant.of("cpu_seconds").median),
            result.training_efficiency(variant).describe(),
            result.end_to_end_efficiency(variant).describe(),
        )
        for result in results
        for variant in result.points
    )
    columns = (
        *("preset", "variant", "showers per step", "showers/s, training only"),
        *(
            "showers/s, end to end",
            "s per step",
            "program s",
            "start-up s",
            "first call s",
            "CPU s",
        ),
        *("efficiency, training only", "efficiency, end to end"),
    )
    kind = results[0].kind
    kept = "one global batch" if kind == "strong" else "one batch per replica"
    steps = ", ".join(dict.fromkeys(str(result.steps) for result in results))
    rounds = min(len(variant.runs) for result in results for variant in result.points)
    said = (
        f"{kind.capitalize()} scaling, {kept}: {steps} steps, {rounds} rounds in turns,"
        f" {this_machine().describe()}. Efficiency against the same cores used by threads: median"
        " (least to most) of pairs of one round. Independent runs exchange nothing: the bound of"
        " replicas and processes."
    )
    if any(variant.variant.share_of > 1 for result in results for variant in result.points):
        said += (
            ' "One of n devices" is one replica with its share of the batch, measured on this machine;'
            " its efficiency is the predicted bound of n devices, without their exchange."
        )
    return Table(columns, rows, said, "llrrrrrrrrrr")
