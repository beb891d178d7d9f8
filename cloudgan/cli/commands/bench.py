"""`cloudgan bench`: measurements of this machine; each measurement is a command of its own."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    raise_if_interrupted,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.local_path import local_path
from cloudgan.schema.options.bench import BenchGenerateOptions, BenchInputOptions, BenchStepOptions
from cloudgan.schema.presets import find_preset, find_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.bench.generate import GenerateResult
    from cloudgan.bench.input import InputResult
    from cloudgan.bench.step import StepResult
    from cloudgan.core.progress import Progress
    from cloudgan.reports.table import Table


@command
def step(options: BenchStepOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.bench.step import make_variant, parse_against

    training = {
        "batch_per_replica": options.batch,
        "precision": options.precision,
        "replicas": options.replicas,
        "threads": options.threads,
    }
    own = make_variant(options.conv_impl, options.preset, training, {})
    other = (
        None
        if options.against == "none"
        else parse_against(options.against, own, options.preset, training)
    )
    _check_picture(options.roofline)
    check_report(options.report)
    from cloudgan.bench.step import measure_step

    with progress_bars(as_json=as_json) as progress:
        result = measure_step(
            own, other, rounds=options.rounds, layers=bool(options.roofline), progress=progress
        )
    _print_step(result, roofline=options.roofline, report=options.report, as_json=as_json)


def _check_picture(roofline: str | None) -> None:
    if roofline is None:
        return
    path = local_path(roofline, source="--roofline")
    if path.suffix.lower() != ".png" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--roofline={roofline}: expected a .png file in an existing folder")


def _print_step(
    result: StepResult, *, roofline: str | None, report: str | None, as_json: bool
) -> None:
    from cloudgan.bench.step_report import layer_table, step_json, step_lines, step_page, step_table

    if as_json:
        print_json(step_json(result))
    else:
        print_table(step_table(result))
        if result.layers:
            print_table(layer_table(result))
        print("\n".join(step_lines(result)))
    if report:
        write_report_file(step_page(result), report)
    if roofline and not result.interrupted:
        _draw(result, local_path(roofline))
    raise_if_interrupted(interrupted=result.interrupted, as_json=as_json)


def _draw(result: StepResult, path: Path) -> None:
    from cloudgan.bench.step_report import draw_roofline
    from cloudgan.core.atomic_file import write_atomic
    from cloudgan.reports.drawing import Drawing

    with Drawing(height_inches=6.0) as drawing:
        draw_roofline(result, drawing)
        write_atomic(path, drawing.png())


@command
def input_(options: BenchInputOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    view = find_preset(options.preset)
    if options.showers == 1:
        raise ConfigError("--showers=1: expected at least 2")
    if options.step_showers_per_second is not None and options.measure_step:
        raise ConfigError("--step-showers-per-second and --measure-step exclude each other")
    size = options.batch or find_profile(view.networks).batch
    readers = options.threads or this_machine().cores
    with (
        progress_bars(as_json=as_json) as progress,
        _shards(options.data, options.unit, options.showers, progress) as folder,
    ):
        from cloudgan.bench.input import InputRequest, measure_input

        speed = options.step_showers_per_second
        if options.measure_step:
            speed = _step_rate(options.preset, size, readers, progress)
        request = InputRequest(folder, view, size, readers, options.seconds)
        result = measure_input(
            request,
            rounds=options.rounds,
            step_showers_per_second=speed,
            progress=progress,
        )
    _print_input(result, as_json=as_json)


@contextmanager
def _shards(data: str, unit: str | None, count: int, progress: Progress) -> Iterator[Path]:
    """Yields a folder of shards: that of --data, or a temporary one."""
    from cloudgan.api.showers import simulate_parametric
    from cloudgan.api.tensorflow_import import import_tensorflow
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.storage.bucket_shards import local_copy

    import_tensorflow()
    with (
        tempfile.TemporaryDirectory(prefix="cloudgan-") as temporary,
        local_copy(data, progress) as source,
    ):
        if data and has_manifest(source):
            yield Path(source)
            return
        simulated = Path(temporary, "showers.h5")
        if not data:
            simulate_parametric(simulated, count, seed=0, progress=progress)
        from cloudgan.data.sources.convert import convert

        made = Path(temporary, "shards")
        convert(source or str(simulated), made, unit=unit or "", progress=progress)
        yield made


def _step_rate(preset: str, batch: int, threads: int, progress: Progress) -> float:
    from cloudgan.bench.step import make_variant, measure_step

    training = {"batch_per_replica": batch, "threads": threads}
    variant = make_variant("auto", preset, training, {})
    result = measure_step(variant, None, rounds=3, layers=False, progress=progress)
    return result.own.showers_per_second.median


def _print_input(result: InputResult, *, as_json: bool) -> None:
    from cloudgan.bench.input import input_json, input_lines, input_table

    if as_json:
        print_json(input_json(result))
    else:
        print_table(input_table(result))
        print("\n".join(input_lines(result)))
    raise_if_interrupted(interrupted=result.interrupted, as_json=as_json)


@command
def generate(options: BenchGenerateOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if options.run and options.preset:
        raise ConfigError("--run sets the preset: give --run or --preset, not both")
    find_preset(options.preset or "mini")
    energies = options.energy
    from cloudgan.bench.generate import GenerateRequest, measure_generate
    from cloudgan.simulation.geant4.events import check_energy

    check_energy(energies)
    request = GenerateRequest(
        options.preset or "mini", options.run, options.batch, options.threads, energies
    )
    with progress_bars(as_json=as_json) as progress:
        result = measure_generate(request, rounds=options.rounds, progress=progress)
    _print_generate(result, as_json=as_json)


def _print_generate(result: GenerateResult, *, as_json: bool) -> None:
    if as_json:
        print_json({"machine": this_machine().describe()} | result.as_json())
    else:
        print_table(_generate_table(result))
        for name, reason in result.left_out.items():
            print(f"{name} is left out: {reason}")
        if result.is_recorded:
            from cloudgan.bench.generate import RECORDED

            print(f"Geant4's time is {RECORDED}")
    raise_if_interrupted(interrupted=result.interrupted, as_json=as_json)


def _generate_table(result: GenerateResult) -> Table:
    from cloudgan.bench.generate import GEANT4
    from cloudgan.reports.table import Table
    from cloudgan.simulation.geant4.engine import PLANE_CELLS

    rows = tuple(
        (
            *(one.name, one.showers_per_second.median, result.times_geant4(one).describe()),
            *(result.times_geant4(one, cpu=True).median, one.showers_per_cpu_second.median),
            *(1000 * one.latency_seconds.median, 1000 * one.latency_cpu_seconds.median),
        )
        for one in result.sources
    )
    x, y, z = result.cells
    low, high = result.energy_gev
    energy = f"{low:g} GeV" if low == high else f"{low:g} to {high:g} GeV"
    where = "sharing one core" if result.core is not None else f"{result.threads} threads"
    caption = (
        f"{result.preset}, {x}x{y}x{z} cells, electrons of {energy}, {where},"
        f" {this_machine().describe()}. Medians (least to most) of"
        f" {len(result.sources[0].rounds)} rounds in turns."
    )
    if any(one.name == GEANT4 for one in result.sources):
        caption += f" Geant4 simulates {PLANE_CELLS}x{PLANE_CELLS}x25 cells for any preset."
    columns = (
        *("source", "showers/s", "times Geant4", "by CPU time", "showers/CPU s"),
        *("one shower, ms", "CPU ms"),
    )
    return Table(columns, rows, caption, "lrlrrrr")
