"""`cloudgan bench generate`: showers per second, beside the parametric source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.presets import find_preset

if TYPE_CHECKING:
    from cloudgan.bench.generate import GenerateResult
    from cloudgan.reports.table import Table


def generate(
    *,
    preset: str | None = None,
    run: str | None = None,
    batch: int = 64,
    threads: int = 1,
    rounds: int = 5,
    json: bool = False,
) -> None:
    """Measures how many showers a generator makes per second, beside the parametric source.

    Both take turns on one core, with one thread each, unless --threads says more. A generator is
    as fast with the weights it begins with as with learned ones.

    Args:
        preset: paper, mini, fixed25 or smoke. Default: mini, or that of the run.
        run: Folder of a run, whose newest checkpoint is used.
        batch: Showers that the generator makes at a time.
        threads: That TensorFlow may use; the parametric source has one.
        rounds: Turns of each, of half a second or more.
        json: Print the result as JSON.
    """
    if run and preset:
        raise ConfigError("--run has a preset of its own: give --run or --preset")
    find_preset(preset or "mini")
    for name, value in (("batch", batch), ("threads", threads), ("rounds", rounds)):
        if value < 1:
            raise ConfigError(f"--{name}={value}: at least one")
    from cloudgan.bench.generate import measure_generate

    with shown_progress(as_json=json) as progress:
        result = measure_generate(
            preset or "mini", run, batch=batch, threads=threads, rounds=rounds, progress=progress
        )
    _tell(result, as_json=json)


def _tell(result: GenerateResult, *, as_json: bool) -> None:
    if as_json:
        show_json({"machine": this_machine().describe()} | result.as_json())
    else:
        from cloudgan.cli.table_view import show_table

        show_table(_table(result))
        for source in result.sources[1:]:
            print(
                f"the generator is {result.ratio(source).told()} times as fast as the {source.name}"
                f" (median, least to most, of {result.ratio(source).count} rounds)"
            )
    if result.interrupted:
        raise shown_after(Interrupted("stopped before the last round"), as_json=as_json)


def _table(result: GenerateResult) -> Table:
    from cloudgan.reports.table import Table

    rows = tuple(
        (
            *(one.name, one.showers_per_second.median),
            f"{one.showers_per_second.min:.4g} to {one.showers_per_second.max:.4g}",
            *(one.showers_per_cpu_second.median, one.showers_per_round),
        )
        for one in result.sources
    )
    x, y, z = result.cells
    where = "sharing one core" if result.core is not None else f"{result.threads} threads"
    said = f"{result.preset}, {x}x{y}x{z} cells, {where}, {this_machine().describe()}."
    columns = ("source", "showers/s", "least to most", "showers/CPU s", "showers a round")
    return Table(columns, rows, said, "lrlrr")
