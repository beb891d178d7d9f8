"""What `bench scaling` found, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.bench.spread import spread
from cloudgan.core.hardware import this_machine
from cloudgan.core.provenance import versions
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from cloudgan.bench.scaling import ScalingResult, WayResult

_DURATIONS = ("program_seconds", "startup_seconds", "first_call_seconds", "cpu_seconds")


def scaling_json(result: ScalingResult) -> dict[str, Any]:
    """Returns everything by name; `efficiency` by way, against threads only."""
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "scaling": result.kind,
        "preset": result.preset,
        "steps": result.steps,
        "rounds": min(len(way.runs) for way in result.ways),
        "interrupted": result.interrupted,
        "ways": [_way(way) for way in result.ways],
        "efficiency": {
            way.way.name: {
                "training_only": result.training_efficiency(way).as_json(),
                "end_to_end": result.end_to_end_efficiency(way).as_json(),
            }
            for way in result.ways[1:]
        },
    }


def _way(way: WayResult) -> dict[str, Any]:
    return {
        "name": way.way.name,
        "replicas": way.way.replicas,
        "workers": way.way.workers,
        "global_batch": way.global_batch,
        "device": way.runs[0].device,
        "training_showers_per_second": spread(way.training).as_json(),
        "end_to_end_showers_per_second": spread(way.end_to_end).as_json(),
        **{name: way.of(name).as_json() for name in _DURATIONS},
        "runs": [one._asdict() for one in way.runs],
    }


def scaling_table(result: ScalingResult) -> Table:
    """A row for each way."""
    rows = tuple(
        (
            *(way.way.name, way.global_batch),
            *(spread(way.training).median, spread(way.end_to_end).median),
            *(way.of("program_seconds").median, way.of("startup_seconds").median),
            *(way.of("first_call_seconds").median, way.of("cpu_seconds").median),
            result.training_efficiency(way).told(),
            result.end_to_end_efficiency(way).told(),
        )
        for way in result.ways
    )
    columns = (
        *("way", "global batch", "showers/s, training only", "showers/s, end to end"),
        *("program s", "start-up s", "first call s", "CPU s"),
        *("efficiency, training only", "efficiency, end to end"),
    )
    kept = "one global batch" if result.kind == "strong" else "one batch per replica"
    said = (
        f"{result.kind.capitalize()} scaling, {kept}: {result.preset}, {result.steps} steps,"
        f" {min(len(way.runs) for way in result.ways)} rounds in turns,"
        f" {this_machine().describe()}. Efficiency against the same cores used by threads: median"
        " (least to most) of pairs of one round."
    )
    return Table(columns, rows, said, "lrrrrrrrrr")
