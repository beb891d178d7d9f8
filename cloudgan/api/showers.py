"""Files of showers: simulates them, generates them with a trained run, converts them."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from cloudgan import __version__
from cloudgan.coevolution.samples import (
    grid_generator,
    has_other_samples,
    is_grid,
    refuse_shower_options,
    write_samples,
)
from cloudgan.core import settings
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.file_lock import locked_target
from cloudgan.core.hardware import size_text
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress, Silent
from cloudgan.core.provenance import git_commit
from cloudgan.data.showers import Showers
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.showers import ConvertOptions, GenerateOptions, SimulateOptions
from cloudgan.schema.run_folder import RunFolder, Step, find_run_folder
from cloudgan.schema.simulation import PARTICLE_ATTRIBUTE, Particle
from cloudgan.training.checkpoint import find_checkpoint
from cloudgan.training.inference import Conditions, RunGenerator, TrainedGenerator
from cloudgan.training.tensorflow_import import import_engine

_LEAST_BYTES = 2000
"""Of a simulated shower of 51 x 51 x 25 cells in HDF5: 2490 at 2 GeV, 7650 at 10 to 100 GeV."""
_MOST_COMPRESSION = 250
"""Upper bound for gzip at level 1, reached with cells that are all zero."""


class ShowerFile(Result):
    """A file, folder or bucket of showers that was written, or that was verified."""

    path: str = Field(description="as it was given")
    content: Literal["showers", "samples"] = Field(
        "showers", description="samples: of another task than showers"
    )
    showers: int = Field(description="showers or samples in it")
    bytes: int | None = Field(None, description="size of the file")
    cells: tuple[int, int, int] | None = None
    step: int | None = Field(None, description="of the checkpoint that generated them")
    cell: str | None = Field(None, description="of a grid")
    milliseconds_per_shower: float | None = Field(
        None, description="generated and written, without the first block, which traces the graph"
    )
    resumed_showers: int | None = Field(None, description="kept from an interrupted production")
    seconds: float | None = None
    geant4: str | None = Field(None, description="its version")
    tables: str | None = Field(None, description="data of Geant4")
    empty: int | None = Field(None, description="showers without energy")
    notes: tuple[str, ...] = ()
    verified: bool = Field(False, description="whether it was read only")
    are_notes_said: bool = Field(
        False, exclude=True, description="whether the progress has said the notes"
    )

    def view(self) -> View:
        """Returns what a person reads."""
        how = "verified" if self.verified else "written"
        size = f", {size_text(self.bytes)}" if self.bytes else ""
        details = {
            "cells": self.cells and " x ".join(map(str, self.cells)),
            "checkpoint": self.step is not None and f"step {self.step:,}",
            "cell of the grid": self.cell,
            "time per shower": self.milliseconds_per_shower
            and f"{self.milliseconds_per_shower:.3g} ms",
            "kept from before": self.resumed_showers and counted(self.resumed_showers, "shower"),
            "Geant4": self.geant4 and f"{self.geant4}, {self.tables}, {self.seconds:.0f} s",
            "empty showers": self.empty is not None and f"{self.empty:,}",
        }
        notes = [f"{name}: {text}" for name, text in details.items() if text]
        what = counted(self.showers, self.content.removesuffix("s"))
        line = f"{self.path}: {what} {how}{size}"
        return View(line, notes=(*notes, *(() if self.are_notes_said else self.notes)), done=True)

    def as_json(self) -> dict[str, Any]:
        """Returns what `--json` prints; what does not apply is left out."""
        return self.model_dump(mode="json", exclude_none=True)


@command
def simulate(options: SimulateOptions, *, progress: Progress | None = None) -> ShowerFile:
    """Simulates showers into a file.

    Args:
        options: What is simulated.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A value is not valid, the file exists, or its folder is missing.
        CloudganError: Geant4 is not installed, or failed.
    """
    path, progress = local_path(options.output), progress or usual_progress()
    spans = options.energy, options.theta
    for name, value in (("workers", options.workers), ("cut-mm", options.cut_mm)):
        if value is not None and options.engine != "geant4":
            raise ConfigError(f"--{name} is only valid with --engine=geant4")
    with _claimed(path, overwrite=options.overwrite):
        if options.engine == "geant4":
            return _geant4(path, options, progress)
        return simulate_parametric(
            path,
            options.showers,
            *spans,
            particle=options.particle,
            seed=options.seed,
            progress=progress,
        )


def simulate_parametric(
    path: Path,
    showers: int,
    energy_gev: Range = (10.0, 100.0),
    theta_deg: Range = (60.0, 120.0),
    *,
    particle: Particle = "electron",
    seed: int,
    progress: Progress,
) -> ShowerFile:
    """Writes showers of the parametric source; replaces an existing file.

    It does not distinguish electrons and positrons, as in Geant4 (G4 class GFlashShowerModel, `IsApplicable`).
    """
    if particle == "photon":
        raise ConfigError(
            "--particle=photon needs --engine=geant4: the parametric source is fitted to electrons, and"
            " has neither the depth at which a photon converts nor its fluctuations"
        )
    from cloudgan.data.hits import write_showers
    from cloudgan.simulation.gflash import extrapolations
    from cloudgan.simulation.gflash import simulate as parametric

    _require_space(path, showers, _LEAST_BYTES)
    blocks = parametric(showers, seed=seed, energy_gev=energy_gev, theta_deg=theta_deg)
    progress.start("simulating (gflash)", showers, "showers")
    attrs = {
        "source": "cloudgan gflash (parametric)",
        "seed": seed,
        PARTICLE_ATTRIBUTE: particle,
    } | program_attributes()
    written = write_showers(path, blocks, attrs=attrs, progress=progress)
    return ShowerFile(
        path=str(path),
        showers=written,
        bytes=path.stat().st_size,
        notes=extrapolations(energy_gev, theta_deg),
    )


def _geant4(path: Path, options: SimulateOptions, progress: Progress) -> ShowerFile:
    _require_space(path, options.showers, _LEAST_BYTES)
    from cloudgan.simulation.geant4.events import DEFAULT_CUT_MM, PrimaryRequest
    from cloudgan.simulation.geant4.production import produce

    cut_mm = DEFAULT_CUT_MM if options.cut_mm is None else options.cut_mm
    primaries = PrimaryRequest(
        options.seed, options.energy, options.theta, cut_mm, options.particle
    )
    produced = produce(
        path,
        options.showers,
        primaries,
        data=settings.geant4_data(),
        workers=options.workers,
        overwrite=options.overwrite,
        attrs=program_attributes(),
        progress=progress,
    )
    return ShowerFile(
        path=str(path),
        showers=produced.showers,
        bytes=path.stat().st_size,
        resumed_showers=produced.resumed,
        seconds=round(produced.seconds, 1),
        geant4=produced.installation.geant4,
        tables=produced.installation.tables.name,
    )


@command
def generate(options: GenerateOptions, *, progress: Progress | None = None) -> ShowerFile:
    """Generates showers with a trained run into a file.

    Args:
        options: What is generated.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A range exceeds the trained one, or the file exists.
        DataError: The run has no such checkpoint.
    """
    path, seed, step = local_path(options.output), options.seed, options.step
    folder, progress = find_run_folder(options.run), progress or usual_progress()
    cell, overwrite, extrapolate = options.cell, options.overwrite, options.extrapolate
    if has_other_samples(folder):
        refuse_shower_options(
            folder,
            {
                "energy": options.energy,
                "theta": options.theta,
                "extrapolate": extrapolate,
                "step": step,
            },
        )
        with _claimed(path, overwrite=overwrite, check=refuse_existing):
            count = write_samples(
                folder, path, cell=cell, samples=options.showers, seed=seed, progress=progress
            )
        return ShowerFile(path=str(path), showers=count, cell=cell or "mixture", content="samples")
    with _claimed(path, overwrite=overwrite):
        generator = load_generator(folder, step, progress, cell=cell)
        from cloudgan.data.hdf5_writer import GENERATED
        from cloudgan.data.hits import write_showers

        least = math.prod(generator.preset.image_shape) * 4 // _MOST_COMPRESSION
        _require_space(path, options.showers, least)
        spans = trained_or(generator, options.energy, options.theta)
        blocks = drawn(
            generator, options.showers, spans, seed, extrapolate=extrapolate, progress=progress
        )
        marks: list[tuple[float, int]] = []
        source = f"{GENERATED}, {generator.name}"
        attrs = {"source": source, "seed": seed} | program_attributes()
        if known := generator.summary.particle:
            attrs[PARTICLE_ATTRIBUTE] = known
        if extrapolate:
            (low, high), (left, right) = trained_or(generator, None, None)
            attrs["trained_range"] = (
                f"{low:.4g} to {high:.4g} GeV, {left:.4g} to {right:.4g} degrees"
            )
        written = write_showers(
            path, _timed(blocks, marks), attrs=attrs, layout=generator.summary.dataset
        )
        return ShowerFile(
            path=str(path),
            showers=written,
            step=generator.step,
            cell=(cell or "mixture") if is_grid(folder) else None,
            cells=generator.preset.image_shape,
            milliseconds_per_shower=_milliseconds(marks),
            bytes=path.stat().st_size,
        )


def _timed(blocks: Iterable[Showers], marks: list[tuple[float, int]]) -> Iterator[Showers]:
    """Yields the blocks, and notes when each was made and its size."""
    for block in blocks:
        marks.append((time.perf_counter(), len(block)))
        yield block


def _milliseconds(marks: list[tuple[float, int]]) -> float | None:
    """Returns the time of a shower after the first block; None: there is no other."""
    if len(marks) < 2:  # noqa: PLR2004 - the first, and another
        return None
    seconds, count = marks[-1][0] - marks[0][0], sum(size for _, size in marks[1:])
    return round(1000 * seconds / count, 3)


@command
def convert(options: ConvertOptions, *, progress: Progress | None = None) -> ShowerFile:
    """Converts showers from one layout to another, or verifies them.

    Args:
        options: Source and target.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: The target exists, or its kind is unknown.
        DataError: The source is damaged; the target is unchanged.
    """
    if options.verify == bool(options.target):
        valid = "convert --verify SOURCE, or convert SOURCE TARGET"
        given = f"--verify with the target {options.target}" if options.verify else "no target"
        raise ConfigError(f"{given} was given; valid: cloudgan {valid}")
    if options.verify:
        return _verify(options, progress or usual_progress())
    from cloudgan.data.convert import convert as convert_files
    from cloudgan.data.convert import target_layout
    from cloudgan.data.sources import HDF5_SUFFIXES
    from cloudgan.storage.bucket_showers import BucketShowers, is_url, local_copy

    progress, named = progress or usual_progress(), options.target
    path = None if is_url(named) else local_path(named)
    if path is not None:
        target_layout(path, options.to)  # refuses an unknown one before the download
    with local_copy(options.source, progress) as local:
        how: dict[str, Any] = {
            "unit": options.unit or "",
            "binning": options.binning or "",
            "progress": progress,
        }
        if path is None:
            if options.to == "hdf5" or named.endswith(HDF5_SUFFIXES):
                raise ConfigError(
                    f"{named}: a bucket holds a store; for HDF5 give a local file such as showers.h5"
                )
            bucket = BucketShowers.from_url(named)
            bucket.require_absent(overwrite=options.overwrite)
            with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
                written = convert_files(local, Path(folder) / "store", to="store", **how)
                bucket.upload(written.path, progress)
        else:
            written = convert_files(local, path, to=options.to, overwrite=options.overwrite, **how)
    return ShowerFile(
        path=named,
        showers=written.count,
        notes=tuple(written.notes),
        are_notes_said=not isinstance(progress, Silent),
    )


def _verify(options: ConvertOptions, progress: Progress) -> ShowerFile:
    """Reads every shower of a source and compares it with its checksums; writes nothing."""
    from cloudgan.data.sources import open_source, verify
    from cloudgan.storage.bucket_showers import local_copy

    with local_copy(options.source, progress) as local:
        found = open_source(local, options.unit or "", options.binning or "")
        empty = verify(found, progress)
        return ShowerFile(
            path=options.source,
            showers=found.count,
            empty=empty,
            notes=tuple(found.describe()),
            verified=True,
        )


def _require_space(path: Path, showers: int, bytes_per_shower: int) -> None:
    """Refuses showers that the disk cannot hold."""
    needed, free = showers * bytes_per_shower, shutil.disk_usage(path.parent).free
    if needed > free:
        raise ConfigError(
            f"--showers={showers}: {path} would need at least {needed:,} bytes, and {free:,} are"
            f" free in {path.parent.resolve()}; request fewer showers, or choose another disk"
        )


def program_attributes() -> dict[str, str]:
    """Returns the version of cloudgan, and its commit if known, for the attributes of a file."""
    commit = git_commit()
    return {"cloudgan": __version__} | ({"git_commit": commit} if commit else {})


@contextmanager
def _claimed(
    path: Path, *, overwrite: bool, check: Callable[..., None] | None = None
) -> Iterator[None]:
    """Holds the lock of an output during long work, so that a second command is refused at once."""
    check = check or _refuse_output
    check(path, overwrite=overwrite)  # before the lock is written beside it
    with locked_target(path):
        check(path, overwrite=overwrite)  # another process wrote it meanwhile
        yield


def _refuse_output(path: Path, *, overwrite: bool) -> None:
    """Refuses, before long work, a file that cannot be written."""
    from cloudgan.data.hits import PARQUET_SUFFIX, require_parquet
    from cloudgan.data.sources import HDF5_SUFFIXES

    refuse_existing(path, overwrite=overwrite)
    if path.suffix not in ("", PARQUET_SUFFIX, *HDF5_SUFFIXES):
        raise ConfigError(
            f"{path}: unknown layout {path.suffix}; give a name ending in .h5 for HDF5 or"
            f" {PARQUET_SUFFIX} for a table of hits"
        )
    require_parquet(path)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite` is set."""
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; give another file, or --overwrite")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist; create it first")


