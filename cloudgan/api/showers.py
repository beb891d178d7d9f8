"""Files of showers: simulates them, generates them with a trained run, converts them."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cloudgan import __version__
from cloudgan.api.grid_samples import (
    has_other_samples,
    is_grid,
    refuse_shower_options,
    write_samples,
)
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import open_run
from cloudgan.api.shower_samples import Range, drawn, load_generator, trained_or
from cloudgan.api.tensorflow_import import import_tensorflow, require_tensorflow
from cloudgan.core import ranges, settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.local_path import local_path
from cloudgan.reports.page import Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema.particle import PARTICLE_ATTRIBUTE
from cloudgan.schema.provenance import git_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.api.run import Run, Step
    from cloudgan.core.progress import Progress
    from cloudgan.reports.table import Cell
    from cloudgan.schema.ecal_unit import EcalUnit
    from cloudgan.schema.particle import Particle

_LEAST_BYTES = 2000
"""Of a simulated shower of 51 x 51 x 25 cells in HDF5: 2490 at 2 GeV, 7650 at 10 to 100 GeV."""
_MOST_COMPRESSION = 250
"""Upper bound for gzip at level 1, reached with cells that are all zero."""


@dataclass(frozen=True)
class ShowerFile:
    """A file, folder or bucket of showers that was written.

    Attributes:
        path: As it was given.
        showers: Number of showers in it.
        facts: How it was produced, by name.
        content: What the file holds: showers, or samples of another task.
    """

    path: str
    showers: int
    facts: dict[str, Any] = field(default_factory=dict)
    content: str = "showers"

    def _repr_html_(self) -> str:
        facts = ((name.replace("_", " "), str(value)) for name, value in self.facts.items())
        rows: tuple[tuple[Cell, ...], ...] = ((self.content, self.showers), *facts)
        return fragment((Section(self.path, (Table(("figure", "value"), rows, "", "lr"),)),))


def simulate(
    output: str | Path,
    *,
    showers: int = 1000,
    energy_gev: Range = (10.0, 100.0),
    theta_deg: Range = (60.0, 120.0),
    particle: Particle = "electron",
    engine: Literal["gflash", "geant4"] = "gflash",
    seed: int = 0,
    workers: int | None = None,
    cut_mm: float | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ShowerFile:
    """Simulates showers in the CLIC ECAL into HDF5 (public 3DGAN layout, 51x51x25 cells).

    Args:
        output: File to write, such as showers.h5 or, for the hits, showers.parquet.
        showers: Number of showers.
        energy_gev: Range of the primary energy in GeV, flat.
        theta_deg: Range of the polar angle in degrees, flat.
        particle: Primary particle; photons need geant4.
        engine: gflash, the parametric source (Grindhammer and Peters, hep-ex/0001020), or geant4.
        seed: The same seed gives the same showers.
        workers: Processes of Geant4. Default: one per core.
        cut_mm: Range cut of Geant4 in mm. Default: 0.7.
        overwrite: Replace an existing file, and discard unfinished showers of another request.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A value is not valid, the file exists, or its folder is missing.
        CloudganError: Geant4 is not installed, or failed.
    """
    path = local_path(output)
    ranges.check(showers=showers, seed=seed, workers=workers, cut_mm=cut_mm)
    progress = progress or usual_progress()
    spans = energy_gev, theta_deg
    for name, value in (("workers", workers), ("cut-mm", cut_mm)):
        if value is not None and engine != "geant4":
            raise ConfigError(f"--{name} is only valid with --engine=geant4")
    with _claimed(path, overwrite=overwrite):
        if engine == "geant4":
            return _geant4(
                path, showers, spans, seed, particle=particle, workers=workers, cut_mm=cut_mm,
                overwrite=overwrite, progress=progress,
            )  # fmt: skip
        return simulate_parametric(
            path, showers, *spans, particle=particle, seed=seed, progress=progress
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

    Raises:
        ConfigError: Photons. The source parametrizes showers of electrons and positrons, which it does
            not distinguish, as in Geant4 (G4 class GFlashShowerModel, `IsApplicable`).
    """
    if particle == "photon":
        raise ConfigError(
            "--particle=photon needs --engine=geant4: the parametric source is fitted to electrons, and"
            " has neither the depth at which a photon converts nor its fluctuations"
        )
    from cloudgan.data.sources.parquet_writer import write_showers
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
    return ShowerFile(str(path), written)


