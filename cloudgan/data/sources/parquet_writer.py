"""Writes the hits of showers to Parquet, one row per cell, atomically and in row groups.

Columns: shower, x, y, layer (indices from 0), energy_gev (of the cell), primary_gev and theta_rad (of the
shower's primary; equal numbers in a row take hardly any space). A shower without a hit has no row. The schema
metadata `cloudgan` is JSON: threshold, geometry, origin, number of showers.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.atomic_file import atomic_writer, unfinished
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.core.file_lock import locked_target
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.pipeline.preprocessing import LEAST_CELL_GEV
from cloudgan.data.showers import CELL_MM
from cloudgan.data.sources.hdf5_writer import write_hdf5

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cloudgan.data.showers import Showers

PARQUET_SUFFIX = ".parquet"
METADATA = "cloudgan"
ROWS_PER_GROUP = 2**19
"""Hits of a row group, 10 MB in memory: about 200 showers of the parametric source at 50 GeV."""

_COLUMNS = {
    "shower": ("int64", "index in this file, from 0"),
    "x": ("int16", "cell index"),
    "y": ("int16", "cell index; the shower tilts in the y-layer plane"),
    "layer": ("int16", "layer index along the depth"),
    "energy_gev": ("float32", "GeV, energy in the cell"),
    "primary_gev": ("float32", "GeV, energy of the primary"),
    "theta_rad": ("float32", "rad, polar angle of the primary; null if unknown"),
}


def write_showers(
    path: Path,
    blocks: Iterable[Showers],
    *,
    attrs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes hits if the name ends in .parquet, else HDF5; raises what `write_hits` and `write_hdf5` raise."""
    write = write_hits if path.suffix == PARQUET_SUFFIX else write_hdf5
    return write(path, blocks, attrs=attrs, progress=progress)


def require_parquet(path: Path) -> None:
    """Checks, before long work, that a Parquet file can be written if `path` is one.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    if path.suffix == PARQUET_SUFFIX:
        _pyarrow(path)


def write_hits(
    path: Path,
    blocks: Iterable[Showers],
    *,
    attrs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes the cells from `LEAST_CELL_GEV` on; returns the number of showers.

    An existing file is replaced only by a complete one. Memory is that of one row group and one block.

    Raises:
        ConfigError: pyarrow is not installed, another process writes the file, its folder is not writable,
            or no showers were given.
        DiskFullError: The disk is full; the old file is unchanged.
    """
    progress = progress or Silent()
    arrow, parquet = _pyarrow(path)
    with locked_target(path) as is_locked:
        for left in unfinished(path) if is_locked else ():
            left.unlink(missing_ok=True)
        with atomic_writer(path, error_class=ConfigError) as beside:
            counted, writer = _Counted(blocks, progress), None
            try:
                for columns in _row_groups(counted):
                    if writer is None:
                        schema = _schema(arrow, counted.cells, attrs or {})
                        writer = parquet.ParquetWriter(beside, schema, compression="zstd")
                    writer.write_table(_table(arrow, schema, columns))
                if writer is None:
                    raise ConfigError(f"{path} was not written: no showers were given")
                writer.add_key_value_metadata({"showers": str(counted.showers)})
                writer.close()
            finally:
                if writer is not None:
                    writer.is_open = False  # else it would write a footer after a full disk
    return counted.showers


class _Counted:
    """Blocks of showers, counted while they are read."""

    def __init__(self, blocks: Iterable[Showers], progress: Progress) -> None:
        self._blocks, self._progress = blocks, progress
        self.showers = 0
        self.cells: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """Yields the columns of each block's hits."""
        for block in self._blocks:
            yield _hits(block, self.showers)
            self.showers += len(block)
            self.cells = block.ecal_gev.shape[1:]
            self._progress.advance(len(block))


def _hits(block: Showers, first: int) -> dict[str, np.ndarray[Any, Any]]:
    shower, x, y, layer = np.nonzero(block.ecal_gev >= LEAST_CELL_GEV)
    columns: dict[str, np.ndarray[Any, Any]] = {
        "shower": shower + first,
        "x": x.astype(np.int16),
        "y": y.astype(np.int16),
        "layer": layer.astype(np.int16),
        "energy_gev": block.ecal_gev[shower, x, y, layer].astype(np.float32),
        "primary_gev": block.energy_gev[shower].astype(np.float32),
    }
    unknown = np.full(len(shower), np.nan, np.float32)
    theta = block.theta_rad
    columns["theta_rad"] = unknown if theta is None else theta[shower].astype(np.float32)
    return columns


def _row_groups(
    blocks: Iterable[dict[str, np.ndarray[Any, Any]]],
) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Joins blocks to row groups; the first one may be empty, if no shower has a hit."""
    waiting: list[dict[str, np.ndarray[Any, Any]]] = []
    rows, written = 0, False
    for block in blocks:
        waiting.append(block)
        rows += len(block["shower"])
        if rows >= ROWS_PER_GROUP:
            yield _joined(waiting)
            waiting, rows, written = [], 0, True
    if waiting and (rows or not written):
        yield _joined(waiting)


def _joined(blocks: list[dict[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.concatenate([block[name] for block in blocks]) for name in _COLUMNS}


def _schema(arrow: Any, cells: tuple[int, ...], attrs: Mapping[str, Any]) -> Any:
    fields = [
        arrow.field(name, getattr(arrow, kind)(), metadata={"description": description})
        for name, (kind, description) in _COLUMNS.items()
    ]
    about = {
        "threshold_gev": LEAST_CELL_GEV,
        "cells": list(cells),
        "cell_mm": CELL_MM,
        "detector": "CLIC ECAL, 25 layers of silicon and tungsten",
        **attrs,
    }
    return arrow.schema(fields, metadata={METADATA: json.dumps(about)})


def _table(arrow: Any, schema: Any, columns: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    arrays = [
        arrow.array(columns[field.name], field.type, from_pandas=True) for field in schema
    ]  # from_pandas: nan is null
    return arrow.Table.from_arrays(arrays, schema=schema)


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{path}: Parquet needs {error.name}; run {install_command('parquet')}, or give a name"
            " ending in .h5"
        ) from error
