"""The commands of `cloudgan bench`: each measures something of this machine.

What is measured is imported when it is measured: no command needs an extra to show its help.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.api.notebook_progress import usual_progress
from cloudgan.bench.measurement import Measurement
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.reports.page import Page, Section
from cloudgan.schema.options.bench import (
    BenchBandwidthOptions,
    BenchCellsOptions,
    BenchGenerateOptions,
    BenchInputOptions,
    BenchParallelOptions,
    BenchScalingOptions,
    BenchStepOptions,
)
from cloudgan.schema.presets import find_preset, find_profile

if TYPE_CHECKING:  # needs NumPy
    from cloudgan.bench.step import StepResult

_SLEEP_SECONDS = 0.05


@command
def step(options: BenchStepOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures the training step against a variant of it.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    from cloudgan.bench import step_report as report
    from cloudgan.bench.step import make_variant, measure_step, parse_against

    training = {
        "batch_per_replica": options.batch,
        "precision": options.precision,
        "replicas": options.replicas,
        "threads": options.threads,
    }
    own, against = make_variant(options.conv_impl, options.preset, training, {}), options.against
    other = None if against == "none" else parse_against(against, own, options.preset, training)
    result = measure_step(
        own,
        other,
        rounds=options.rounds,
        layers=options.roofline is not None,
        progress=progress or usual_progress(),
    )
    if options.roofline and not result.interrupted:
        _draw(result, options.roofline)
    return Measurement(
        **report.step_json(result),
        lines=tuple(report.step_lines(result)),
        tables=(
            report.step_table(result),
            *([report.layer_table(result)] if result.layers else []),
        ),
        make_page=lambda: report.step_page(result),
    )


def _draw(result: StepResult, path: Path) -> None:
    from cloudgan.bench.step_report import draw_roofline
    from cloudgan.core.atomic_file import write_atomic
    from cloudgan.reports.drawing import Drawing

    with Drawing(height_inches=6.0) as drawing:
        draw_roofline(result, drawing)
        write_atomic(path, drawing.png())


@command
def input_(options: BenchInputOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures the input pipeline of `train`.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    view, speed = find_preset(options.preset), options.step_showers_per_second
    if speed is not None and options.measure_step:
        raise ConfigError("--step-showers-per-second and --measure-step exclude each other")
    size = options.batch or find_profile(view.networks).batch
    readers, progress = options.threads or this_machine().cores, progress or usual_progress()
    with _shards(options, progress) as folder:
        from cloudgan.bench.input import (
            InputRequest,
            input_json,
            input_lines,
            input_table,
            measure_input,
        )
        from cloudgan.bench.step import make_variant, measure_step

        if options.measure_step:
            training = {"batch_per_replica": size, "threads": readers}
            variant = make_variant("auto", options.preset, training, {})
            found = measure_step(variant, None, rounds=3, layers=False, progress=progress)
            speed = found.own.showers_per_second.median
        request = InputRequest(folder, view, size, readers, options.seconds)
        result = measure_input(
            request, rounds=options.rounds, step_showers_per_second=speed, progress=progress
        )
    return Measurement(
        **input_json(result), lines=tuple(input_lines(result)), tables=(input_table(result),)
    )


@contextmanager
def _shards(options: BenchInputOptions, progress: Progress) -> Iterator[Path]:
    """Yields a folder of shards: that of --data, or a temporary one."""
    from cloudgan.api.showers import simulate_parametric
    from cloudgan.api.tensorflow_import import import_tensorflow
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.storage.bucket_shards import local_copy

    import_tensorflow()
    with (
        tempfile.TemporaryDirectory(prefix="cloudgan-") as temporary,
        local_copy(options.data, progress) as source,
    ):
        if options.data and has_manifest(source):
            yield Path(source)
            return
        simulated = Path(temporary, "showers.h5")
        if not options.data:
            simulate_parametric(simulated, options.showers, seed=0, progress=progress)
        from cloudgan.data.sources.convert import convert

        made = Path(temporary, "shards")
        convert(source or str(simulated), made, unit=options.unit or "", progress=progress)
        yield made


@command
def generate(options: BenchGenerateOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures the time per shower of a generator, of the parametric source and of Geant4.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    if options.run and options.preset:
        raise ConfigError("--run sets the preset: give --run or --preset, not both")
    from cloudgan.bench import generate as work
    from cloudgan.simulation.geant4.events import check_energy

    check_energy(options.energy)
    request = work.GenerateRequest(
        options.preset or "mini", options.run, options.batch, options.threads, options.energy
    )
    result = work.measure_generate(
        request, rounds=options.rounds, progress=progress or usual_progress()
    )
    first = result.sources[0]
    speed, ratio = first.showers_per_second.median, result.times_geant4(first).describe()
    lines = [f"{first.name}: {speed:.3g} showers/s, {ratio} times as fast as Geant4"]
    lines += [f"{name} is left out: {reason}" for name, reason in result.left_out.items()]
    if result.is_recorded:
        lines.append(f"Geant4's time is {work.RECORDED}")
    return Measurement(
        **result.as_json(), lines=tuple(lines), tables=(work.generate_table(result),)
    )


@command
def bandwidth(
    options: BenchBandwidthOptions, *, progress: Progress | None = None
) -> Measurement | None:
    """Measures the bandwidth from each rank to each; None on other ranks than 0.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    from cloudgan.bench import bandwidth as work

    found = work.measure_bandwidth(
        options.ranks,
        options.preset,
        rounds=options.rounds,
        progress=progress or usual_progress(),
    )
    if found is None:
        return None
    return Measurement(
        **work.bandwidth_json(found),
        lines=(work.advice(found),),
        tables=work.bandwidth_tables(found),
        make_page=lambda: work.bandwidth_page(found),
    )


