"""Compares runs that differ in their number of workers only: the use case of `cloudgan compare --scaling`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cloudgan.api.cost import price
from cloudgan.api.run import Run
from cloudgan.core.errors import ConfigError, DataError, counted
from cloudgan.money.catalog import load_catalog
from cloudgan.money.paper_replay import replayed_runs, scaling_runs
from cloudgan.money.processes import NO_END, process_times
from cloudgan.money.scaling_curves import (
    Power8,
    ScalingRun,
    ScalingSize,
    published_size,
    replay_power8,
    scaling_curves,
)
from cloudgan.money.scaling_page import ScalingComparison
from cloudgan.schema.config import RunConfig, differences
from cloudgan.schema.record import RunRecord, Started

_OF_THE_SIZE: dict[str, Any] = {
    "training": {
        *("strategy", "workers", "replicas", "threads", "batch_per_replica", "global_batch_size"),
        *("seed", "track"),
    },
    "parallel": {"ranks", "group", "masters"},
    "data": {"path"},
    "checkpoint": {"url"},
    "name": True,
    "schema_version": True,
}
"""Keys of run.yaml in which runs of one curve may differ."""

_SAME_WORK = 1.1
"""Ratio of the trained showers up to which runs did the same work: larger batches drop larger remainders."""


def published_scaling() -> ScalingComparison:
    """Returns the published curves of POWER8 and of arXiv:2111.04628."""
    known = replay_power8()
    return ScalingComparison(
        networks="", runs=(), curves=(), published=(*_power8(known), *_cloud_paper()), power8=known
    )


def compare_scaling(runs: Sequence[Run], *, price_as: str | None = None) -> ScalingComparison:
    """Compares the speed of runs with different numbers of workers.

    Args:
        runs: The runs.
        price_as: Offer that prices runs on your own machine; see `cost`.

    Raises:
        ConfigError: The runs have different networks, devices or other keys that change the work, one
            has no run to compare with, or all have one number of workers.
        DataError: A folder holds no record or no run.yaml.
        UnknownNameError: No offer has this name.
    """
    names = [run.folder.path.resolve().name for run in runs]
    records = [run.record for run in runs]
    configs = [run.config for run in runs]
    starts: list[Started] = []
    for name, found in zip(names, records, strict=True):
        if (started := found.started()) is None:
            raise DataError(f"{name}: its record has no start, which states replicas and batch")
        starts.append(started)
    _check_alike(names, configs, starts)
    summaries = tuple(
        _scaling_run(run, record, started, price_as)
        for run, record, started in zip(runs, records, starts, strict=True)
    )
    return published_scaling().model_copy(
        update={
            "networks": configs[0].model.network_name,
            "runs": tuple(sorted(summaries, key=lambda run: (run.n, run.devices, run.run))),
            "curves": scaling_curves(summaries),
            "notes": tuple(_notes(summaries, starts, price_as)),
        }
    )


def _check_alike(
    names: Sequence[str], configs: Sequence[RunConfig], starts: Sequence[Started]
) -> None:
    """Checks that the runs differ in their number of workers and batch only.

    Raises:
        ConfigError: They differ in more; names the keys.
    """
    networks = {
        config.model.network_name: name for name, config in zip(names, configs, strict=True)
    }
    if len(networks) > 1:
        listed = ", ".join(f"{network} ({name})" for network, name in networks.items())
        raise ConfigError(
            f"--scaling compares runs of one network, but these have {listed}; select the runs of one"
        )
    first = next((n for n, config in enumerate(configs) if config.parallel.has_ranks), 0)
    for name, config, started in zip(names, configs, starts, strict=True):
        both = (configs[first], config)
        found = differences(_work(configs[first], both), _work(config, both))
        for what, ours, theirs in (
            ("training showers", starts[first].training_showers, started.training_showers),
            ("device", starts[first].numerics.device, started.numerics.device),
        ):
            found += [f"{what}: {ours!r}, {theirs!r}"] if ours != theirs else []
        if found:
            raise ConfigError(
                f"{names[first]} and {name} differ in more than their number of workers:"
                f" {'; '.join(found)}. Select runs that train the same, or train them again"
            )


def _work(config: RunConfig, compared: Sequence[RunConfig]) -> dict[str, Any]:
    """Returns the keys that must be equal; a run without masters fits those with them."""
    keys = config.model_dump(mode="json", exclude=_OF_THE_SIZE)
    if not all(one.parallel.has_ranks for one in compared):
        keys.pop("parallel", None)
    return keys


def _scaling_run(run: Run, record: RunRecord, started: Started, price_as: str | None) -> ScalingRun:
    numerics, epochs = started.numerics, record.epochs()
    # Asynchronous workers are sets of replicas with a batch each; a plain run is one.
    sets = len({
        line.worker for line in record.lines
        if line.kind == "exchanged" and line.worker is not None
    }) or 1  # fmt: skip
    processes = sets * numerics.workers
    is_cpu = numerics.device == "CPU"
    showers = sum(epoch.samples for epoch in epochs)
    training = record.samples_per_second()
    seconds = record.whole_program_seconds()
    why = [] if training else ["no epoch has a step after the first call"]
    why += [] if seconds else [NO_END]
    best = next((each for each in reversed(record.validations()) if each.best), None)
    value = best.metrics.get(best.ranked_by, math.nan) if best else math.nan
    report = price(run.folder, offer=price_as).report
    return ScalingRun(
        run=report.run,
        n=sets * numerics.replicas,
        devices=processes * numerics.threads if is_cpu else sets * numerics.replicas,
        global_batch_size=sets * numerics.global_batch_size,
        showers=showers,
        training_rate=training,
        end_to_end_rate=showers / seconds if seconds else None,
        why_unknown=", ".join(why),
        seconds=_activities(record),
        quality_name=best.ranked_by if best else "",
        quality=None if math.isnan(value) else value,
        usd=report.known_usd,
        usd_unknown=report.totals.unknown,
    )


def _activities(record: RunRecord) -> dict[str, float | None]:
    """Returns the seconds by activity over all processes; None if one of them is unknown."""
    found: dict[str, float | None] = {}
    for process in process_times(record):
        for item, seconds in process.items():
            name = item.display
            before = found.get(name, 0.0)
            found[name] = None if before is None or seconds is None else before + seconds
    return found


def _notes(
    runs: Sequence[ScalingRun], starts: Sequence[Started], price_as: str | None
) -> list[str]:
    machines = sorted({started.hardware.describe() for started in starts})
    notes = [
        f"{run.run} used {counted(run.devices, 'thread')}, and its first machine has {counted(started.hardware.cores, 'core')}:"
        " if that was its only machine, its efficiency is over cores that it did not have"
        for run, started in zip(runs, starts, strict=True)
        if started.numerics.device == "CPU" and run.devices > started.hardware.cores
    ]
    showers = [run.showers for run in runs]
    if max(showers) > _SAME_WORK * min(showers):
        listed = ", ".join(f"{run.run} {run.showers:,}" for run in runs)
        notes.append(
            f"the runs trained different numbers of showers ({listed}), so their end-to-end speeds have"
            " different shares of start-up and tracing"
        )
    if len(machines) > 1:
        notes.append(f"the runs were on different machines: {'; '.join(machines)}")
    if price_as:
        notes.append(
            f"runs that no cloud billed cost their program time on one node {price_as}, for every n"
        )
    return notes


def _power8(known: Power8) -> tuple[ScalingSize, ...]:
    efficiencies = {
        "published": known.efficiency,
        "computed: shared validation": known.shared_efficiency,
    }
    return tuple(
        published_size(
            f"POWER8, {known.gpus} x P100", known.gpus, 1, (known.training_efficiency, one), kind
        )
        for kind, one in efficiencies.items()
    )


def _cloud_paper() -> tuple[ScalingSize, ...]:
    """Returns the runs of arXiv:2111.04628 on V100; end to end is an epoch with its test, per shower."""
    runs = scaling_runs(replayed_runs(load_catalog()))
    least = min(run.accelerators for run in runs)
    found = []
    for run in runs:
        known, n = run.scaling, run.accelerators
        both = (
            (known.sample_efficiency, known.end_to_end_sample_efficiency) if known else (1.0, 1.0)
        )
        name = f"arXiv:2111.04628, {run.nodes} x {n // run.nodes} V100"
        found.append(published_size(name, n, least, both, "published"))
    return tuple(found)
