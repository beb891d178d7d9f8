"""Readers of the published 3DGAN TFRecord files, with TensorFlow's parser.

Two layouts of the authors' code (arXiv:2111.04628): one preprocessed shower per record (X, Y, ang, ecal), and
one record per HDF5 file (ECAL, ecalsize, energy, eta, mtheta, sum, theta), of which their reader kept the last.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.manifest import ColumnInfo, SourceInfo
from cloudgan.data.showers import measured_angle
from cloudgan.data.tfrecord import record_extents
from cloudgan.data.units import (
    Columns,
    RawFile,
    RawShowers,
    check_axes,
    check_columns,
    check_ecal,
    check_one_unit,
    decide_units,
    median_ratio,
)

Features = dict[str, NDArray[Any]]

SAMPLE_SHOWERS = 256
PUBLISHED_POWER = 0.85
KNOWN_SHAPES = {51 * 51 * 25: (51, 51, 25), 25 * 25 * 25: (25, 25, 25)}
SUM_TOLERANCE = 0.01
"""How far sum(X) or sum(X ** (1/0.85)) may be from ecal: rounding, and no more."""
ANGLE_TOLERANCE_RAD = 0.01
"""ang is mtheta where it is the angle measured from the image up to this (the median)."""
_COLUMNS = ("energy", "eta", "mtheta", "sum", "theta")
_KINDS = {"float_list": tf.float32, "int64_list": tf.int64}


def open_tfrecord(path: Path, unit: str = "") -> RawFile:
    """Opens and checks a published TFRecord file."""
    file = _Tfrecord(path, unit)
    return RawFile(path, file.info, file.raw_blocks, file.decided)


class _Tfrecord:
    """The records of a file; `decided` says how power and angle were decided."""

    def __init__(self, path: Path, unit: str) -> None:
        self.path = path
        self._extents = record_extents(self.path)
        with self.path.open("rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = self._features(0)
        self._is_preprocessed = {"X", "Y"} <= set(first)
        if self._is_preprocessed:
            known = self._open_preprocessed(first, unit)
        elif "ECAL" in first:
            known = self._open_whole(first, unit)
        else:
            raise DataError(
                f"{path} is a TFRecord file with an unknown layout: its first record has"
                f" {', '.join(sorted(first)) or 'no features'}; known are X, Y, ang, ecal (preprocessed)"
                " and ECAL, ecalsize, energy, ... (one record per file)"
            )
        status = self.path.stat()
        self.info = SourceInfo(
            name=str(self.path), bytes=status.st_size, modified_ns=status.st_mtime_ns, **known
        )

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers, a power undone, at most `size` at a time."""
        if self._is_preprocessed:
            waiting: list[int] = []
            for record in self._checked():
                waiting.append(record)
                if len(waiting) == size or record == len(self._extents) - 1:
                    block = self._stack(waiting)
                    yield RawShowers(self._unpowered(block.ecal), block.columns)
                    waiting = []
            return
        for record in self._checked():
            block = self._block(record)
            for start in range(0, len(block), size):
                rows = slice(start, start + size)
                check_ecal(block.ecal[rows], f"{self.path}, record {record}", start)
                columns = {name: column[rows] for name, column in block.columns.items()}
                yield RawShowers(block.ecal[rows], columns)

    def _checked(self) -> Iterator[int]:
        """Yields the numbers of all records in order, their checksums verified by TensorFlow."""
        sizes = iter(tf.data.TFRecordDataset(str(self.path)).map(tf.strings.length))
        for record in range(len(self._extents)):
            try:
                next(sizes)
            except (tf.errors.OpError, StopIteration) as error:
                raise self._error(record, "is damaged: its checksum is wrong") from error
            yield record

    def _features(self, record: int) -> Features:
        """Returns the numbers of one record, its checksum not verified."""
        content = self._content[self._extents[record]]
        try:
            held = tf.train.Example.FromString(content).features.feature
            kinds = {name: _KINDS.get(one.WhichOneof("kind")) for name, one in held.items()}
            spec = {
                name: tf.io.FixedLenSequenceFeature([], kind, allow_missing=True)
                for name, kind in kinds.items()
                if kind is not None
            }
            parsed = tf.io.parse_single_example(content, spec) if spec else {}
        except Exception as error:  # protobuf's DecodeError is no public class
            raise self._error(record, f"does not parse ({error})") from error
        return {name: value.numpy() for name, value in parsed.items()}

    def _error(self, record: int, problem: str) -> DataError:
        return DataError(f"{self.path}, record {record}: {problem}. Copy the file again.")

    # One record per HDF5 file

    def _open_whole(self, first: Features, unit: str) -> dict[str, Any]:
        self._names = [name for name in _COLUMNS if name in first]
        self._shape: tuple[int, int, int] | None = None
        sums, energies, count = [], [], 0
        for record in range(len(self._extents)):
            block = self._block(record)
            step = -(-len(block) * len(self._extents) // SAMPLE_SHOWERS)
            cells = block.ecal[::step]
            check_ecal(cells, f"{self.path}, record {record}", 0)
            check_axes(cells, f"{self.path}, record {record}")
            sums.append(cells.sum((1, 2, 3), dtype=np.float64))
            energies.append(block.columns["energy"][::step])
            count += len(block)
        self.decided: tuple[str, ...] = ()
        return {
            "layout": "TFRecord with one record per HDF5 file (ECAL, ecalsize, energy)",
            "records": count,
            "shape": self._shape,
            "columns": tuple(ColumnInfo(name=name, dtype="<f4") for name in self._names),
        } | self._units(np.concatenate(sums), np.concatenate(energies), unit)

    def _block(self, record: int) -> RawShowers:
        features = self._features(record)
        size, ecal = features.get("ecalsize"), features.get("ECAL")
        if (
            size is None
            or size.dtype.kind != "i"
            or ecal is None
            or ecal.dtype.kind != "f"
            or "energy" not in features
        ):
            have = ", ".join(sorted(features)) or "nothing"
            raise self._error(
                record, f"it lacks ECAL (floats), ecalsize (integers) or energy; it has {have}"
            )
        shape = tuple(map(int, size))
        if len(shape) != len("NXYZ") or min(shape) < 1 or math.prod(shape) != ecal.size:
            raise self._error(record, f"ECAL has {ecal.size} values and ecalsize is {list(shape)}")
        self._shape = self._shape or (shape[1], shape[2], shape[3])
        if shape[1:] != self._shape:
            raise self._error(
                record, f"its showers have {shape[1:]} cells, those of the first {self._shape}"
            )
        columns: Columns = {}
        for name in self._names:
            columns[name] = features.get(name, np.zeros(0, np.float32))
            if (have_size := columns[name].size) != shape[0]:
                raise self._error(record, f"{name} has {have_size} values for {shape[0]} showers")
        check_columns(columns, f"{self.path}, record {record}")
        return RawShowers(ecal.reshape(shape), columns)

    # One preprocessed shower per record

    def _open_preprocessed(self, first: Features, unit: str) -> dict[str, Any]:
        cells = self._floats(0, first, "X").size
        if cells not in KNOWN_SHAPES:
            known = ", ".join(f"{n} ({'x'.join(map(str, s))})" for n, s in KNOWN_SHAPES.items())
            raise self._error(0, f"X has {cells} values; known are {known}")
        self._shape, self._angle = KNOWN_SHAPES[cells], "ang"
        spread = np.linspace(0, len(self._extents) - 1, SAMPLE_SHOWERS)
        sample = self._stack(np.unique(spread.astype(np.int64)).tolist())
        ratios = {}
        for power in (1.0, PUBLISHED_POWER):
            sums = (sample.ecal.astype(np.float64) ** (1 / power)).sum((1, 2, 3))
            ratios[power] = median_ratio(sums, sample.columns["sum"])
            if abs(ratios[power] - 1) < SUM_TOLERANCE:
                break
        else:
            raise DataError(
                f"{self.path}: ecal is neither the sum of X"
                f" (sum/ecal {ratios[1.0]:.3g}) nor of X raised to 1/{PUBLISHED_POWER}"
                f" ({ratios[PUBLISHED_POWER]:.3g}); preprocess the file again"
            )
        self._power = power
        raised = "not raised to a power" if power == 1 else f"raised to {power}"
        ecal = self._unpowered(sample.ecal)
        if "ang" in sample.columns:
            difference = float(np.median(np.abs(sample.columns["ang"] - measured_angle(ecal))))
            is_measured = difference <= ANGLE_TOLERANCE_RAD
            self._angle = "mtheta" if is_measured else "theta"
            angle = (
                f"ang is mtheta: the images give the same up to {difference:.1g} rad."
                if is_measured
                else f"ang is theta: the angle measured from the images differs by {difference:.2g} rad."
            )
        else:
            self._angle = ""
            angle = "It has no angle: the angle is measured from the images."
        self.decided = (f"X is {raised}: the sum with the power reversed equals ecal.", angle)
        check_axes(ecal, str(self.path))
        names = ["energy", *([self._angle] if self._angle else []), "sum"]
        return {
            "layout": "preprocessed TFRecord (X, Y, ang, ecal)",
            "records": len(self._extents),
            "shape": self._shape,
            "columns": tuple(ColumnInfo(name=name, dtype="<f4") for name in names),
        } | self._units(sample.columns["sum"], sample.columns["energy"], unit)

    def _stack(self, records: list[int]) -> RawShowers:
        """Returns the showers of `records` as stored, with the columns energy, sum and, if present, ang."""
        images, rows = [], []
        for record in records:
            features = self._features(record)
            image = self._floats(record, features, "X")
            if image.size != math.prod(self._shape or ()):
                expected = math.prod(self._shape or ())
                raise self._error(record, f"X has {image.size} values, the first record {expected}")
            images.append(image.reshape(self._shape))
            row = {}
            for name in ("Y", "ecal", *(["ang"] if "ang" in features else [])):
                value = self._floats(record, features, name)
                if value.size != 1:
                    raise self._error(record, f"{name} has {value.size} values, expected 1")
                row[name] = value[0]
            rows.append(row)
        ecal = np.stack(images)
        columns: Columns = {
            "energy": np.array([row["Y"] for row in rows], np.float32) * np.float32(100),
            "sum": np.array([row["ecal"] for row in rows], np.float32),
        }
        if self._angle and any("ang" in row for row in rows):
            columns[self._angle] = np.array([row.get("ang", np.nan) for row in rows], np.float32)
        check_ecal(ecal, str(self.path), records[0])
        check_columns(columns, str(self.path), records[0])
        return RawShowers(ecal, columns)

    def _unpowered(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._power == 1:
            return images
        return (images.astype(np.float64) ** (1 / self._power)).astype(np.float32)

    def _floats(self, record: int, features: Features, name: str) -> NDArray[np.float32]:
        if name not in features or features[name].dtype.kind != "f":
            have = ", ".join(sorted(features)) or "nothing"
            raise self._error(record, f"it has no floats {name}; it has {have}")
        return features[name]

    def _units(self, sums: NDArray[Any], energies: NDArray[Any], unit: str) -> dict[str, Any]:
        """The authors' code writes deposits, and energies in GeV."""
        check_one_unit(sums, energies, str(self.path))
        units = decide_units(
            median_ratio(sums, energies),
            energies,
            str(self.path),
            asked=unit,
            is_authors=True,
            has_deposits=True,
        )
        return {"ecal_per_gev": units.ecal_per_gev, "ecal_decided": units.decided}
