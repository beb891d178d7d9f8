"""What `bench input` found, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.hardware import this_machine
from cloudgan.core.provenance import versions
from cloudgan.reports.table import Number, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.bench.input import InputResult
    from cloudgan.bench.spread import Spread

_COLUMNS = ("open_seconds", "cold_showers_per_second", "showers_per_second", "cpu_seconds")


def input_json(result: InputResult) -> dict[str, Any]:
    """Returns everything by name; seconds, bytes, showers per second."""
    asked, file = result.asked, "file" in result.turns
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "data": str(asked.shards),
        "preset": asked.preset.preset,
        "showers": result.showers,
        "batch": asked.batch,
        "threads": asked.threads,
        "rounds": min(map(len, result.turns.values())),
        "interrupted": result.interrupted,
        "bytes_per_image": result.image_bytes,
        "make_file_seconds": result.make_seconds,
        "no_file": result.told or None,
        "step_showers_per_second": result.step_showers_per_second,
        "variants": [_variant(result, name) for name in result.turns],
        "ratio": result.faster("file").as_json() if file else None,
        "cpu_ratio": result.faster("file", "cpu_seconds").as_json() if file else None,
    }


def _variant(result: InputResult, name: str) -> dict[str, Any]:
    rate, step = result.of(name, "showers_per_second"), result.step_showers_per_second
    return {
        "name": name,
        **{what: result.of(name, what).as_json() for what in _COLUMNS},
        "image_bytes_per_second": rate.median * result.image_bytes,
        "times_what_a_step_takes": rate.median / step if step else None,
    }


def input_table(result: InputResult) -> Table:
    """Returns a row per way to read: medians, with the least and the most of all rounds."""
    asked, step = result.asked, result.step_showers_per_second
    rows = []
    for name in result.turns:
        rate, cpu = result.of(name, "showers_per_second"), result.of(name, "cpu_seconds")
        row = (
            name,
            _told(result.of(name, "open_seconds"), digits=2),
            _told(result.of(name, "cold_showers_per_second")),
            _told(rate),
            round(rate.median * result.image_bytes / 1e6),
            round(cpu.median * 1e6, 1),
        )
        rows.append((*row, round(rate.median / step, 1)) if step else row)
    heads = ("showers", "open, s", "cold, 1/s", "warm, 1/s", "images, MB/s", "CPU, µs each")
    return Table(
        (*heads, "times the step") if step else heads,
        tuple(rows),
        f"{asked.preset.preset}, batches of {asked.batch}, {asked.threads} readers,"
        f" {result.showers} showers",
    )


def _told(numbers: Spread, digits: int = 0) -> Number:
    low, high = f"{numbers.min:.{digits}f}", f"{numbers.max:.{digits}f}"
    return Number(numbers.median, f"{numbers.median:.{digits}f} ({low} to {high})")


def input_lines(result: InputResult) -> Iterator[str]:
    """Yields what the table leaves out, in sentences."""
    if result.told:
        yield result.told
    if result.make_seconds is not None:
        yield f"To prepare all showers and write the file took {result.make_seconds:.1f} s, once."
    if "file" in result.turns:
        faster, cpu = result.faster("file"), result.faster("file", "cpu_seconds")
        yield f"From the file showers come {faster.told()} times as fast as decoded ones,"
        yield f"for {cpu.told()} times the CPU time."
    if result.step_showers_per_second:
        yield f"A step takes {result.step_showers_per_second:.4g} showers/s."
    else:
        yield "What a step takes is not known; say --step_showers_per_second=N or --beside_step."
    yield f"Measured on {this_machine().describe()}."
