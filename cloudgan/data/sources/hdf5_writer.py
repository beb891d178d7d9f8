"""Writes showers to HDF5 in the public 3DGAN layout, atomically and in blocks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.shards.manifest import ArrayValue, Attribute, Attributes
from cloudgan.data.sources.raw_showers import DECLARED, KNOWN_UNITS, Columns, RawShowers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from cloudgan.data.showers import Showers

WRITTEN_UNIT = "GeV*50"
CHUNK_EVENTS = 8
"""Showers per compressed chunk: 2 MB of 51 x 51 x 25 cells, small enough for random blocks."""
CHUNK_VALUES = 4096
"""Showers per chunk of all other datasets."""


def write_hdf5(
    path: Path | str,
    blocks: Iterable[Showers],
    *,
    attrs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes ECAL in GeV*50, energy, theta, mtheta, eta and sum; returns the number of showers.

    Theta and eta are omitted if a block lacks theta. An existing file is replaced only by a complete one.

    Raises:
        CloudganError: The disk is full or the folder is not writable; the old file is unchanged.
    """
    progress = progress or Silent()
    per_gev = KNOWN_UNITS[WRITTEN_UNIT]
    attributes: dict[str, Mapping[str, Any]] = {
        "": attrs or {},
        "ECAL": {"unit": WRITTEN_UNIT, DECLARED: per_gev},
    }
    with Hdf5Writer(path, attributes) as writer:
        for block in blocks:
            ecal = np.asarray(block.ecal_gev * np.float32(per_gev), np.float32)
            writer.append(RawShowers(ecal, _columns(block, ecal)))
            progress.advance(len(block))
    return writer.count


def _columns(showers: Showers, ecal: np.ndarray[Any, Any]) -> Columns:
    columns: Columns = {
        "energy": showers.energy_gev,
        "mtheta": showers.mtheta_rad,
        "sum": ecal.sum((1, 2, 3), dtype=np.float64).astype(np.float32),
    }
    if showers.theta_rad is not None:
        theta = showers.theta_rad.astype(np.float64)
        columns["theta"] = showers.theta_rad
        columns["eta"] = (-np.log(np.tan(theta / 2))).astype(np.float32)
    return columns


class Hdf5Writer:
    """Writes blocks to a temporary file that is renamed if the `with` block succeeds."""

    def __init__(
        self, path: Path | str, attributes: Attributes | Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.path = Path(path)
        self.count = 0
        self._beside = self.path.with_name(self.path.name + ".tmp")
        self._attributes = attributes
        self._columns: set[str] = set()

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = h5py.File(self._beside, "w")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error}") from error
        return self

    def append(self, block: RawShowers) -> None:
        """Appends a block; columns that are not in all blocks are dropped.

        Raises:
            CloudganError: The disk is full.
        """
        try:
            self._append_ecal(block.ecal)
            self._append_columns(block.columns)
        except (OSError, RuntimeError) as error:
            raise self._failed(error) from error
        self.count += len(block)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
        except (OSError, RuntimeError) as failure:
            raise self._failed(failure) from failure
        finally:
            self._close_quietly()
            self._beside.unlink(missing_ok=True)

    def _append_columns(self, columns: Columns) -> None:
        if self.count == 0:
            self._columns = set(columns)
            for name, values in columns.items():
                self._file.create_dataset(
                    name,
                    shape=(0, *values.shape[1:]),
                    maxshape=(None, *values.shape[1:]),
                    dtype=values.dtype,
                    chunks=(CHUNK_VALUES, *values.shape[1:]),
                )
        for name in self._columns - set(columns):
            del self._file[name]
        self._columns &= set(columns)
        for name in self._columns:
            self._file[name].resize(self.count + len(columns[name]), axis=0)
            self._file[name][self.count :] = columns[name]

    def _append_ecal(self, ecal: np.ndarray[Any, Any]) -> None:
        if "ECAL" not in self._file:
            self._file.create_dataset(
                "ECAL",
                shape=(0, *ecal.shape[1:]),
                maxshape=(None, *ecal.shape[1:]),
                dtype=ecal.dtype,
                chunks=(CHUNK_EVENTS, *ecal.shape[1:]),
                compression="gzip",
                compression_opts=1,
                shuffle=True,
            )
        dataset = self._file["ECAL"]
        dataset.resize(self.count + len(ecal), axis=0)
        dataset[self.count :] = ecal

    def _finish(self) -> None:
        if self.count == 0:
            raise ConfigError(f"{self.path} was not written: no showers were given")
        for name, attributes in self._attributes.items():
            if name in self._file or not name:
                item = self._file[name] if name else self._file
                for key, value in attributes.items():
                    item.attrs[key] = _restored(value)
        self._file.close()
        with self._beside.open("rb+") as written:
            os.fsync(written.fileno())
        self._beside.replace(self.path)

    def _close_quietly(self) -> None:
        try:
            self._file.close()
        except (OSError, RuntimeError):  # the disk is full: reported already
            return

    def _failed(self, error: Exception) -> CloudganError:
        return CloudganError(
            f"{self.path} could not be written after {self.count} showers: {error}."
            " An existing file is unchanged. Free disk space and rerun the command."
        )


def _restored(value: Attribute | Any) -> Any:
    if isinstance(value, ArrayValue):
        return value.array() if value.shape else value.array()[()]
    if isinstance(value, tuple):
        return np.array(value, dtype=h5py.string_dtype())
    return value
