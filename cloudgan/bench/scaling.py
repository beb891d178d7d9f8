"""`bench scaling`: the same cores, shared in several ways.

The efficiency of a variant is its speed over that of one replica in one process with all cores as threads. On
accelerators each replica has its own device, so it is the speed over that many times the speed of one. Beside each
variant of n parts stand n independent runs on the same shares of the machine, which exchange nothing: what they lack
is the price of small batches and few threads, and what the variant lacks against them is the price of the exchange.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cloudgan.bench.harness import (
    Column,
    Measured,
    Measurement,
    Row,
    in_turns,
    table_of,
    variants_json,
    with_range,
)
from cloudgan.bench.processes import core_shares, make_showers, program, run_programs
from cloudgan.core.errors import CloudganError, ConfigError, Interrupted, counted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.options.bench import Batch, BenchScalingOptions
from cloudgan.schema.presets import find_preset, find_profile
from cloudgan.schema.record import RunRecord
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.cluster import share_gpus
from cloudgan.training.forecast import expected_memory

Kind = Literal["strong", "weak"]
_LEAST_SHOWERS, _LEAST_STEPS = 250, 4
_TWO_CALLS = 40
"""Steps of two calls of a device with the default of training.steps_per_loop: the first one, which compiles, is
not timed, so it must not be the only one."""
_TRAINED_SHARE = 0.9  # held_out_fraction is a tenth by default


class ScalingVariant(NamedTuple):
    """How the machine is shared: replicas of each process, processes of each run, independent runs at the same time.

    With `share_of` one replica trains the share of the batch that each of so many devices would have.
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
Study = dict[ScalingVariant, RunConfig]
"""Configuration of each variant, the base first; of one of its independent runs."""


def batch_of(study: Study, variant: ScalingVariant) -> int:
    """Returns the showers per step of all parts of a variant."""
    return study[variant].global_batch(variant.replicas * variant.workers) * variant.copies


def make_study(
    kind: Kind,
    variants: Sequence[ScalingVariant],
    *,
    preset: str,
    batch: Batch = "usual",
    steps: int | None = None,
    conv_impl: str = "auto",
    predict: Sequence[int] = (),
) -> Study:
    """Returns the configuration of each variant, of its independent runs and of the predicted devices.

    The `variants`, without repetition, have the base first. strong shares the batch among the replicas, weak gives
    each as much; usual is the batch of the preset, largest as many as should fit into the memory. `steps` are those
    of a run with the usual batch; another batch trains as many showers. `predict` are numbers of devices.
    """
    profile = find_profile(find_preset(preset).networks)
    parts = sorted({one.parts for one in variants if one.parts > 1})
    measured = [*variants, *(ScalingVariant(copies=n) for n in parts)]
    at = partial(_config, kind, preset=preset, conv_impl=conv_impl)
    size = profile.bench_batch if batch == "usual" else batch
    if size == "largest":
        least = {one: at(one, batch=math.lcm(*parts), steps=_LEAST_STEPS) for one in measured}
        size = _largest_batch(kind, least)
    wanted = profile.bench_steps if steps is None else steps
    if size != profile.bench_batch:
        wanted = max(min(wanted, _LEAST_STEPS), round(wanted * profile.bench_batch / size))
    measured += [ScalingVariant(share_of=n) for n in predict]
    return {one: at(one, batch=size, steps=wanted) for one in measured}


