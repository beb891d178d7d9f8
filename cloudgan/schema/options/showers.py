"""Options of the commands on showers and generators: simulate, convert, generate, validate, export, demo."""

from __future__ import annotations

from typing import Annotated, Literal

from cloudgan.core.flags import RANGE, Options, argument, flag
from cloudgan.core.ranges import MAX_LOCAL_PROCESSES, MAX_SECONDS, MAX_SEED, MAX_SHOWERS, MAX_STEP
from cloudgan.schema.options.shared import (
    OVERWRITE,
    REPORT,
    RUN,
    SEED,
    STEP_FLAG,
    NewRun,
    Step,
)
from cloudgan.schema.simulation import BINNING, UNIT, EcalUnit, Particle


class GenerateOptions(Options):
    """Generates showers with the generator of a trained run.

    A file .h5 has the layout that the run was trained on, else the public 3DGAN one (ECAL in GeV*50), a file .parquet
    is a table of the hits. Memory does not grow
    with the number of showers, and an interrupted command leaves no file. A grid that trained a ring gives samples in
    a NumPy archive (.npz).

    Examples:
        cloudgan generate mine generated.h5 --showers=10000 --energy=20:80
        cloudgan generate mine hits.parquet --step=best --seed=1
    """

    run: str = RUN
    output: str = argument("file to write: .h5, or .parquet for a table of hits")
    showers: int = flag(1000, "number of showers", ge=1, le=MAX_SHOWERS)
    energy: Annotated[tuple[float, float] | None, RANGE] = flag(
        None, "primary energy in GeV; flat between both", words="as trained"
    )
    theta: Annotated[tuple[float, float] | None, RANGE] = flag(
        None, "polar angle in degrees; flat between both", words="as trained"
    )
    extrapolate: bool = flag(
        False, "accept ranges beyond the trained one; the file states the trained range"
    )
    step: Step = STEP_FLAG
    cell: str | None = flag(
        None,
        "generator of a grid of cells; mixture of the best cell and its neighbours, best (its own generator), ensemble (chosen by `evolve --ensemble`), or ROW,COLUMN",
        words="mixture",
    )
    seed: int = SEED
    overwrite: bool = OVERWRITE


class ConvertOptions(Options):
    """Converts showers to a store for fast training, or back to HDF5.

    A store is a folder or bucket of .npy files with checksums. The data stay bit-identical; empty showers are
    left out and counted.

    Examples:
        cloudgan convert showers.h5 store
        cloudgan convert store again.h5
        cloudgan convert store --verify
    """

    source: str = argument(
        "showers: HDF5, TFRecord or a store; a path, glob, comma list or bucket; of 3DGAN, CaloChallenge, CaloGAN, getting_high or Par04"
    )
    target: str = argument(
        "folder or bucket for a store, a file .h5, or .parquet for hits; buckets are gs://, s3:// or an Azure Blob URL",
        "",
    )
    unit: EcalUnit | None = UNIT
    binning: str | None = BINNING
    to: Literal["auto", "store", "hdf5"] = flag(
        "auto", "form of the target; auto decides by its suffix"
    )
    overwrite: bool = flag(False, "replace an existing target; when the new one is complete")
    verify: bool = flag(
        False,
        "check every shower of SOURCE; against its checksums, and count empty ones; writes nothing",
    )


class SimulateOptions(Options):
    """Simulates showers in the CLIC ECAL, to train and validate with.

    A file .h5 has the public 3DGAN layout with 51x51x25 cells, a file .parquet a table of the hits. The parametric source is for demos, tests and pre-training, not a reference: validate against
    Geant4, which takes about 0.01 s per GeV on all cores. An interrupted Geant4 production keeps its
    showers beside the file; rerun the command to resume.

    Examples:
        cloudgan simulate showers.h5 --showers=5000
        cloudgan simulate geant4.h5 --engine=geant4 --showers=300 --energy=10:20
    """

    output: str = argument("file to write: .h5, or .parquet for a table of hits")
    showers: int = flag(1000, "number of showers", ge=1, le=MAX_SHOWERS)
    energy: Annotated[tuple[float, float], RANGE] = flag(
        (10.0, 100.0), "primary energy in GeV; flat between both"
    )
    theta: Annotated[tuple[float, float], RANGE] = flag(
        (60.0, 120.0), "polar angle in degrees; flat between both"
    )
    particle: Particle = flag("electron", "primary particle; photons need --engine=geant4")
    engine: Literal["gflash", "geant4"] = flag(
        "gflash",
        "parametric source, or Geant4; gflash: Grindhammer and Peters, hep-ex/0001020",
    )
    seed: int = SEED
    workers: int | None = flag(
        None, "processes of Geant4", ge=1, le=MAX_LOCAL_PROCESSES, words="one per core"
    )
    cut_mm: float | None = flag(None, "production cut of Geant4 in mm", words="0.7", gt=0, le=1e6)
    overwrite: bool = flag(
        False, "replace an existing file; and discard unfinished showers of another request"
    )


