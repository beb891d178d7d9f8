"""Reads the two published TFRecord layouts of 3DGAN. Needs TensorFlow, to check the checksums.

Preprocessed, one record = one shower: X (cells, raised to 0.85 or not), Y (energy/100), ang (rad), ecal
(sum of the cells before the power), each a list of floats; see `tfrecord_whole` for the other one.
Neither is described anywhere but in the authors' readers (`GetDataAngleParallel`, arXiv:2111.04628).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.data.ecal_unit import decide_unit
from cloudgan.data.manifest import ColumnInfo
from cloudgan.data.raw_showers import Columns, RawShowers, check_columns, check_ecal, median_ratio
from cloudgan.data.showers import measured_angle
from cloudgan.data.tfrecord_records import Features, Records, headline, source_info
from cloudgan.data.tfrecord_whole import WholeFileRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._records = Records(self.path)
        self._shape = self._decide_shape()
        spread = np.linspace(0, len(self._records) - 1, SAMPLE_RECORDS)
        sample = self._stack(np.unique(spread.astype(np.int64)).tolist())
        self._power, power_told = self._decide_power(sample)
        ecal = self._unpowered(sample.cells)
        self._angle, angle_told = _decide_angle(ecal, sample.columns)
        ratio = median_ratio(sample.columns["sum"], sample.columns["energy"])
        unit = decide_unit(ratio, str(path))
        self._told = (power_told, angle_told)
        names = ["energy", *([self._angle] if self._angle else []), "sum"]
        self.info = source_info(
            self.path,
            layout="preprocessed TFRecord (X, Y, ang, ecal)",
            records=len(self._records),
            shape=self._shape,
            ecal_per_gev=unit.per_gev,
            ecal_decided=unit.decided,
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
                return power, f"X is {raised}: its sum, the power undone, is ecal."
        raise DataError(
            f"{self.path}: ecal is the sum of X neither as it stands"
            f" (sum/ecal {ratios[1.0]:.3g}) nor raised to 1/{PUBLISHED_POWER}"
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


def open_tfrecord(path: Path | str, features: set[str]) -> PreprocessedFile | WholeFileRecords:
    """Opens a published TFRecord file whose first record has `features`.

    Raises:
        DataError: The features are of no layout we know.
    """
    if {"X", "Y"} <= features:
        return PreprocessedFile(path)
    if "ECAL" in features:
        return WholeFileRecords(path)
    raise DataError(
        f"{path} is a TFRecord of no layout we know: its first record has"
        f" {', '.join(sorted(features)) or 'no features'}; known are X, Y, ang, ecal (preprocessed)"
        " and ECAL, ecalsize, energy, ... (one record per file)"
    )


def _decide_angle(ecal: NDArray[np.float32], columns: Columns) -> tuple[str, str]:
    if "ang" not in columns:
        return "", "It has no angle: the angle is measured from the images."
    difference = float(np.median(np.abs(columns["ang"] - measured_angle(ecal))))
    if difference <= ANGLE_TOLERANCE_RAD:
        return "mtheta", f"ang is mtheta: the images give the same up to {difference:.1g} rad."
    return "theta", (
        f"ang is theta: the angle measured from the images differs by {difference:.2g} rad."
    )