Range = tuple[float, float]

_STREAM = 4096
"""Showers whose energies and angles are drawn at a time."""


def load_generator(
    folder: RunFolder, step: Step, progress: Progress, *, cell: str | None = None
) -> RunGenerator:
    """Loads the generator of a checkpoint of a run, or of a grid of cells."""
    if is_grid(folder):
        return grid_generator(folder, step, cell or "mixture")
    if cell is not None:
        raise ConfigError(
            f"--cell={cell}: {folder.path} is no grid of `cloudgan evolve`; omit --cell, or choose a"
            " checkpoint with --step"
        )
    import_engine()
    return TrainedGenerator(find_checkpoint(folder, step, progress))


def drawn(
    generator: RunGenerator,
    count: int,
    spans: tuple[Range, Range],
    seed: int,
    *,
    extrapolate: bool,
    progress: Progress,
) -> Iterator[Showers]:
    """Yields showers of energies and angles that are flat in their ranges, in blocks."""
    if not extrapolate:  # refuses ranges beyond the trained ones
        energies, thetas = (np.array(span, np.float32) for span in spans)
        generator.conditions(energies, np.deg2rad(thetas))
    progress.start("generating", count, "showers")
    conditions = _flat_conditions(generator, count, spans, seed)
    return generator.streamed(conditions, seed=seed, progress=progress)


