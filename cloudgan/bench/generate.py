"""`bench generate`: a generator's showers per second beside those of the simulations, in turns.

The second half is the work of the children: showers from a generator as `generate` makes them, from its ONNX
export, from the parametric source and from Geant4. What one source needs is imported by its own function.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cloudgan.bench.harness import (
    Column,
    Measured,
    Measurement,
    children_in_turns,
    table_of,
    timed,
    variants_json,
    with_range,
)
from cloudgan.bench.processes import Child
from cloudgan.core.errors import CloudganError, ConfigError, counted, install_command
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.core.settings import geant4_data
from cloudgan.schema.options.bench import BenchGenerateOptions
from cloudgan.schema.presets import Preset, find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.geant4.engine import PLANE_CELLS
from cloudgan.simulation.geant4.events import check_energy
from cloudgan.simulation.geant4.workers import prepare_geant4
from cloudgan.training.checkpoint import find_checkpoint
from cloudgan.training.inference import usual_block
from cloudgan.training.tensorflow_import import import_tensorflow

GENERATOR, ONNX = "generator, TensorFlow", "generator, ONNX Runtime"
PARAMETRIC, GEANT4 = "parametric source", "Geant4"
RECORDED_SECONDS_PER_GEV = 0.0098
RECORDED = "recorded: Geant4 11.4.1, 0.0098 s of one core per GeV, November 2026"
"""Used where Geant4 cannot run: 200 electrons of 10 GeV, 60 of 50 GeV, range cut 0.7 mm."""

COLUMNS = (
    Column("showers_per_second", "showers/s"),
    Column("times_geant4", "times Geant4", with_range),
    Column("times_geant4_cpu", "by CPU time"),
    Column("showers_per_cpu_second", "showers/CPU s"),
    Column("latency_seconds", "one shower, ms", scale=1000),
    Column("latency_cpu_seconds", "CPU ms", scale=1000),
    Column("seconds_per_shower"),
)


def measure(options: BenchGenerateOptions, progress: Progress) -> Measurement:
    """Measures the generator in TensorFlow and ONNX Runtime, the parametric source and Geant4.

    With one thread all are pinned to one core, if the system supports it.
    """
    if options.run and options.preset:
        raise ConfigError("--run sets the preset: give --run or --preset, not both")
    check_energy(options.energy)
    run = RunFolder(options.run) if options.run else None
    model = find_preset(options.preset or "mini")
    if run:
        model = find_checkpoint(run, None).state.config.model
    given: dict[str, Any] = {"preset": model.preset, "run": options.run, "threads": options.threads}
    if options.batch is None:
        import_tensorflow()  # without its messages
    given["batch"] = options.batch or usual_block(model)
    affinity = getattr(os, "sched_getaffinity", None)
    core = max(affinity(0)) if affinity and options.threads == 1 else None
    cores = frozenset() if core is None else frozenset({core})

    def child(name: str, work: str, **given: Any) -> Child:
        work = f"cloudgan.bench.generate:{work}_rows"
        return Child(name, work, cores=cores, energy_gev=options.energy, **given)

    left_out: dict[str, str] = {}
    children = [child(GENERATOR, "generator", **given)]
    missing = [name for name in ("onnx", "onnxruntime", "tf2onnx") if find_spec(name) is None]
    if missing:
        left_out[ONNX] = f"the package {missing[0]} is missing; run {install_command('export')}"
    else:
        children.append(child(ONNX, "onnx", **given))
    children.append(child(PARAMETRIC, "parametric", cells=model.image_shape[:2]))
    with TemporaryDirectory(prefix="cloudgan-") as folder:
        progress.start("preparing Geant4")
        tables, reason = usable_tables(Path(folder))
        if tables:
            children.append(child(GEANT4, "geant4", tables=tables))
        else:
            left_out[GEANT4] = reason
        measured, interrupted = children_in_turns(children, options.rounds, progress)
    return generate_measurement(
        options, model, measured, left_out=left_out, core=core, interrupted=interrupted
    )


def generate_measurement(
    options: BenchGenerateOptions,
    model: Preset,
    measured: Sequence[Measured],
    *,
    left_out: Mapping[str, str],
    core: int | None,
    interrupted: bool,
) -> Measurement:
    """Returns the result, with the ratios to Geant4: measured in pairs of one round, or to its recorded time."""
    low, high = options.energy
    recorded = RECORDED_SECONDS_PER_GEV * (low + high) / 2
    geant4 = next((one for one in measured if one.name == GEANT4), None)
    for one in measured:
        one.put_ratio("times_geant4", "showers_per_second", geant4 or 1 / recorded)
        one.put_ratio("times_geant4_cpu", "showers_per_cpu_second", geant4 or 1 / recorded)
    first = measured[0]
    speed, ratio = first.spread("showers_per_second").median, first.spread("times_geant4")
    lines = [f"{first.name}: {speed:.3g} showers/s, {ratio.describe()} times as fast as Geant4"]
    lines += [f"{name} is left out: {reason}" for name, reason in left_out.items()]
    if not geant4:
        lines.append(f"Geant4's time is {RECORDED}")
    x, y, z = model.image_shape
    energy = f"{low:g} GeV" if low == high else f"{low:g} to {high:g} GeV"
    where = "sharing one core" if core is not None else f"{options.threads} threads"
    caption = (
        f"{model.preset}, {x}x{y}x{z} cells, electrons of {energy}, {where},"
        f" {this_machine().describe()}. Medians (least to most) of {counted(len(first.rows), 'round')} in turns."
    )
    if geant4:
        caption += f" Geant4 simulates {PLANE_CELLS}x{PLANE_CELLS}x25 cells for any preset."
    return Measurement(
        title="How fast are showers generated, and how much faster than Geant4?",
        preset=model.preset,
        cells=model.image_shape,
        energy_gev=options.energy,
        threads=options.threads,
        core=core,
        left_out=dict(left_out),
        geant4="measured in this run" if geant4 else RECORDED,
        sources=variants_json(measured, COLUMNS),
        interrupted=interrupted,
        lines=tuple(lines),
        tables=(table_of(measured, COLUMNS, caption, head="source"),),
    )


def usable_tables(folder: Path) -> tuple[dict[str, str] | None, str]:
    """Writes the Geant4 tables to a folder and returns them, or None and the reason."""
    try:
        return prepare_geant4(folder, geant4_data()).tables.as_json(), ""
    except ModuleNotFoundError as error:
        return None, f"the package {error.name} is missing; run {install_command('geant4')}"
    except ConfigError as error:
        return None, str(error)


# Work of the children: each function yields facts, then rows.

_ROUND_SECONDS, _SINGLE_SHOWERS = 0.5, 5
_BLOCK_OF_SOURCE = 50  # showers of the parametric source at a time
_ANGLE_RAD, _THETA_DEG = (1.05, 2.09), (60.0, 120.0)


def _rows(make: Callable[[int, int], object], least: int) -> Iterator[dict[str, Any]]:
    """Yields no facts, then rows: seconds per shower of half a second of showers, and of requests for one.

    `make` makes a number of showers with a seed; a round makes a multiple of `least`.
    """

    def make_singly(seed: int) -> None:
        for number in range(_SINGLE_SHOWERS):
            make(1, seed + number)

    yield {}
    make(least, 0)
    make(1, 0)
    seconds, _ = timed(lambda: make(least, 1))
    count = least * max(1, math.ceil(_ROUND_SECONDS / seconds))
    for seed in itertools.count(2):
        wall, cpu = timed(partial(make, count, seed), count)
        latency = wall, cpu
        if count > 1:  # else a round is a request for one shower
            latency = timed(partial(make_singly, seed), _SINGLE_SHOWERS)
        yield {
            "seconds_per_shower": wall,
            "cpu_seconds_per_shower": cpu,
            "showers_per_second": 1 / wall,
            "showers_per_cpu_second": 1 / cpu,
            "latency_seconds": latency[0],
            "latency_cpu_seconds": latency[1],
            "showers": count,
        }


def generator_rows(
    preset: str, run: str | None, batch: int, threads: int, energy_gev: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Measures a generator with the newest weights of a run, else with initial ones, as `generate` uses it."""
    from cloudgan.schema.training_config import TrainingConfig
    from cloudgan.training.inference import Conditions, ShowerGenerator, TrainedGenerator
    from cloudgan.training.tensorflow_backend import set_up_devices

    set_up_devices(TrainingConfig(), threads=threads)
    conditions: Callable[..., Conditions] = Conditions
    if run is None:
        generator = ShowerGenerator(find_preset(preset), block=batch)
    else:
        generator = TrainedGenerator(find_checkpoint(RunFolder(run), None), block=batch)
        conditions = generator.conditions

    def make(count: int, seed: int) -> None:
        asked = conditions(*_energy_and_angle(count, seed, energy_gev))
        if sum(map(len, generator.showers(asked, seed=seed))) != count:
            raise CloudganError("the generator returned a wrong number of showers")

    yield from _rows(make, batch)


