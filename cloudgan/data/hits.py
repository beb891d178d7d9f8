"""Writes the hits of showers to Parquet, one row per cell, atomically and in row groups.

Columns: shower, x, y, layer (indices from 0), energy_gev (of the cell), primary_gev and theta_rad (of the
shower's primary; equal numbers in a row take hardly any space). A shower without a hit has no row. The schema
metadata `cloudgan` is JSON: threshold, geometry, origin, number of showers.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError, install_command
from cloudgan.core.file_lock import locked_writer
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.layouts import Layout
from cloudgan.data.showers import CELL_MM, LEAST_CELL_GEV, Showers

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
    layout: Layout | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes hits if the name ends in .parquet, else HDF5; raises what `write_hits` and `write_hdf5` raise."""
    if path.suffix == PARQUET_SUFFIX:
        return write_hits(path, blocks, attrs=attrs, progress=progress)
    return write_hdf5(path, blocks, attrs=attrs, layout=layout, progress=progress)


def require_parquet(path: Path) -> None:
    """Checks, before long work, that a Parquet file can be written if `path` is one."""
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
    """
    progress = progress or Silent()
    arrow, parquet = _pyarrow(path)
    waiting: list[dict[str, NDArray[Any]]] = []
    count = rows = 0
    writer: Any = None

    def write_group(cells: tuple[int, ...]) -> None:
        """Writes a row group of what waits; the first one may be empty, if no shower has a hit."""
        nonlocal writer
        schema = _schema(arrow, cells, attrs or {})
        writer = writer or parquet.ParquetWriter(beside, schema, compression="zstd")
        columns = {name: np.concatenate([block[name] for block in waiting]) for name in _COLUMNS}
        arrays = [  # from_pandas: nan is null
            arrow.array(columns[field.name], field.type, from_pandas=True) for field in schema
        ]
        writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

    with locked_writer(path) as beside:
        try:
            for block in blocks:
                cells = block.ecal_gev.shape[1:]
                waiting.append(_hits(block, count))
                count, rows = count + len(block), rows + len(waiting[-1]["shower"])
                progress.advance(len(block))
                if rows >= ROWS_PER_GROUP:
                    write_group(cells)
                    waiting, rows = [], 0
            if count == 0:
                raise ConfigError(f"{path} was not written: no showers were given")
            if rows or writer is None:
                write_group(cells)
            writer.add_key_value_metadata({"showers": str(count)})
            writer.close()
        finally:
            if writer is not None:
                writer.is_open = False  # else it would write a footer after a full disk
    return count


def _hits(block: Showers, first: int) -> dict[str, NDArray[Any]]:
    shower, x, y, layer = np.nonzero(block.ecal_gev >= LEAST_CELL_GEV)
    theta = block.theta_rad
    unknown = np.full(len(shower), np.nan, np.float32)
    return {
        "shower": shower + first,
        "x": x.astype(np.int16),
        "y": y.astype(np.int16),
        "layer": layer.astype(np.int16),
        "energy_gev": block.ecal_gev[shower, x, y, layer].astype(np.float32),
        "primary_gev": block.energy_gev[shower].astype(np.float32),
        "theta_rad": unknown if theta is None else theta[shower].astype(np.float32),
    }


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


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{path}: Parquet needs {error.name}; run {install_command('parquet')}, or give a name"
            " ending in .h5"
        ) from error
