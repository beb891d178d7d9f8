"""`cloudgan bench generate`: seconds for a shower, beside the parametric source and Geant4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.ranges import parse_range
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
    energy: str = "50",
    json: bool = False,
) -> None:
    """Measures how long a generator needs for a shower, beside the parametric source and Geant4.

    All take turns on one core, with one thread each, unless --threads says more, for electrons of
    the same energy. A generator is as fast with the weights it begins with as with learned ones.
    Geant4 is left out, and that is told, where it is not installed.

    Args:
        preset: paper, mini, fixed25 or smoke. Default: mini, or that of the run.
        run: Folder of a run, whose newest checkpoint is used.
        batch: Showers that the generator makes at a time.
        threads: That TensorFlow may use; the simulations have one.
        rounds: Turns of each, of half a second or more.
        energy: Of the electrons in GeV, or their range: Geant4's time goes with it.
        json: Print the result as JSON.
    """
    if run and preset:
        raise ConfigError("--run has a preset of its own: give --run or --preset")
    find_preset(preset or "mini")
    for name, value in (("batch", batch), ("threads", threads), ("rounds", rounds)):
        if value < 1:
            raise ConfigError(f"--{name}={value}: at least one")
    energies = parse_range("energy", energy)
    from cloudgan.bench.generate import Asked, measure_generate
    from cloudgan.simulation.geant4.primaries import check_energy

    check_energy(energies)
    asked = Asked(preset or "mini", run, batch, threads, energies)
    with shown_progress(as_json=json) as progress:
        result = measure_generate(asked, rounds=rounds, progress=progress)
    _tell(result, as_json=json)


def _tell(result: GenerateResult, *, as_json: bool) -> None:
    if as_json:
        show_json({"machine": this_machine().describe()} | result.as_json())
    else:
        from cloudgan.cli.table_view import show_table

        show_table(_table(result))
        for source in result.sources[1:]:
            ratio = result.ratio(source)
            print(
                f"against {source.name} the generator is {ratio.told()} times as fast (median, least"
                f" to most, of {ratio.count} rounds)"
            )
        if result.left_out:
            print(f"Geant4 was left out: {result.left_out}")
    if result.interrupted:
        raise shown_after(Interrupted("stopped before the last round"), as_json=as_json)


def _table(result: GenerateResult) -> Table:
    from cloudgan.bench.generate import GEANT4
    from cloudgan.reports.table import Table
    from cloudgan.simulation.geant4.geometry import PLANE_CELLS

    rows = tuple(
        (
            *(one.name, one.seconds_per_shower.median, one.showers_per_second.median),
            f"{one.showers_per_second.min:.4g} to {one.showers_per_second.max:.4g}",
            *(one.showers_per_cpu_second.median, one.showers_per_round),
        )
        for one in result.sources
    )
    x, y, z = result.cells
    low, high = result.energy_gev
    energy = f"{low:g} GeV" if low == high else f"{low:g} to {high:g} GeV"
    where = "sharing one core" if result.core is not None else f"{result.threads} threads"
    said = (
        f"{result.preset}, {x}x{y}x{z} cells, electrons of {energy}, {where},"
        f" {this_machine().describe()}."
    )
    if any(one.name == GEANT4 for one in result.sources):
        said += f" Geant4 simulates {PLANE_CELLS}x{PLANE_CELLS}x25 cells whatever the preset."
    columns = (
        *("source", "s/shower", "showers/s", "least to most", "showers/CPU s"),
        "showers a round",
    )
    return Table(columns, rows, said, "lrrlrr")
