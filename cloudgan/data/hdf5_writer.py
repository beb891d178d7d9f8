"""Writes showers to HDF5 in the public 3DGAN layout or that of a data set, atomically and in blocks."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.file_lock import locked_writer
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.layouts import PUBLIC, Layout
from cloudgan.data.manifest import ArrayValue, Attribute, Attributes
from cloudgan.data.showers import Showers, from_images
from cloudgan.data.units import DECLARED, KNOWN_UNITS, WRITTEN_UNIT, Columns, RawShowers

GENERATED = "cloudgan generator"
"""Beginning of the attribute `source` of files with showers of a generator."""
CHUNK_EVENTS = 8
"""Showers per compressed chunk: 2 MB of 51 x 51 x 25 cells, small enough for random blocks."""
CHUNK_VALUES = 4096
"""Showers per chunk of all other datasets."""


def write_hdf5(
    path: Path | str,
    blocks: Iterable[Showers],
    *,
    attrs: Mapping[str, Any] | None = None,
    layout: Layout | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes ECAL in GeV*50, energy, theta, mtheta, eta and sum; returns the number of showers.

    Theta and eta are omitted if a block lacks theta. With a layout its datasets are written instead, in its
    units: cells, energy and, if it has one, the angle. An existing file is replaced only by a complete one.
    """
    progress = progress or Silent()
    per_gev = KNOWN_UNITS[WRITTEN_UNIT]
    attributes: dict[str, Mapping[str, Any]] = {"": attrs or {}}
    if layout is None:
        attributes["ECAL"] = {"unit": WRITTEN_UNIT, DECLARED: per_gev}
    with hdf5_writer(path, attributes, layout) as writer:
        for block in blocks:
            if layout is None:
                writer.append(public_layout(block))
            else:
                unit = layout.unit
                cells, energy = (np.float32(KNOWN_UNITS[one]) for one in (unit.cells, unit.energy))
                columns = {"energy": (block.energy_gev * energy).reshape(-1, *layout.energy_shape)}
                if layout.keys.theta and block.theta_rad is not None:
                    columns["theta"] = block.theta_rad
                writer.append(RawShowers(block.ecal_gev * cells, columns))
            progress.advance(len(block))
    return writer.count


def public_layout(showers: Showers) -> RawShowers:
    """Returns showers in GeV*50 with the columns of the public layout."""
    ecal = np.asarray(showers.ecal_gev * np.float32(KNOWN_UNITS[WRITTEN_UNIT]), np.float32)
    columns: Columns = {
        "energy": showers.energy_gev,
        "mtheta": showers.mtheta_rad,
        "sum": ecal.sum((1, 2, 3), dtype=np.float64).astype(np.float32),
    }
    if showers.theta_rad is not None:
        theta = showers.theta_rad.astype(np.float64)
        columns["theta"] = showers.theta_rad
        columns["eta"] = (-np.log(np.tan(theta / 2))).astype(np.float32)
    return RawShowers(ecal, columns)


@contextmanager
def hdf5_writer(
    path: Path | str,
    attributes: Attributes | Mapping[str, Mapping[str, Any]],
    layout: Layout | None,
) -> Iterator[Hdf5Writer]:
    """Yields a writer; what it wrote replaces `path` when the block succeeds, in a folder that may be new.

    Attributes are by dataset; those of the file itself have an empty name.
    """
    path = Path(path)
    with locked_writer(path) as beside:
        sink = _Sink(beside)
        with h5py.File(sink, "w") as file:
            writer = Hdf5Writer(path, file, sink, layout or PUBLIC)
            writer.set_attributes("", attributes.get("", {}))
            yield writer
            for name in writer.datasets:
                writer.set_attributes(name, attributes.get(name, {}))
        writer.check()
        if writer.count == 0:
            raise ConfigError(f"{path} was not written: no showers were given")