def trained_or(
    generator: RunGenerator, energy_gev: Range | None, theta_deg: Range | None
) -> tuple[Range, Range]:
    """Returns the given ranges, or the trained ones."""
    summary = generator.summary
    low, high = summary.theta_range_rad or summary.mtheta_range_rad
    trained = math.degrees(low), math.degrees(high)
    return energy_gev or summary.energy_range_gev, theta_deg or trained


def _flat_conditions(
    generator: RunGenerator, count: int, spans: tuple[Range, Range], seed: int
) -> Iterator[Conditions]:
    """Draws energies and angles in blocks: a function of the seed and of the shower's number.

    Energies over decades are flat in their logarithm.
    """
    for first in range(0, count, _STREAM):
        key = np.random.SeedSequence(seed, spawn_key=(first // _STREAM,))
        uniform = np.random.default_rng(key).random((2, _STREAM))[:, : count - first]
        energy, theta = (
            (low + (high - low) * part).astype(np.float32)
            for part, (low, high) in zip(uniform, spans, strict=True)
        )
        if generator.preset.log_energy:
            low, high = spans[0]
            energy = (low * (high / low) ** uniform[0]).clip(low, high).astype(np.float32)
        yield generator.conditions(energy, np.deg2rad(theta), extrapolate=True)
