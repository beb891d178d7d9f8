"""Readers of the published 3DGAN TFRecord layouts. Need TensorFlow to verify checksums.

Two layouts of the authors' code (arXiv:2111.04628): one preprocessed shower per record, and one record
per HDF5 file (ECAL, ecalsize, energy, eta, mtheta, sum, theta), of which their reader kept the last.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.shards.manifest import ColumnInfo, SourceInfo
from cloudgan.data.showers import measured_angle
from cloudgan.data.sources.raw_showers import (
    Columns,
    RawShowers,
    Units,
    check_axes,
    check_columns,
    check_ecal,
    decide_units,
    median_ratio,
)
from cloudgan.data.tfrecord_format import number_features, record_extents

Features = dict[str, "NDArray[Any]"]


class Records:
    """The records of one file, in memory-mapped pages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.extents = record_extents(path)
        with path.open("rb") as file:
            self._content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self.extents.start)

    def features(self, record: int) -> Features:
        """Returns the numbers of one record, unchecked."""
        start = int(self.extents.start[record])
        try:
            return dict(
                number_features(self._content[start : start + int(self.extents.size[record])])
            )
        except ValueError as error:
            raise self.error(record, f"does not parse ({error})") from error

    def checked(self) -> Iterator[tuple[int, Features]]:
        """Yields all records in order, their checksums verified."""
        sizes = iter(tf.data.TFRecordDataset(str(self.path)).map(tf.strings.length))
        for record in range(len(self)):
            try:
                next(sizes)
            except (tf.errors.OpError, StopIteration) as error:
                raise self.error(record, "is damaged: its checksum is wrong") from error
            yield record, self.features(record)

    def error(self, record: int, problem: str) -> DataError:
        """Returns the error that names file and record."""
        return DataError(f"{self.path}, record {record}: {problem}. Copy the file again.")


def headline(info: SourceInfo) -> str:
    """Returns a one-sentence description of a file."""
    cells = "x".join(map(str, info.shape))
    return f"{info.name}: {info.records} showers of {cells} cells, {info.layout}."


def source_info(path: Path, **known: Any) -> SourceInfo:
    """Returns `known` with name, size and modification time of `path`."""
    status = path.stat()
    return SourceInfo(name=str(path), bytes=status.st_size, modified_ns=status.st_mtime_ns, **known)


SAMPLE_SHOWERS = 256