@command
def cells(options: BenchCellsOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures grids of cells: one core against a rank per cell.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    from cloudgan.api.tensorflow_import import require_tensorflow
    from cloudgan.bench import cells_report as report
    from cloudgan.bench.cells import Workload, is_measured, measure_cells
    from cloudgan.coevolution.grid import Grid

    asked = [Grid(*each) for each in options.grids]
    if not any(is_measured(grid, this_machine().cores) for grid in asked):
        given = ",".join(f"{grid.rows}x{grid.columns}" for grid in asked)
        raise ConfigError(
            f"--grids={given}: the exchange is measured with the ranks of a small grid; add 2x2"
        )
    require_tensorflow()
    work = Workload(options.iterations, options.batches, options.batch)
    result = measure_cells(
        asked, work, rounds=options.rounds, progress=progress or usual_progress()
    )
    last = result.grids[-1]
    said = (
        f"{last.name}: {last.predicted_speedup:.3g} times as fast with a core per cell, predicted"
    )
    return Measurement(
        **report.cells_json(result),
        lines=(said, report.explanation(result)),
        tables=tuple(report.tables(result)),
        make_page=lambda: report.cells_page(result),
    )


@command
def parallel(options: BenchParallelOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures and predicts speed-up, staleness and load of masters.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    exchange = options.service_seconds, options.message_seconds
    if options.workers and any(exchange):
        raise ConfigError(
            "--workers measures the times of an exchange: omit --service-seconds and --message-seconds"
        )
    from cloudgan.bench import parallel as work
    from cloudgan.bench.staleness_study import study, study_json, study_table

    progress = progress or usual_progress()
    shared: dict[str, Any] = {
        "preset": options.preset,
        "mode": options.mode,
        "sync_every": options.sync_every,
        "progress": progress,
    }
    measured: Any = ()
    if options.workers:
        seconds = options.step_seconds or _SLEEP_SECONDS
        measured, times, origin = work.measure_worlds(
            options.workers, step=seconds, seconds=options.seconds, **shared
        )
    else:
        service, message = exchange
        times, origin = work.find_times(
            step=options.step_seconds, service=service, message=message, **shared
        )
    found = work.forecast(times, origin, options.predict, options.masters, measured)
    rows = study(progress) if options.study else []
    studied = [study_table(rows)] if rows else []
    last, more = found.layouts[-1], [work.measured_table(found)] if found.measured else []
    said = f"{last.workers} workers, {last.masters} masters: speed-up {last.speedup:.1f}, predicted"
    return Measurement(
        **work.forecast_json(found),
        **({"study": study_json(rows)} if rows else {}),
        lines=(said, *work.explanation(found)),
        tables=(work.forecast_table(found), *studied, *more, work.nnlo_table(found)),
        make_page=lambda: work.forecast_page(found, studied),
    )


@command
def scaling(options: BenchScalingOptions, *, progress: Progress | None = None) -> Measurement:
    """Measures replicas or processes against threads, or with `quality` what larger batches cost.

    Args:
        options: What is measured.
        progress: Receives the rounds.
    """
    progress, presets = progress or usual_progress(), list(dict.fromkeys(options.presets))
    if options.quality is not None:
        return _quality(options, options.quality, presets, progress)
    if options.strong == options.weak:
        raise ConfigError(
            "give --strong (constant global batch), --weak (constant batch per replica) or"
            " --quality=20000 (quality of several --batches)"
        )
    if options.predict and options.weak:
        raise ConfigError(
            "--predict is the bound of strong scaling; that of weak scaling is 1: remove it"
        )
    from cloudgan.bench.scaling import (
        BASE,
        ScalingVariant,
        make_study,
        measure_scaling,
        scaling_json,
        scaling_table,
    )

    variants = [BASE, *(ScalingVariant(replicas=n) for n in options.replicas)]
    variants = list(
        dict.fromkeys([*variants, *(ScalingVariant(workers=n) for n in options.workers)])
    )
    if len(variants) == 1:
        raise ConfigError(
            "nothing to compare with one replica: give --replicas=1,2 or --workers=1,2"
        )
    studies = [
        make_study(
            "strong" if options.strong else "weak",
            variants,
            preset=preset,
            batch=batch,
            steps=options.steps,
            conv_impl=options.conv_impl,
            predict=options.predict,
        )
        for preset in presets
        for batch in options.batches
    ]
    results = measure_scaling(studies, rounds=options.rounds, progress=progress)
    last = results[-1].points[-1]
    share = results[-1].training_efficiency(last).describe()
    line = f"{results[-1].preset}: {last.variant.name} reach {share} of the speed of threads"
    return _compared("Scaling", line, scaling_json(results), scaling_table(results))


def _quality(
    options: BenchScalingOptions, showers: int, presets: list[str], progress: Progress
) -> Measurement:
    speed = ("strong", "weak", "replicas", "workers", "predict", "steps")
    if given := ", ".join(f"--{name}" for name in speed if getattr(options, name)):
        raise ConfigError(
            f"--quality={showers} trains each batch with one replica until the showers are seen; remove"
            f" {given}, or --quality to measure speed"
        )
    from cloudgan.bench import batch_quality as work

    study = work.make_quality_study(
        showers, presets=presets, batches=options.batches, conv_impl=options.conv_impl
    )
    result = work.measure_quality(study, rounds=options.rounds, progress=progress)
    line = f"{len(result.points)} batches after {study.epochs * study.epoch_showers:,} showers each"
    title = "Quality against the global batch"
    return _compared(title, line, work.quality_json(result), work.quality_table(result))


def _compared(title: str, line: str, figures: dict[str, Any], table: Any) -> Measurement:
    page = Page(title, sections=(Section("Variants", (table,)),))
    return Measurement(**figures, lines=(line,), tables=(table,), make_page=lambda: page)