def onnx_rows(
    preset: str, run: str | None, batch: int, threads: int, energy_gev: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Measures the ONNX model of a generator in ONNX Runtime, with the measured angles, as `generate` makes them.

    TensorFlow writes the model and is idle afterwards. The arguments are those of `generator_rows`.
    """
    import onnxruntime

    from cloudgan.data.showers import measured_angle
    from cloudgan.exports.layout import noise_length
    from cloudgan.exports.shower_model import (
        network_in_gev,
        save_onnx,
        shower_model,
        trained_network,
    )

    if run is None:
        model = find_preset(preset)
        network, fit = network_in_gev(model), None
    else:
        checkpoint = find_checkpoint(RunFolder(run), None)
        model = checkpoint.state.config.model
        network, fit = trained_network(checkpoint), checkpoint.state.summary.angle_fit
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    with TemporaryDirectory(prefix="cloudgan-") as folder:
        path = Path(folder, "generator.onnx")
        save_onnx(shower_model(model, network, fit), model, {}, path)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def make(count: int, seed: int) -> None:
        energy, theta = _energy_and_angle(count, seed, energy_gev)
        noise = np.random.default_rng(seed).standard_normal(
            (count, noise_length(model)), np.float32
        )
        for first in range(0, count, batch):
            rows = slice(first, first + batch)
            given = {"energy": energy[rows], "theta": theta[rows], "noise": noise[rows]}
            measured_angle(session.run(None, given)[0])

    yield from _rows(make, batch)


def _energy_and_angle(count: int, seed: int, energy_gev: tuple[float, float]) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    return tuple(
        random.uniform(low, high, count).astype(np.float32)
        for low, high in (energy_gev, _ANGLE_RAD)
    )


def parametric_rows(
    cells: tuple[int, int], energy_gev: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Measures the parametric source for a window of cells in x and y."""
    from cloudgan.simulation.gflash import simulate

    def make(count: int, seed: int) -> None:
        for _ in simulate(count, seed=seed, energy_gev=energy_gev, cells=cells):
            pass

    yield from _rows(make, _BLOCK_OF_SOURCE)


def geant4_rows(
    tables: Mapping[str, str], energy_gev: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Measures Geant4; `tables` are from `Tables.as_json`."""
    from cloudgan.simulation.geant4.engine import Engine
    from cloudgan.simulation.geant4.events import DEFAULT_CUT_MM, PrimaryRequest, primary
    from cloudgan.simulation.geant4.tables import Tables

    engine = Engine(Tables.from_json(tables), DEFAULT_CUT_MM)

    def make(count: int, seed: int) -> None:
        asked = PrimaryRequest(seed, (energy_gev[0], energy_gev[1]), _THETA_DEG)
        for number in range(count):
            engine.simulate(primary(asked, number))

    yield from _rows(make, 1)