class WholeFileRecords:
    """A file whose records each hold all showers of one HDF5 file."""

    COLUMNS = ("energy", "eta", "mtheta", "sum", "theta")

    def __init__(self, path: Path | str, unit: str = "") -> None:
        self.path = Path(path)
        self._records = Records(self.path)
        shapes = [self._shape(r, self._records.features(r)) for r in range(len(self._records))]
        first = self._records.features(0)
        names = [name for name in self.COLUMNS if name in first]
        self._shower, self._names = shapes[0][1:], names
        sums, energies = [], []
        for record in range(len(self._records)):
            block = self._block(record, self._records.features(record))
            step = -(-len(block) * len(self._records) // SAMPLE_SHOWERS)
            cells = block.ecal[::step]
            check_ecal(cells, f"{path}, record {record}", 0)
            check_axes(cells, f"{path}, record {record}")
            sums.append(cells.sum((1, 2, 3), dtype=np.float64))
            energies.append(block.columns["energy"][::step])
        units = _units(np.concatenate(sums), np.concatenate(energies), path, unit)
        self.info = source_info(
            self.path,
            layout="TFRecord with one record per HDF5 file (ECAL, ecalsize, energy)",
            records=sum(shape[0] for shape in shapes),
            shape=self._shower,
            ecal_per_gev=units.ecal_per_gev,
            ecal_decided=units.decided,
            columns=tuple(ColumnInfo(name=n, dtype="<f4") for n in names),
        )

    def describe(self) -> tuple[str, ...]:
        """Returns layout and unit, as sentences."""
        return (headline(self.info), self.info.ecal_decided)

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers, at most `size` at a time.

        Raises:
            DataError: A record is damaged or lacks a feature.
        """
        for record, features in self._records.checked():
            block = self._block(record, features)
            for start in range(0, len(block), size):
                rows = slice(start, start + size)
                check_ecal(block.ecal[rows], f"{self.path}, record {record}", start)
                columns = {name: column[rows] for name, column in block.columns.items()}
                yield RawShowers(block.ecal[rows], columns)

    def _shape(self, record: int, features: Features) -> tuple[int, int, int, int]:
        size, ecal = features.get("ecalsize"), features.get("ECAL")
        if (
            size is None
            or size.dtype.kind != "i"
            or ecal is None
            or ecal.dtype.kind != "f"
            or "energy" not in features
        ):
            have = ", ".join(sorted(features)) or "nothing"
            raise self._records.error(
                record,
                f"it lacks ECAL (floats), ecalsize (integers) or energy; it has {have}",
            )
        shape = tuple(map(int, size))
        if len(shape) != len("NXYZ") or min(shape) < 1 or math.prod(shape) != ecal.size:
            raise self._records.error(
                record, f"ECAL has {ecal.size} values and ecalsize is {list(shape)}"
            )
        return shape[0], shape[1], shape[2], shape[3]

    def _block(self, record: int, features: Features) -> RawShowers:
        shape = self._shape(record, features)
        if shape[1:] != self._shower:
            raise self._records.error(
                record, f"its showers have {shape[1:]} cells, those of the first {self._shower}"
            )
        columns: Columns = {}
        for name in self._names:
            column = features.get(name, np.zeros(0, np.float32))
            if column.size != shape[0]:
                raise self._records.error(
                    record, f"{name} has {column.size} values for {shape[0]} showers"
                )
            columns[name] = column
        check_columns(columns, f"{self.path}, record {record}")
        return RawShowers(features["ECAL"].reshape(shape), columns)


PUBLISHED_POWER = 0.85

KNOWN_SHAPES = {51 * 51 * 25: (51, 51, 25), 25 * 25 * 25: (25, 25, 25)}

SAMPLE_RECORDS = 256

SUM_TOLERANCE = 0.01

"""How far sum(X) or sum(X ** (1/0.85)) may be from ecal: rounding, and no more."""

ANGLE_TOLERANCE_RAD = 0.01

"""ang is mtheta where it is the angle measured from the image up to this (the median)."""


class _Sample(NamedTuple):
    cells: NDArray[np.float32]  # as stored
    columns: Columns


class PreprocessedFile:
    """A preprocessed file: one record, one shower."""

    def __init__(self, path: Path | str, unit: str = "") -> None:
        self.path = Path(path)
        self._records = Records(self.path)
        self._shape = self._decide_shape()
        spread = np.linspace(0, len(self._records) - 1, SAMPLE_RECORDS)
        sample = self._stack(np.unique(spread.astype(np.int64)).tolist())
        self._power, power_told = self._decide_power(sample)
        ecal = self._unpowered(sample.cells)
        self._angle, angle_told = _decide_angle(ecal, sample.columns)
        check_axes(ecal, str(path))
        units = _units(sample.columns["sum"], sample.columns["energy"], path, unit)
        self._told = (power_told, angle_told)
        names = ["energy", *([self._angle] if self._angle else []), "sum"]
        self.info = source_info(
            self.path,
            layout="preprocessed TFRecord (X, Y, ang, ecal)",
            records=len(self._records),
            shape=self._shape,
            ecal_per_gev=units.ecal_per_gev,
            ecal_decided=units.decided,
            columns=tuple(ColumnInfo(name=n, dtype="<f4") for n in names),
        )

    def describe(self) -> tuple[str, ...]:
        """Returns layout, power, angle and unit, as sentences."""
        return (headline(self.info), self.info.ecal_decided, *self._told)

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers, the power undone.

        Raises:
            DataError: A record is damaged or lacks a feature.
        """
        cells, rows = [], []
        for record, features in self._records.checked():
            image, row = self._row(record, features)
            cells.append(image)
            rows.append(row)
            if len(rows) == size or record == len(self._records) - 1:
                first = record + 1 - len(rows)
                ecal = self._unpowered(np.stack(cells))
                columns = self._columns(rows)
                check_ecal(ecal, str(self.path), first)
                check_columns(columns, str(self.path), first)
                yield RawShowers(ecal, columns)
                cells, rows = [], []

    def _row(
        self, record: int, features: Features
    ) -> tuple[NDArray[np.float32], dict[str, np.float32]]:
        image = self._feature(record, features, "X")
        if image.size != np.prod(self._shape):
            raise self._records.error(
                record, f"X has {image.size} values, the first record {np.prod(self._shape)}"
            )
        row = {}
        for name in ("Y", "ecal", *(["ang"] if "ang" in features else [])):
            value = self._feature(record, features, name)
            if value.size != 1:
                raise self._records.error(record, f"{name} has {value.size} values, expected 1")
            row[name] = np.float32(value[0])
        return image.reshape(self._shape), row

    def _columns(self, rows: list[dict[str, np.float32]]) -> Columns:
        energy = np.array([row["Y"] for row in rows], np.float32) * np.float32(100)
        columns: Columns = {"energy": energy, "sum": np.array([r["ecal"] for r in rows])}
        if self._angle:
            columns[self._angle] = np.array([row.get("ang", np.nan) for row in rows], np.float32)
        return columns

    def _stack(self, records: list[int]) -> _Sample:
        pairs = [self._row(record, self._records.features(record)) for record in records]
        images = np.stack([image for image, _ in pairs])
        path = str(self.path)
        check_ecal(images, path, records[0])
        self._angle = "ang" if all("ang" in row for _, row in pairs) else ""
        columns = self._columns([row for _, row in pairs])
        check_columns(columns, path, records[0])
        return _Sample(images, columns)

    def _decide_shape(self) -> tuple[int, int, int]:
        cells = self._feature(0, self._records.features(0), "X").size
        if cells not in KNOWN_SHAPES:
            known = ", ".join(f"{n} ({'x'.join(map(str, s))})" for n, s in KNOWN_SHAPES.items())
            raise self._records.error(0, f"X has {cells} values; known are {known}")
        return KNOWN_SHAPES[cells]

    def _decide_power(self, sample: _Sample) -> tuple[float, str]:
        ratios = {}
        for power in (1.0, PUBLISHED_POWER):
            sums = (sample.cells.astype(np.float64) ** (1 / power)).sum((1, 2, 3))
            ratios[power] = median_ratio(sums, sample.columns["sum"])
            if abs(ratios[power] - 1) < SUM_TOLERANCE:
                raised = "not raised to a power" if power == 1 else f"raised to {power}"
                return power, f"X is {raised}: the sum with the power reversed equals ecal."
        raise DataError(
            f"{self.path}: ecal is neither the sum of X"
            f" (sum/ecal {ratios[1.0]:.3g}) nor of X raised to 1/{PUBLISHED_POWER}"
            f" ({ratios[PUBLISHED_POWER]:.3g}); preprocess the file again"
        )

    def _unpowered(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._power == 1:
            return images
        return (images.astype(np.float64) ** (1 / self._power)).astype(np.float32)

    def _feature(self, record: int, features: Features, name: str) -> NDArray[Any]:
        if name not in features or features[name].dtype.kind != "f":
            have = ", ".join(sorted(features)) or "nothing"
            raise self._records.error(record, f"it has no floats {name}; it has {have}")
        return features[name]


def open_tfrecord(
    path: Path | str, features: set[str], unit: str = ""
) -> PreprocessedFile | WholeFileRecords:
    """Opens a published TFRecord file whose first record has `features`; `unit` is that of ECAL.

    Raises:
        DataError: The layout is unknown.
    """
    if {"X", "Y"} <= features:
        return PreprocessedFile(path, unit)
    if "ECAL" in features:
        return WholeFileRecords(path, unit)
    raise DataError(
        f"{path} is a TFRecord file with an unknown layout: its first record has"
        f" {', '.join(sorted(features)) or 'no features'}; known are X, Y, ang, ecal (preprocessed)"
        " and ECAL, ecalsize, energy, ... (one record per file)"
    )


def _units(sums: NDArray[Any], energies: NDArray[Any], path: Path | str, unit: str) -> Units:
    """The authors' code writes deposits, and energies in GeV."""
    ratio = median_ratio(sums, energies)
    return decide_units(ratio, energies, str(path), asked=unit, is_authors=True, has_deposits=True)


def _decide_angle(ecal: NDArray[np.float32], columns: Columns) -> tuple[str, str]:
    if "ang" not in columns:
        return "", "It has no angle: the angle is measured from the images."
    difference = float(np.median(np.abs(columns["ang"] - measured_angle(ecal))))
    if difference <= ANGLE_TOLERANCE_RAD:
        return "mtheta", f"ang is mtheta: the images give the same up to {difference:.1g} rad."
    return "theta", (
        f"ang is theta: the angle measured from the images differs by {difference:.2g} rad."
    )