def _config(
    kind: Kind, variant: ScalingVariant, *, preset: str, batch: int, steps: int, conv_impl: str
) -> RunConfig:
    size = "batch_per_replica"
    if kind == "strong":
        size, batch = "global_batch_size", -(-batch // variant.share_of) // variant.copies
    training: dict[str, Any] = {size: batch, "max_steps": steps, "conv_impl": conv_impl}
    # Enough epochs for the steps; no test losses, which belong to an epoch's end.
    training |= {"epochs": max(1, steps), "validation_showers": 0, "strategy": "one"}
    if steps < _TWO_CALLS:
        training["steps_per_loop"] = 1
    if variant.workers > 1:
        training |= {"strategy": "multiworker", "workers": variant.workers}
    elif variant.replicas > 1:
        training |= {"strategy": "mirrored", "replicas": variant.replicas}
    asked = {"model": {"preset": preset}, "training": training}
    config = parse_config(asked, f"the command line ({variant.name})")
    replicas = variant.replicas * variant.workers
    config.global_batch(replicas)  # refuses what the replicas do not divide
    return config


def _largest_batch(kind: Kind, study: Study) -> int:
    """Returns the largest batch with which every variant should fit; a multiple of their parts."""
    fits = []
    for variant, config in study.items():
        here = variant.workers * variant.copies
        found = expected_memory(config, workers=variant.workers, processes=here)
        largest = found.largest_batch() if found else None
        if not largest:
            why = "no batch fits into the memory" if largest == 0 else "the free memory is unknown"
            raise ConfigError(f"--batches=largest: {why}; give a number, such as --batches=16")
        fits.append(largest * (variant.parts if kind == "strong" else 1))
    several = math.lcm(*(variant.parts for variant in study))
    return max(min(fits) // several, 1) * several


def measure(options: BenchScalingOptions, progress: Progress) -> Measurement:
    """Runs `train` for each variant in turns on simulated showers; the last finished study stays after Ctrl-C."""
    if options.strong == options.weak:
        raise ConfigError(
            "give --strong (constant global batch) or --weak (constant batch per replica)"
        )
    if options.predict and options.weak:
        raise ConfigError(
            "--predict is the bound of strong scaling; that of weak scaling is 1: remove it"
        )
    variants = [BASE, *(ScalingVariant(replicas=n) for n in options.replicas)]
    variants = list(dict.fromkeys(variants + [ScalingVariant(workers=n) for n in options.workers]))
    if len(variants) == 1:
        raise ConfigError(
            "nothing to compare with one replica: give --replicas=1,2 or --workers=1,2"
        )
    kind: Kind = "strong" if options.strong else "weak"
    studies = [
        make_study(
            kind,
            variants,
            preset=preset,
            batch=batch,
            steps=options.steps,
            conv_impl=options.conv_impl,
            predict=options.predict,
        )
        for preset in dict.fromkeys(options.presets)
        for batch in options.batches
    ]
    results: list[list[Measured]] = []
    interrupted, waiting = False, iter(studies)
    while not interrupted and (study := next(waiting, None)):
        try:
            found, interrupted = measure_study(study, options.rounds, progress)
            results.append(found)
        except Interrupted:
            if not results:
                raise
            interrupted = True
    return scaling_measurement(kind, results, interrupted)


def measure_study(study: Study, rounds: int, progress: Progress) -> tuple[list[Measured], bool]:
    """Measures the variants of a study in turns, on one store of simulated showers."""
    first = study[BASE]
    model, steps = first.model, first.training.max_steps
    facts: dict[str, dict[str, Any]] = {
        one.name: {"preset": model.preset, **one._asdict(), "parts": one.parts}
        | {"global_batch": batch_of(study, one), "steps": steps}
        for one in study
    }
    most = max(one["global_batch"] for one in facts.values())
    showers = max(_LEAST_SHOWERS, math.ceil(2 * most / _TRAINED_SHARE))

    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as folder:
        store = make_showers(Path(folder), showers, progress, model.image_shape[:2])

        def turn(variant: ScalingVariant) -> Row:
            config = study[variant]
            data = config.data.model_copy(update={"path": str(store)})
            config, place = config.model_copy(update={"data": data}), tempfile.mkdtemp(dir=folder)
            row, found = run_train(config, Path(place, "turn"), copies=variant.copies)
            started, own = found.started(), facts[variant.name]
            own["device"] = started.numerics.device if started else "unknown"
            return row | {"seconds_per_step": own["global_batch"] / row["showers_per_second"]}

        turns = {one.name: partial(turn, one) for one in study}
        measured, interrupted = in_turns(turns, rounds, progress, facts=facts)
    add_efficiencies(measured)
    return measured, interrupted


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


def add_efficiencies(measured: Sequence[Measured]) -> None:
    """Adds speeds over those of the first variant, pairs of one round; on accelerators by device."""
    base = measured[0]
    for one in measured:
        devices = 1 if base.facts["device"] == "CPU" else one.facts["parts"]
        one.put_ratio("training_only", "showers_per_second", base, devices)
        one.put_ratio("end_to_end", "end_to_end_showers_per_second", base, devices)


COLUMNS = (
    Column("showers_per_second", "showers/s, training only"),
    Column("end_to_end_showers_per_second", "showers/s, end to end"),
    Column("seconds_per_step", "s per step"),
    Column("program_seconds", "program s"),
    Column("startup_seconds", "start-up s"),
    Column("first_call_seconds", "first call s"),
    Column("cpu_seconds", "CPU s"),
    Column("training_only", "efficiency, training only", with_range),
    Column("end_to_end", "efficiency, end to end", with_range),
)


def scaling_measurement(
    kind: Kind, studies: Sequence[Sequence[Measured]], interrupted: bool
) -> Measurement:
    """Returns a row for each preset, batch and variant; both efficiencies stand side by side."""
    every = [one for study in studies for one in study]
    last = studies[-1][-1]
    kept = "one global batch" if kind == "strong" else "one batch per replica"
    steps = ", ".join(dict.fromkeys(str(one.facts["steps"]) for one in every))
    said = (
        f"{kind.capitalize()} scaling, {kept}: {steps} steps,"
        f" {counted(min(len(one.rows) for one in every), 'round')} in turns,"
        f" {this_machine().describe()}. Efficiency against the same cores used by threads: median"
        " (least to most) of pairs of one round. Independent runs exchange nothing: the bound of"
        " replicas and processes."
    )
    if any(one.facts["share_of"] > 1 for one in every):
        said += (
            ' "One of n devices" is one replica with its share of the batch, measured on this machine;'
            " its efficiency is the predicted bound of n devices, without their exchange."
        )
    facts = {"preset": "preset", "showers per step": "global_batch"}
    reached = last.spread("training_only").describe()
    return Measurement(
        title="What do replicas and processes gain, and what do they cost?",
        scaling=kind,
        studies=[
            {
                "name": f"{study[0].facts['preset']}, {study[0].facts['global_batch']}",
                "rounds": min(len(one.rows) for one in study),
                "variants": variants_json(study, COLUMNS),
            }
            for study in studies
        ],
        interrupted=interrupted,
        lines=(f"{last.facts['preset']}: {last.name} reach {reached} of the speed of threads",),
        tables=(table_of(every, COLUMNS, said, facts),),
    )
