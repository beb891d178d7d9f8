"""Options of the commands on showers and generators: simulate, convert, generate, validate, export, demo."""

from __future__ import annotations

from typing import Annotated, Literal

from cloudgan.core.flags import RANGE, Options, argument, flag
from cloudgan.core.ranges import MAX_LOCAL_PROCESSES, MAX_SECONDS, MAX_SEED, MAX_SHOWERS, MAX_STEP
from cloudgan.schema.ecal_unit import EcalUnit
from cloudgan.schema.options.shared import OVERWRITE, REPORT, RUN, SEED, STEP_FLAG, UNIT, Step
from cloudgan.schema.particle import Particle


class GenerateOptions(Options):
    """Generates showers with a trained run into HDF5 (ECAL in GeV*50), or their hits into Parquet.

    Memory does not grow with the number of showers; an interrupted command leaves no file. A grid that
    trained a ring gives samples in a NumPy archive (.npz).
    """

    run: str = RUN
    output: str = argument(
        "file to write, such as generated.h5 or, for the hits, generated.parquet"
    )
    showers: int = flag(1000, "number of showers", ge=1, le=MAX_SHOWERS)
    energy: Annotated[tuple[float, float] | None, RANGE] = flag(
        None, "range of the primary energy in GeV, flat", words="the trained range"
    )
    theta: Annotated[tuple[float, float] | None, RANGE] = flag(
        None, "range of the polar angle in degrees, flat", words="the trained range"
    )
    extrapolate: bool = flag(
        False, "accept ranges beyond the trained one; the file states the trained range"
    )
    step: Step = STEP_FLAG
    cell: str | None = flag(
        None,
        "of a grid (`cloudgan evolve`): mixture of the best cell and its neighbours, best (its own generator), ensemble (chosen by `evolve --ensemble`), or ROW,COLUMN",
        words="mixture",
    )
    seed: int = SEED
    overwrite: bool = OVERWRITE


class ConvertOptions(Options):
    """Converts showers to sharded TFRecord for training, or back to HDF5; the data stay bit-identical.

    Empty showers are left out and counted.
    """

    source: str = argument(
        "HDF5 (public 3DGAN layout), published TFRecord, or shards: path, glob, comma list, or bucket"
    )
    target: str = argument(
        "folder or bucket (gs://, s3://, Azure Blob URL) for shards, a file .h5 for HDF5, or a file .parquet for a table of hits",
        "",
    )
    unit: EcalUnit | None = UNIT
    to: Literal["auto", "tfrecord", "hdf5"] = flag(
        "auto", "tfrecord or hdf5; auto decides by the suffix of the target"
    )
    records_per_shard: int = flag(1024, "showers per shard", ge=1, le=10**6)
    overwrite: bool = flag(False, "replace an existing target when the new one is complete")
    verify: bool = flag(
        False,
        "read every shower of SOURCE, compare it with its checksums and count empty ones; writes nothing",
    )


class SimulateOptions(Options):
    """Simulates showers in the CLIC ECAL into HDF5 (public 3DGAN layout, 51x51x25 cells).

    The parametric source is for demos, tests and pre-training, not a reference: validate against
    Geant4, which takes about 0.01 s per GeV on all cores. An interrupted Geant4 production keeps its
    showers beside the file; rerun the command to resume.
    """

    output: str = argument("file to write, such as showers.h5 or, for the hits, showers.parquet")
    showers: int = flag(1000, "number of showers", ge=1, le=MAX_SHOWERS)
    energy: Annotated[tuple[float, float], RANGE] = flag(
        (10.0, 100.0), "range of the primary energy in GeV, flat"
    )
    theta: Annotated[tuple[float, float], RANGE] = flag(
        (60.0, 120.0), "range of the polar angle in degrees, flat"
    )
    particle: Particle = flag("electron", "primary particle; photons need --engine=geant4")
    engine: Literal["gflash", "geant4"] = flag(
        "gflash",
        "gflash, the parametric source (Grindhammer and Peters, hep-ex/0001020), or geant4",
    )
    seed: int = SEED
    workers: int | None = flag(
        None, "processes of Geant4", ge=1, le=MAX_LOCAL_PROCESSES, words="one per core"
    )
    cut_mm: float | None = flag(None, "range cut of Geant4 in mm", words="0.7", gt=0, le=1e6)
    overwrite: bool = flag(
        False, "replace an existing file, and discard unfinished showers of another request"
    )


class ExportOptions(Options):
    """Exports the generator of a run as ONNX, Keras model or SavedModel, with a model card.

    The inputs are energy (GeV), theta (rad) and noise, the output is ECAL (GeV). ONNX needs no TensorFlow.

    Examples:
        cloudgan export runs/mine exports/mine
        cloudgan export runs/mine exports/mine-keras --format=keras --step=best
    """

    run: str = RUN
    output: str = argument("folder to write: the model, README.md and model_card.json")
    format: Literal["onnx", "keras", "savedmodel"] = flag(
        "onnx", "onnx, keras (loads without cloudgan) or savedmodel"
    )
    step: Step = STEP_FLAG
    overwrite: bool = flag(False, "replace an existing export")


class ValidateOptions(Options):
    """Compares generated showers with Monte Carlo, each measure beside its MC-MC baseline.

    Validates two files, or a run: its generator gets the energies and angles of the reference. The
    verdict on a run's newest checkpoint is written to its verdict.json. The MC-MC baseline is the same
    measure for two random halves of the Monte Carlo: the effect of statistics alone.

    Examples:
        cloudgan validate --generated=mine.h5 --reference=geant4.h5 --report=mine.html
        cloudgan validate runs/mine --against=geant4.h5 --gate
    """

    run: str | None = argument("folder of a run, instead of two files", None)
    generated: str | None = flag(None, "showers to validate: HDF5, TFRecord or a folder of shards")
    reference: str | None = flag(None, "Monte Carlo of the same shape")
    against: str | None = flag(None, "for a run: Monte Carlo instead of the held-out showers")
    unit: EcalUnit | None = UNIT
    step: Step = STEP_FLAG
    showers: int | None = flag(
        None,
        "at most this many of each sample",
        ge=1,
        le=MAX_SHOWERS,
        words="all of two files, 1000 of a run",
    )
    seed: int = flag(
        0, "of the random halves, the bootstrap errors and the classifiers", ge=0, le=MAX_SEED
    )
    gate: bool | str = flag(
        False,
        "exit with code 7 if a gate fails: the shipped gates, or those of a file in the format of cloudgan/validation/gates.toml",
    )
    report: str | None = REPORT


class DemoOptions(Options):
    """Simulates showers, trains a GAN, validates and prices it, and writes a report; needs no account.

    Takes at most five minutes on two cores. Rerun the command to resume.
    """

    data: str | None = flag(None, "your own showers instead of simulated ones")
    unit: EcalUnit | None = UNIT
    run: str = flag("runs/demo", "folder of the run; the report is report.html in it")
    showers: int = flag(
        5000, "number of showers to simulate; a fifth is held out", ge=1, le=MAX_SHOWERS
    )
    max_steps: int = flag(2000, "training stops after so many steps", ge=1, le=MAX_STEP)
    max_seconds: float = flag(180.0, "training stops after so much time", gt=0, le=MAX_SECONDS)
    seed: int = flag(0, "of every random number", ge=0, le=MAX_SEED)