def _geant4(
    path: Path,
    showers: int,
    spans: tuple[Range, Range],
    seed: int,
    *,
    particle: Particle,
    workers: int | None,
    cut_mm: float | None,
    overwrite: bool,
    progress: Progress,
) -> ShowerFile:
    _require_space(path, showers, _LEAST_BYTES)
    from cloudgan.simulation.geant4.events import DEFAULT_CUT_MM, PrimaryRequest
    from cloudgan.simulation.geant4.production import SimulationRequest, produce

    cut_mm = DEFAULT_CUT_MM if cut_mm is None else cut_mm
    primaries = PrimaryRequest(seed, *spans, cut_mm, particle)
    produced = produce(
        SimulationRequest(path, showers, primaries, settings.geant4_data()),
        workers=workers,
        overwrite=overwrite,
        attrs=program_attributes(),
        progress=progress,
    )
    facts = {
        "resumed_showers": produced.resumed,
        "seconds": round(produced.seconds, 1),
        "geant4": produced.installation.geant4,
        "tables": produced.installation.tables.name,
    }
    return ShowerFile(str(path), produced.showers, facts)


def generate(
    run: Run | str | Path,
    output: str | Path,
    *,
    showers: int = 1000,
    energy_gev: Range | None = None,
    theta_deg: Range | None = None,
    extrapolate: bool = False,
    step: Step = None,
    cell: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ShowerFile:
    """Generates showers with a trained run into HDF5 (ECAL in GeV*50), or their hits into Parquet.

    Memory does not grow with the number of showers. A run that is interrupted leaves no file. A grid of
    cells that trained another task gives an archive of NumPy (.npz) with the array ``samples``.

    Args:
        run: A run, or its folder.
        output: File to write, such as generated.h5 or, for the hits, generated.parquet.
        showers: Number of showers.
        energy_gev: Range of the primary energy in GeV, flat. Default: the trained range.
        theta_deg: Range of the polar angle in degrees, flat. Default: the trained range.
        extrapolate: Accept ranges beyond the trained one; the file states the trained range.
        step: Checkpoint: the number of its step (0 is untrained) or "best". Default: the newest.
        cell: Of a grid: "mixture" of the best cell and its neighbours, "best" cell, "ensemble" of all
            cells, or "ROW,COLUMN". Default: the mixture.
        seed: The same seed gives the same showers.
        overwrite: Replace an existing file.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A range exceeds the trained one, or the file exists.
        DataError: The run has no such checkpoint.
    """
    path = local_path(output)
    ranges.check(showers=showers, seed=seed)
    folder, progress = open_run(run).folder, progress or usual_progress()
    if has_other_samples(folder):
        options = {
            "energy": energy_gev,
            "theta": theta_deg,
            "extrapolate": extrapolate,
            "step": step,
        }
        refuse_shower_options(folder, options)
        with _claimed(path, overwrite=overwrite, check=refuse_existing):
            count = write_samples(
                folder, path, cell=cell, samples=showers, seed=seed, progress=progress
            )
        return ShowerFile(str(path), count, {"cell": cell or "mixture"}, content="samples")
    with _claimed(path, overwrite=overwrite):
        generator = load_generator(folder, step, progress, cell=cell)
        from cloudgan.data.sources.hdf5_writer import GENERATED
        from cloudgan.data.sources.parquet_writer import write_showers

        least = math.prod(generator.preset.image_shape) * 4 // _MOST_COMPRESSION
        _require_space(path, showers, least)
        spans = trained_or(generator, energy_gev, theta_deg)
        began = time.perf_counter()
        blocks = drawn(generator, showers, spans, seed, extrapolate=extrapolate, progress=progress)
        source = f"{GENERATED}, {generator.name}"
        attrs = {"source": source, "seed": seed} | program_attributes()
        if known := generator.summary.particle:
            attrs[PARTICLE_ATTRIBUTE] = known
        if extrapolate:
            (low, high), (left, right) = trained_or(generator, None, None)
            attrs["trained_range"] = (
                f"{low:.4g} to {high:.4g} GeV, {left:.4g} to {right:.4g} degrees"
            )
        written = write_showers(path, blocks, attrs=attrs)
        seconds = time.perf_counter() - began
        facts = {
            "step": generator.step,
            **({"cell": cell or "mixture"} if is_grid(folder) else {}),
            "cells": list(generator.preset.image_shape),
            "milliseconds_per_shower": round(1000 * seconds / written, 3),
        }
        return ShowerFile(str(path), written, facts)


def convert(
    source: str | Path,
    target: str | Path,
    *,
    unit: EcalUnit | None = None,
    to: Literal["auto", "tfrecord", "hdf5"] = "auto",
    records_per_shard: int = 1024,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ShowerFile:
    """Converts showers to sharded TFRecord for training, or back to HDF5; the data stay bit-identical.

    A target ending in .parquet gets a table of the hits, which cannot be converted back.

    Args:
        source: HDF5 (public 3DGAN layout), published TFRecord, or shards: path, glob, comma list, or
            bucket.
        target: Folder or bucket (gs://, s3://, Azure Blob URL) for shards, a file .h5 for HDF5, or a
            file .parquet for hits.
        unit: Unit of ECAL in files that state none, where several fit.
        to: tfrecord or hdf5; auto decides by the suffix of the target.
        records_per_shard: Showers per shard.
        overwrite: Replace an existing target when the new one is complete.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: The target exists, or its kind is unknown.
        DataError: The source is damaged; the target is unchanged.
    """
    from cloudgan.data.sources.convert import convert as convert_files
    from cloudgan.data.sources.convert import target_layout
    from cloudgan.data.sources.source import HDF5_SUFFIXES
    from cloudgan.storage.bucket_shards import BucketShards, is_url, local_copy

    progress, named = progress or usual_progress(), str(target)
    path = None if is_url(named) else local_path(named)
    to_shards = path is None or target_layout(path, to) == "tfrecord"
    if to_shards and is_url(str(source)):
        require_tensorflow()  # before the download
    with local_copy(str(source), progress) as local:
        if to_shards:
            import_tensorflow()  # writes the shards
        options: dict[str, Any] = {
            "records_per_shard": records_per_shard,
            "unit": unit or "",
            "progress": progress,
        }
        if path is None:
            if to == "hdf5" or named.endswith(HDF5_SUFFIXES):
                raise ConfigError(
                    f"{named}: a bucket holds shards; for HDF5 give a local file such as showers.h5"
                )
            bucket = BucketShards.from_url(named)
            bucket.require_absent(overwrite=overwrite)
            with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
                written = convert_files(local, Path(folder) / "shards", to="tfrecord", **options)
                bucket.upload(written.path, progress)
        else:
            written = convert_files(local, path, to=to, overwrite=overwrite, **options)
    return ShowerFile(named, written.count, {"notes": list(written.notes)})


def verify_showers(
    source: str | Path, *, unit: EcalUnit | None = None, progress: Progress | None = None
) -> ShowerFile:
    """Reads every shower of a source and compares it with its checksums; writes nothing.

    Args:
        source: HDF5, published TFRecord, or shards: path, glob, comma list, or bucket.
        unit: Unit of ECAL in files that state none, where several fit.
        progress: Receives each task and its progress.

    Raises:
        DataError: The source is damaged; names file and record.
    """
    from cloudgan.data.sources.source import open_source, verify
    from cloudgan.storage.bucket_shards import local_copy

    progress = progress or usual_progress()
    with local_copy(str(source), progress) as local:
        found = open_source(local, unit or "")
        empty = verify(found, progress)
        facts = {"empty": empty, "notes": list(found.describe())}
        return ShowerFile(str(source), found.count, facts)


def _require_space(path: Path, showers: int, bytes_per_shower: int) -> None:
    """Refuses showers that the disk cannot hold.

    Raises:
        ConfigError: They need more bytes than are free.
    """
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
    """Holds the lock of an output during long work, so that a second command is refused at once.

    Raises:
        ConfigError: The output cannot be written, or another process writes it.
    """
    check = check or _refuse_output
    check(path, overwrite=overwrite)  # before the lock is written beside it
    with locked_target(path):
        check(path, overwrite=overwrite)  # another process wrote it meanwhile
        yield


def _refuse_output(path: Path, *, overwrite: bool) -> None:
    """Refuses, before long work, a file that cannot be written.

    Raises:
        ConfigError: It exists, its folder is missing, its suffix is unknown, or pyarrow is missing.
    """
    from cloudgan.data.sources.parquet_writer import PARQUET_SUFFIX, require_parquet
    from cloudgan.data.sources.source import HDF5_SUFFIXES

    refuse_existing(path, overwrite=overwrite)
    if path.suffix not in ("", PARQUET_SUFFIX, *HDF5_SUFFIXES):
        raise ConfigError(
            f"{path}: unknown layout {path.suffix}; give a name ending in .h5 for HDF5 or"
            f" {PARQUET_SUFFIX} for a table of hits"
        )
    require_parquet(path)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite` is set.

    Raises:
        ConfigError: The file exists, or its folder is missing.
    """
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; give another file, or --overwrite")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist; create it first")