class _Sink:
    """The file object that HDF5 writes to; keeps in memory what the disk has no space for.

    HDF5 crashes the process at its end if it cannot write what it has buffered for a file
    (https://github.com/h5py/h5py/issues/914, read 2026-11-22). So HDF5 never sees an error: the
    first one is kept in `error`, and the file is closed and removed.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file.fileno()
        self._at = 0
        self._unwritten: list[tuple[int, bytes]] = []
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset if whence == os.SEEK_SET else self._end() + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        content = bytearray(size)
        self.readinto(content)
        return bytes(content)

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        found = os.pread(self._file, len(target), self._at).ljust(len(target), b"\0")
        target[:] = found
        for at, content in self._unwritten:
            first, last = max(at, self._at), min(at + len(content), self._at + len(target))
            if first < last:
                target[first - self._at : last - self._at] = content[first - at : last - at]
        return len(target)

    def write(self, buffer: Any) -> int:
        content = bytes(memoryview(buffer).cast("B"))
        try:
            written = 0
            while self.error is None and written < len(content):
                written += os.pwrite(self._file, content[written:], self._at + written)
        except OSError as error:
            self.error = error
        if self.error is not None:
            self._unwritten.append((self._at, content))
        return len(content)

    def truncate(self, size: int) -> int:
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            self.error = self.error or error
        return size

    def flush(self) -> None:
        """Does nothing: writes are not buffered."""

    def _end(self) -> int:
        ends = [at + len(content) for at, content in self._unwritten]
        return max([os.fstat(self._file).st_size, *ends])


class Hdf5Writer:
    """Appends blocks of showers to an open file."""

    def __init__(self, path: Path, file: h5py.File, sink: _Sink, layout: Layout) -> None:
        self.count = 0
        self.datasets: dict[str, h5py.Dataset] = {}
        self._path, self._file, self._sink, self._layout = path, file, sink, layout

    def append(self, block: RawShowers) -> None:
        """Appends a block; columns that are not in all blocks are dropped."""
        layout = self._layout
        cells = dict(zip(layout.keys.cells, from_images(layout, block.ecal), strict=True))
        columns = {layout.key_of(name): values for name, values in block.columns.items()}
        if not self.datasets:
            how: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
            for name, values in (*cells.items(), *columns.items()):
                each, chunk = values.shape[1:], CHUNK_EVENTS if name in cells else CHUNK_VALUES
                self.datasets[name] = self._file.create_dataset(
                    name,
                    shape=(0, *each),
                    maxshape=(None, *each),
                    dtype=values.dtype,
                    chunks=(chunk, *each),
                    **(how if name in cells else {}),
                )
        for name in self.datasets.keys() - {*cells, *columns}:
            del self._file[name], self.datasets[name]
        for name, values in (*cells.items(), *columns.items()):
            if name in self.datasets:
                self.datasets[name].resize(self.count + len(values), axis=0)
                self.datasets[name][self.count :] = values
        self.check()
        self.count += len(block)

    def check(self) -> None:
        """Checks that the file system accepted all that was written until now."""
        if error := self._sink.error:
            raise CloudganError(
                f"{self._path} could not be written after {self.count} showers: {error.strerror}."
                " An existing file is unchanged. Free disk space and rerun the command."
            ) from error

    def set_attributes(self, name: str, values: Mapping[str, Attribute | Any]) -> None:
        """Sets the attributes of a dataset, or of the file itself if `name` is empty."""
        item = self._file[name] if name else self._file
        for key, value in values.items():
            try:
                item.attrs[key] = _restored(value)
            except (OSError, RuntimeError, TypeError, ValueError) as error:
                of = f" of {name}" if name else ""
                raise ConfigError(
                    f"{self._path}: the attribute {key!r}{of} cannot be written: {error}"
                ) from error


def _restored(value: Attribute | Any) -> Any:
    if isinstance(value, ArrayValue):
        array = array_of(value)
        return array if value.shape else array[()]
    return np.array(value, h5py.string_dtype()) if isinstance(value, tuple) else value


def array_value(array: NDArray[Any]) -> ArrayValue:
    """Returns an array as the manifest keeps it."""
    text = base64.b64encode(array.tobytes()).decode()
    return ArrayValue(dtype=array.dtype.str, shape=array.shape, base64=text)


def array_of(value: ArrayValue) -> NDArray[Any]:
    """Returns the array that the manifest keeps."""
    content = base64.b64decode(value.base64)
    return np.frombuffer(content, np.dtype(value.dtype)).reshape(value.shape)
