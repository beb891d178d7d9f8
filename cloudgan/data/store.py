"""The store of showers: written in blocks, read at random from memory-mapped files; no TensorFlow.

Bit for bit the source: the cells whose bits are not all zero, in the unit and dtype of the source, and every
other dataset with its own dtype. A source of many showers has several parts, so that a bucket transfers them
concurrently; several sources keep their units and dtypes in parts of their own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.manifest import (
    ARRAYS,
    PART_SUFFIX,
    FileIdentity,
    Manifest,
    PartInfo,
    SourceInfo,
    StoredFile,
    check_file,
    check_files,
    check_folder,
    identity_of,
    read_manifest,
    write_manifest,
)
from cloudgan.data.showers import Cells, cell_dtype, join_known
from cloudgan.data.units import Columns, RawFile, RawShowers, in_gev, primaries

Floats = NDArray[np.float32]

LAYOUT = "store"
PART_BYTES = 64 << 20
"""Size from which on a part is complete: its arrays are in memory until then."""
_LOOK_SECONDS = 1.0
"""Interval at which a reader looks whether its files were changed."""


def write_part(
    folder: Path, number: int, source: int, blocks: Iterable[tuple[Cells, Columns]]
) -> PartInfo:
    """Writes one part of a store: blocks of showers of the source number `source`."""
    cells, columns = zip(*blocks, strict=True)
    sizes = np.concatenate([np.diff(block.first) for block in cells])
    arrays = {
        "offsets": np.concatenate(([0], np.cumsum(sizes))).astype("<i8"),
        "cells": _joined([block.cell for block in cells]),
        "values": _joined([block.value for block in cells]),
    }
    for place, column in enumerate(columns[0]):
        is_plain = re.fullmatch(r"[a-z][a-z0-9_]{0,39}", column) and column not in ARRAYS
        name = column if is_plain else f"column{place}"
        arrays[name] = _joined([block[column] for block in columns])
    files = []
    for name, array in arrays.items():
        path = folder / f"part-{number:05d}-{name}{PART_SUFFIX}"
        with path.open("wb") as file:
            # A file of the operating system is written by C, whose error does not say that the disk is full.
            np.save(SimpleNamespace(write=file.write), array)
            file.flush()
            os.fsync(file.fileno())
        files.append(StoredFile.of(path))
    return PartInfo(records=len(arrays["offsets"]) - 1, source=source, files=tuple(files))


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenates arrays of one type; by itself NumPy would change the order of the bytes."""
    return np.concatenate(arrays, dtype=arrays[0].dtype)


