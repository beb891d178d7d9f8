"""`cloudgan bench`: measurements of this machine; each measurement is a command of its own."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.options.values import parse_range
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    raise_if_interrupted,
    write_report_file,
)
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.local_path import local_path
from cloudgan.schema.config import ConvImplOption, Precision
from cloudgan.schema.ecal_unit import EcalUnit
from cloudgan.schema.presets import find_preset, find_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.bench.generate import GenerateResult
    from cloudgan.bench.input import InputResult
    from cloudgan.bench.step import StepResult
    from cloudgan.core.progress import Progress
    from cloudgan.reports.table import Table


def step(
    *,
    against: str = "published",
    preset: str = "paper",
    batch: int = 16,
    conv_impl: ConvImplOption = "auto",
    precision: Precision = "float32",
    replicas: int = 1,
    threads: int | None = None,
    rounds: int = 5,
    roofline: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures the training step of `train` against a variant of it, in one run.

    Both variants stay alive in their own processes and alternate, so that other load on the machine
    affects both; the ratio is of measurements next to each other in time. Each speed is shown beside
    the limit of direct convolution: its counted arithmetic at the speed of matrix products, measured
    in the same rounds. The showers come from the parametric source.

    Args:
        against: published, fast or none; further differences follow a colon, such as
            fast:precision=bfloat16 or auto:TF_ENABLE_ONEDNN_OPTS=0. The same variant gives a ratio
            near 1.
        preset: {presets}.
        batch: Showers per replica and step.
        conv_impl: Convolution implementation to measure.
        precision: Of the arithmetic, for both variants unless --against sets another.
        replicas: Replicas in one process, for both variants unless --against sets another.
        threads: Threads per process. Default: all cores.
        rounds: Rounds of each variant, after one for warm-up.
        roofline: Time each convolution alone and draw the roofline of this machine: FILE.png.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    from cloudgan.bench.step import make_variant, parse_against

    training = {
        "batch_per_replica": batch,
        "precision": precision,
        "replicas": replicas,
        "threads": threads,
    }
    own = make_variant(conv_impl, preset, training, {})
    other = None if against == "none" else parse_against(against, own, preset, training)
    _check_picture(roofline)
    check_report(report)
    from cloudgan.bench.step import measure_step

    with progress_bars(as_json=json) as progress:
        result = measure_step(own, other, rounds=rounds, layers=bool(roofline), progress=progress)
    _print_step(result, roofline=roofline, report=report, as_json=json)


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


def input_(
    *,
    data: str = "",
    unit: EcalUnit | None = None,
    preset: str = "paper",
    batch: int | None = None,
    threads: int | None = None,
    showers: int = 4000,
    rounds: int = 5,
    seconds: float = 1.0,
    step_showers_per_second: float | None = None,
    measure_step: bool = False,
    json: bool = False,
) -> None:
    """Measures the input pipeline of `train`: reading, decoding, cutting, scaling, to dense batches.

    Three variants alternate: showers decoded on demand, preprocessed showers in memory, and
    preprocessed showers in a file beside the shards. Each round first evicts the files from the page
    cache, and so measures cold and warm reading separately. All three yield the same values.

    Args:
        data: Showers, as for `train`. Default: simulated ones in a temporary folder.
        unit: Unit of ECAL in files of --data that state none, where several fit.
        preset: Sets the image size and scale: {presets}.
        batch: Showers per batch. Default: that of the preset.
        threads: Reader threads. Default: one per core.
        showers: Number of showers to simulate without --data.
        rounds: Rounds of each variant.
        seconds: Duration of the warm part of a round.
        step_showers_per_second: Speed of a training step; the result has the ratio to it.
        measure_step: Measure that speed first, as `cloudgan bench step` does.
        json: Print the result as JSON.
    """
    view = find_preset(preset)
    if showers == 1:
        raise ConfigError("--showers=1: expected at least 2")
    if step_showers_per_second is not None and measure_step:
        raise ConfigError("--step-showers-per-second and --measure-step exclude each other")
    size = batch or find_profile(view.networks).batch
    readers = threads or this_machine().cores
    with progress_bars(as_json=json) as progress, _shards(data, unit, showers, progress) as folder:
        from cloudgan.bench.input import InputRequest, measure_input

        if measure_step:
            step_showers_per_second = _step_rate(preset, size, readers, progress)
        request = InputRequest(folder, view, size, readers, seconds)
        result = measure_input(
            request,
            rounds=rounds,
            step_showers_per_second=step_showers_per_second,
            progress=progress,
        )
    _print_input(result, as_json=json)


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


def generate(
    *,
    preset: str | None = None,
    run: str | None = None,
    batch: int | None = None,
    threads: int = 1,
    rounds: int = 5,
    energy: str = "50",
    json: bool = False,
) -> None:
    """Measures the time per shower of a generator, of the parametric source and of Geant4.

    The generator runs in TensorFlow, as `generate` does, and as its ONNX export in ONNX Runtime. All
    alternate on one core with one thread each, unless --threads sets more, for electrons of the same
    energy. Untrained weights are as fast as trained ones. What is not installed is left out, with a
    note; the speeds are then compared with a recorded time of Geant4.

    Args:
        preset: {presets}. Default: mini, or that of the run.
        run: Folder of a run, whose newest checkpoint is used.
        batch: Showers that the generators compute at a time. Default: as `generate`, by the preset.
        threads: Threads of TensorFlow and ONNX Runtime; the simulations have one.
        rounds: Rounds of each source, of half a second or more.
        energy: Of the electrons in GeV, a value or a range; the time of Geant4 is proportional to it.
        json: Print the result as JSON.
    """
    if run and preset:
        raise ConfigError("--run sets the preset: give --run or --preset, not both")
    find_preset(preset or "mini")
    energies = parse_range("energy", energy)
    from cloudgan.bench.generate import GenerateRequest, measure_generate
    from cloudgan.simulation.geant4.events import check_energy

    check_energy(energies)
    request = GenerateRequest(preset or "mini", run, batch, threads, energies)
    with progress_bars(as_json=json) as progress:
        result = measure_generate(request, rounds=rounds, progress=progress)
    _print_generate(result, as_json=json)


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