class ExportOptions(Options):
    """Exports the generator of a run for other programs, with a model card.

    The inputs are energy (GeV), theta (rad) and noise, the output is ECAL (GeV). Writing needs
    TensorFlow, running ONNX does not.

    Examples:
        cloudgan export mine exports/mine
        cloudgan export mine exports/mine-keras --format=keras --step=best
    """

    run: str = RUN
    output: str = argument("folder to write: the model, README.md and model_card.json")
    format: Literal["onnx", "keras", "savedmodel"] = flag(
        "onnx", "onnx, keras (loads without cloudgan) or savedmodel"
    )
    step: Step = STEP_FLAG
    overwrite: bool = flag(False, "replace an existing export")


class ValidateOptions(Options):
    """Compares generated showers with Monte Carlo, by physics distributions.

    Each measure stands beside its MC-MC baseline. Validates two files, or a run: its generator gets the energies and angles of the reference. The
    verdict on a run's newest checkpoint is written to its verdict.json. The MC-MC baseline is the same
    measure for Monte Carlo against Monte Carlo with as many showers: the effect of statistics alone.

    Examples:
        cloudgan validate mine
        cloudgan validate mine --against=geant4.h5 --gate
        cloudgan validate --generated=mine.h5 --reference=geant4.h5 --report=mine.html
    """

    run: str | None = argument("a run, by name or folder, instead of two files", None)
    generated: str | None = flag(
        None, "showers to judge; HDF5, TFRecord or a store", placeholder="FILE"
    )
    reference: str | None = flag(
        None, "Monte Carlo to compare them with; of the same shape", placeholder="FILE"
    )
    against: str | None = flag(
        None, "Monte Carlo for RUN", words="its held-out showers", placeholder="FILE"
    )
    unit: EcalUnit | None = UNIT
    binning: str | None = BINNING
    step: Step = STEP_FLAG
    showers: int | None = flag(
        None,
        "at most so many of each sample",
        ge=1,
        le=MAX_SHOWERS,
        words="all of two files, 1000 of a run",
    )
    seed: int = flag(
        0, "of all random numbers; permutations, bootstrap errors, classifiers", ge=0, le=MAX_SEED
    )
    gate: bool | str = flag(
        False,
        "exit with 7 if a gate fails; the shipped gates, or those of a file in the format of cloudgan/validation/gates.toml",
    )
    report: str | None = REPORT


class DemoOptions(Options):
    """A tour: simulates showers, trains a GAN, judges and prices it; needs no account.

    Takes at most five minutes on two cores and writes a report, report.html in the folder of the run. Rerun the
    command to resume.

    Examples:
        cloudgan demo
        cloudgan demo --data=showers.h5 --run=runs/tour
    """

    data: str | None = flag(None, "your own showers instead of simulated ones", placeholder="FILE")
    unit: EcalUnit | None = UNIT
    run: NewRun = flag(
        "runs/demo",
        "name or folder of the run; the report is report.html in it",
        placeholder="FOLDER",
    )
    showers: int = flag(5000, "showers to simulate; a fifth is held out", ge=1, le=MAX_SHOWERS)
    max_steps: int = flag(2000, "the training ends after so many steps", ge=1, le=MAX_STEP)
    max_seconds: float = flag(180.0, "or after so many seconds", gt=0, le=MAX_SECONDS)
    seed: int = flag(0, "of all random numbers", ge=0, le=MAX_SEED)