class Writer:
    """Appends showers of one source after the other; `finish` writes the manifest, last."""

    def __init__(self, folder: Path, *, part_bytes: int = PART_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._part_bytes = folder, part_bytes
        self._sources: list[SourceInfo] = []
        self._parts: list[PartInfo] = []
        self._blocks: list[tuple[Cells, Columns]] = []
        self._bytes = self.count = 0

    def begin(self, source: SourceInfo) -> None:
        """Starts a source; what is appended from now on belongs to it."""
        self._end_part()
        self._sources.append(source)

    def append(self, block: RawShowers) -> None:
        """Adds a block of the present source."""
        names = [column.name for column in self._sources[-1].columns]
        cells, columns = Cells.of(block.ecal), {name: block.columns[name] for name in names}
        self._blocks.append((cells, columns))
        self.count += len(block)
        arrays = (cells.cell, cells.value, cells.first, *columns.values())
        self._bytes += sum(array.nbytes for array in arrays)
        if self._bytes >= self._part_bytes:
            self._end_part()

    def finish(self) -> Manifest:
        """Writes the last part and the manifest."""
        self._end_part()
        held = [0] * len(self._sources)
        for part in self._parts:
            held[part.source] += part.records
        sources = (
            source.model_copy(
                update={"records": kept, "empty": source.empty + source.records - kept}
            )
            for source, kept in zip(self._sources, held, strict=True)
        )
        manifest = Manifest(
            records=sum(held),
            shape=self._sources[0].shape,
            parts=tuple(self._parts),
            sources=tuple(sources),
        )
        write_manifest(self._folder, manifest)
        return manifest

    def _end_part(self) -> None:
        if not self._blocks:
            return
        source = len(self._sources) - 1
        self._parts.append(write_part(self._folder, len(self._parts), source, self._blocks))
        self._blocks, self._bytes = [], 0


class Store:
    """A folder written by `Writer`. Reads are thread-safe and start no file access of their own.

    The SHA-256 of a part's files is compared with the manifest before its first shower is returned, and again
    if a file is replaced or written to, for which a reader looks once a second.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is not a store of showers: it does not exist")
        self.manifest = read_manifest(self.folder)
        self.shape, self.count = self.manifest.shape, self.manifest.records
        check_folder(self.folder, self.manifest)
        self._first = np.cumsum([0, *(part.records for part in self.manifest.parts)])
        self._verified: dict[str, FileIdentity] = {}
        self._looked_seconds = 0.0
        self._parts: dict[int, tuple[NDArray[Any], ...]] = {}
        sources = [self.manifest.sources[part.source] for part in self.manifest.parts]
        self._per_gev = [source.ecal_per_gev for source in sources]
        self._no_cells = np.zeros(0, cell_dtype(self.shape))
        self._is_uniform = (
            len({(source.ecal_per_gev, source.ecal_dtype) for source in sources}) == 1
        )

    def verify(self, progress: Progress | None = None) -> None:
        """Compares every file with the manifest, and checks that its numbers are showers."""
        self._verified = check_files(self.folder, self.manifest, progress or Silent())
        for number in range(len(self.manifest.parts)):
            self._part(number)

    def take(self, rows: NDArray[np.int64]) -> Cells:
        """Returns the cells of the showers numbered `rows`, in that order, GeV, float32."""
        if time.monotonic() - self._looked_seconds > _LOOK_SECONDS:
            self._look()
        numbers = np.searchsorted(self._first, rows, "right") - 1
        inside, parts = rows - self._first[numbers], numbers.tolist()
        cell: list[NDArray[Any]] = []
        value: list[NDArray[Any]] = []
        for part, row in zip(parts, inside.tolist(), strict=True):
            offsets, cells, values = self._parts.get(part) or self._part(part)
            ends = slice(offsets.item(row), offsets.item(row + 1))
            cell.append(cells[ends])
            value.append(values[ends])
        if self._is_uniform and value:
            gev = in_gev(np.concatenate(value), self._per_gev[0])
        else:
            each = (
                in_gev(one, self._per_gev[part]) for one, part in zip(value, parts, strict=True)
            )
            gev = np.concatenate([np.zeros(0, np.float32), *each])
        first = np.cumsum([0, *map(len, cell)])
        return Cells(np.concatenate([self._no_cells, *cell]), gev, first, self.shape)

    def primaries(
        self,
    ) -> tuple[Floats, Floats | None, Floats | None]:
        """Returns energy (GeV), theta and mtheta (rad) of all showers, float32; None: a source lacks it."""
        found = [
            primaries(self._columns(number), self.manifest.sources[part.source])
            for number, part in enumerate(self.manifest.parts)
        ]
        energies, thetas, mthetas = zip(*found, strict=True)
        return np.concatenate(energies), join_known(thetas), join_known(mthetas)

    def files(self) -> tuple[RawFile, ...]:
        """Returns the sources of the store, each readable as the original file."""
        return tuple(
            RawFile(
                self.folder,
                source,
                partial(self._raw_blocks, number),
                origin=f"{LAYOUT} of {source.name} ({source.layout})",
            )
            for number, source in enumerate(self.manifest.sources)
        )

    def _raw_blocks(self, source: int, size: int) -> Iterator[RawShowers]:
        """Yields the showers of a source with all columns, bit for bit, at most `size` at a time."""
        for number, part in enumerate(self.manifest.parts):
            if part.source != source:
                continue
            offsets, cell, value = self._part(number)
            cells, columns = Cells(cell, value, offsets, self.shape), self._columns(number)
            for start in range(0, len(cells), size):
                stop = start + size
                block = {name: np.array(one[start:stop]) for name, one in columns.items()}
                yield RawShowers(cells.rows(start, stop).dense(), block)

    def _look(self) -> None:
        """Forgets the parts whose files were replaced or written to: they are checked again."""
        self._looked_seconds = time.monotonic()
        for number in tuple(self._parts):
            for file in self.manifest.parts[number].files:
                try:
                    # Another reader that saw the same change may have forgotten the file already.
                    found = identity_of(self.folder / file.name)
                    is_same = found == self._verified.get(file.name)
                except OSError:
                    is_same = False
                if not is_same:
                    self._verified.pop(file.name, None)
                    self._parts.pop(number, None)

    def _part(self, number: int) -> tuple[NDArray[Any], ...]:
        """Returns offsets (in memory), cells and values (mapped) of a part whose files were compared.

        Two threads may both check it, with the same result.
        """
        found = self._parts.get(number)
        if found is None:
            part = self.manifest.parts[number]
            for file in part.files:
                if file.name not in self._verified:
                    self._verified[file.name] = check_file(self.folder, file)
            source = self.manifest.sources[part.source]
            dtypes = ("<i8", cell_dtype(self.shape).str, source.ecal_dtype)
            found = tuple(
                self._mapped(file, dtype, None)
                for file, dtype in zip(part.files, dtypes, strict=False)
            )
            self._check_numbers(part, *found)
            found = (np.array(found[0]), *found[1:])
            self._parts[number] = found
        return found

    def _columns(self, number: int) -> Columns:
        self._part(number)
        part = self.manifest.parts[number]
        return {
            column.name: self._mapped(file, column.dtype, (part.records, *column.shape))
            for column, file in zip(
                self.manifest.sources[part.source].columns, part.files[len(ARRAYS) :], strict=True
            )
        }

    def _mapped(self, file: StoredFile, dtype: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
        path = self.folder / file.name
        try:
            # Slices of a memmap are ten times slower than those of the array below it.
            found = np.load(path, mmap_mode="r").view(np.ndarray)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}. Run convert again.") from error
        if found.dtype.str != dtype or found.shape != (shape or found.shape[:1]):
            raise DataError(
                f"{path} holds {found.dtype.str}{list(found.shape)}, the manifest says {dtype}: run convert"
                " again"
            )
        return found

    def _check_numbers(
        self, part: PartInfo, offsets: NDArray[Any], cell: NDArray[Any], value: NDArray[Any]
    ) -> None:
        """Checks the numbers of a part once, so that no read needs to."""
        path = self.folder / part.files[0].name
        is_order = (
            len(offsets) == part.records + 1 and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        )
        if not is_order or not offsets[-1] == len(cell) == len(value):
            raise DataError(f"{path}: the offsets do not fit the cells: run convert again")
        if cell.size and int(cell.max()) >= (cells := int(np.prod(self.shape))):
            path = self.folder / part.files[1].name
            raise DataError(
                f"{path} has cell {cell.max()} of an image of {cells}: run convert again"
            )
        if value.size and not (value.min() >= 0 and value.max() < np.inf):
            path = self.folder / part.files[2].name
            bad = np.argmin((value >= 0) & (value < np.inf))
            row = np.searchsorted(offsets, bad, "right") - 1
            raise DataError(
                f"{path}, shower {row}: NaN, infinite or negative cells: run convert again"
            )
