"""Converts showers between HDF5, published TFRecord files and a store, bit for bit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cloudgan.core.atomic_file import atomic_folder, unfinished
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.hdf5_writer import hdf5_writer, write_hdf5
from cloudgan.data.hits import PARQUET_SUFFIX, require_parquet, write_hits
from cloudgan.data.manifest import (
    MANIFEST,
    PART_SUFFIX,
    SourceInfo,
    describe_empty,
    read_manifest,
)
from cloudgan.data.sources import HDF5_SUFFIXES, ShowerSource, file_sha256, open_source
from cloudgan.data.store import Writer

TargetLayout = Literal["auto", "store", "hdf5"]
MIXED = ("The files differ in unit or columns: written as GeV*50, public layout.",)
BLOCK = 64


@dataclass(frozen=True)
class Converted:
    """Result of a conversion."""

    path: Path
    count: int
    notes: tuple[str, ...]


def convert(
    source: str | ShowerSource,
    target: Path | str,
    *,
    unit: str = "",
    binning: str = "",
    to: TargetLayout = "auto",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Reads `source` and writes it to `target`, a store, an HDF5 file or a table of hits.

    HDF5 to a store and back is exact, without empty showers, which are counted. Files that differ in unit
    or columns are written to one HDF5 file in GeV*50, with a note. A target is replaced only by a complete one.

    The target is a folder for a store, a name ending in .h5 or .hdf5 for HDF5, in .parquet for hits, unless `to`
    says what it is. The other arguments are those of `open_source`.
    """
    progress, target = progress or Silent(), Path(target)
    kind = target_layout(target, to)
    _refuse_existing(target, kind, overwrite=overwrite)
    opened = open_source(source, unit, binning) if isinstance(source, str) else source
    if any(file.path.resolve() == target.resolve() for file in opened.files):
        raise ConfigError(f"{target} is both source and target; choose another target")
    omitted: list[int] = []
    notes = opened.describe() + (MIXED if kind == "hdf5" and not _alike(opened) else ())
    for line in notes:
        progress.say(line)
    progress.start("Converting showers", opened.count, "showers")
    with locked_target(target) as is_locked:
        _refuse_existing(target, kind, overwrite=overwrite)  # another process wrote it meanwhile
        if kind == "store":
            for left in unfinished(target) if is_locked else ():  # of killed conversions
                if left.is_dir() and all(map(_is_ours, left.iterdir())):
                    shutil.rmtree(left, ignore_errors=True)
            _write_store(opened, target, omitted, progress)
        elif kind == "parquet":
            names = ", ".join(file.path.name for file in opened.files)
            blocks = opened.blocks(BLOCK, omitted)
            write_hits(target, blocks, attrs={"source": names}, progress=progress)
        else:
            _write_hdf5(opened, target, omitted, progress)
    if omitted:
        notes += (describe_empty(len(omitted), opened.count),)
        progress.say(notes[-1])
    return Converted(target, opened.count - len(omitted), notes)


def is_current(target: Path | str, source: ShowerSource) -> bool:
    """Whether the store in `target` was made from the current state of these files.

    Compares name, size, time of change, number of showers and units of each file.
    """
    try:
        made_of = read_manifest(Path(target)).sources
    except DataError:
        return False
    return [_identity(info) for info in made_of] == [_identity(f.info) for f in source.files]


def _identity(info: SourceInfo) -> tuple[object, ...]:
    state = (info.bytes, info.modified_ns, info.records + info.empty)
    return (
        str(Path(info.name).resolve()),
        *state,
        info.ecal_per_gev,
        info.energy_per_gev,
        info.dataset,
    )


def target_layout(target: Path, to: TargetLayout) -> Literal["store", "hdf5", "parquet"]:
    """Returns the layout in which `convert` writes a target."""
    if to != "auto":
        return to
    if target.suffix == PARQUET_SUFFIX:
        require_parquet(target)
        return "parquet"
    if target.suffix in HDF5_SUFFIXES:
        return "hdf5"
    if target.suffix and not target.is_dir():
        raise ConfigError(
            f"{target}: unknown target layout. Use a name ending in .h5 for HDF5 or .parquet for hits, a"
            " name without suffix for a store, or pass --to=store or --to=hdf5"
        )
    return "store"


def _refuse_existing(target: Path, kind: str, *, overwrite: bool) -> None:
    if not target.exists():
        return
    if kind != "store":
        if target.is_dir():
            raise ConfigError(f"{target} is a folder; name a file such as {target}/showers.h5")
    elif not target.is_dir():
        raise ConfigError(f"{target} is a file; a store needs a folder")
    elif foreign := [path.name for path in target.iterdir() if not _is_ours(path)]:
        raise ConfigError(f"{target} holds other files ({min(foreign)}, ...); use an empty folder")
    if not overwrite and (kind != "store" or (target / MANIFEST).exists()):
        raise ConfigError(f"{target} exists; pass --overwrite to replace it")


def _is_ours(path: Path) -> bool:
    part = path.name.startswith("part-") and path.suffix == PART_SUFFIX
    return part or path.name == MANIFEST or path in unfinished(path.with_name(MANIFEST))


def _write_store(
    source: ShowerSource, target: Path, omitted: list[int], progress: Progress
) -> None:
    with atomic_folder(target, error_class=ConfigError) as beside:
        writer = Writer(beside)
        for file in source.files:
            digest = file.info.sha256 or (None if file.path.is_dir() else file_sha256(file.path))
            writer.begin(file.info.model_copy(update={"sha256": digest}))
            for block in file.non_empty(BLOCK, omitted):
                writer.append(block)
                progress.advance(len(block))
        writer.finish()


def _alike(source: ShowerSource) -> bool:
    """Whether one file can hold all sources exactly: same unit, dtypes and columns."""
    first = source.files[0].info
    return all(
        getattr(file.info, name) == getattr(first, name)
        for file in source.files
        for name in ("ecal_per_gev", "energy_per_gev", "ecal_dtype", "columns", "dataset")
    )


def _write_hdf5(source: ShowerSource, target: Path, omitted: list[int], progress: Progress) -> None:
    first = source.files[0].info
    if not _alike(source):
        if first.dataset:
            raise ConfigError(
                f"{target}: the files differ in unit, type or columns, and the layout of {first.dataset.name} has"
                " one of each: convert them separately, or to a store"
            )
        write_hdf5(target, source.blocks(BLOCK, omitted), progress=progress)
        return
    with hdf5_writer(target, first.attributes, first.dataset) as writer:
        for file in source.files:
            for block in file.non_empty(BLOCK, omitted):
                writer.append(block)
                progress.advance(len(block))
