"""Reads TFRecord files whose records each hold a whole HDF5 file of showers.

ECAL, ecalsize (its shape), energy, eta, mtheta, sum and theta, lists of numbers: the unpreprocessed
layout of the authors' converter (arXiv:2111.04628). Their reader kept the last record; we read all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.data.ecal_unit import decide_unit
from cloudgan.data.manifest import ColumnInfo
from cloudgan.data.raw_showers import Columns, RawShowers, check_columns, check_ecal, median_ratio
from cloudgan.data.tfrecord_records import Features, Records, headline, source_info

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE_SHOWERS = 256


class WholeFileRecords:
    """A file whose records each hold all showers of one HDF5 file."""

    COLUMNS = ("energy", "eta", "mtheta", "sum", "theta")

    def __init__(self, path: Path | str) -> None:
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
            sums.append(cells.sum((1, 2, 3), dtype=np.float64))
            energies.append(block.columns["energy"][::step])
        ratio = median_ratio(np.concatenate(sums), np.concatenate(energies))
        unit = decide_unit(ratio, str(path))
        self.info = source_info(
            self.path,
            layout="TFRecord with one record per HDF5 file (ECAL, ecalsize, energy)",
            records=sum(shape[0] for shape in shapes),
            shape=self._shower,
            ecal_per_gev=unit.per_gev,
            ecal_decided=unit.decided,
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
        if size is None or ecal is None or ecal.dtype.kind != "f" or "energy" not in features:
            have = ", ".join(sorted(features)) or "nothing"
            raise self._records.error(
                record, f"it lacks ECAL (floats), ecalsize or energy; it has {have}"
            )
        shape = tuple(map(int, size))
        if len(shape) != len("NXYZ") or min(shape) < 1 or np.prod(shape) != ecal.size:
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
