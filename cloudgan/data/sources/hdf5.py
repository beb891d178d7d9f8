"""Reads showers from HDF5 files in the public 3DGAN layout.

Variable angle (Ele_VarAngleMeas_*.h5, arXiv:2111.04628): ECAL [N, X, Y, Z], energy [N] in GeV, and
theta, mtheta, eta, sum, bins, each of which may miss. Fixed angle (its predecessor): ECAL
[N, 25, 25, 25] and target [N, 5] or [N, 1, 5], whose column 1 is the energy. Any further dataset with one value per
shower travels along.
"""

from __future__ import annotations

import importlib
import math
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from pydantic import ValidationError

from cloudgan.core.errors import DataError
from cloudgan.data.shards.manifest import (
    MAX_CELLS,
    ArrayValue,
    Attribute,
    Attributes,
    ColumnInfo,
    SourceInfo,
)
from cloudgan.data.sources.hdf5_writer import GENERATED, write_hdf5
from cloudgan.data.sources.raw_showers import (
    DECLARED,
    KNOWN_UNITS,
    Columns,
    RawShowers,
    Units,
    check_axes,
    check_columns,
    check_ecal,
    decide_units,
    declared_unit,
    energies_gev,
    median_ratio,
    unit_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cloudgan.data.showers import Showers

__all__ = ["Hdf5File", "write_hdf5"]

LAYOUT = "HDF5 in the public 3DGAN layout"
FIXED_LAYOUT = "HDF5 in the fixed-angle 3DGAN layout"
PER_EVENT = ("energy", "target", "theta", "mtheta", "eta", "sum", "bins")
PDG_COLUMNS = {"pdgid", "pdg_id", "pdg"}
PDG_NUMBERS = {11, -11, 13, -13, 22, 111, 130, 211, -211, 2112, 2212}
"""Of particles that are shot at calorimeters: column 0 of target holds them in the LCD files."""
FLOAT_BYTES = (2, 4, 8)
SAMPLE_PLACES, SAMPLE_EVENTS = 8, 32
"""The unit is decided on eight runs of 32 neighbouring events, spread over the file."""


class Hdf5File:
    """One HDF5 file of showers, checked when opened and read in blocks."""

    def __init__(self, path: Path | str, unit: str = "") -> None:
        self.path = Path(path)
        with _opened(self.path) as file:
            ecal = _ecal(file, self.path)
            columns, self._left_out = _columns(file, self.path, len(ecal))
            self._energy = "energy" if "energy" in columns else "target"
            stated = unit_attribute(file[self._energy].attrs, f"{self.path}: {self._energy}")
            values = {c: file[c][:] for c in columns}
            check_columns(values, str(self.path), energy_per_gev=KNOWN_UNITS[stated or "GeV"])
            pdg_id = _pdg_id(values, str(self.path))
            units = self._units(ecal, file, energies_gev(values), stated, unit)
            status = self.path.stat()
            self.info = SourceInfo(
                name=str(self.path),
                layout=LAYOUT if "energy" in columns else FIXED_LAYOUT,
                bytes=status.st_size,
                modified_ns=status.st_mtime_ns,
                records=len(ecal),
                shape=ecal.shape[1:],
                ecal_dtype=ecal.dtype.str,
                ecal_per_gev=units.ecal_per_gev,
                energy_per_gev=units.energy_per_gev,
                ecal_decided=units.decided,
                pdg_id=pdg_id,
                columns=tuple(
                    ColumnInfo(name=c, dtype=file[c].dtype.str, shape=file[c].shape[1:])
                    for c in columns
                ),
                attributes=_attributes(file, ["", "ECAL", *columns]),
            )

    def describe(self) -> tuple[str, ...]:
        """Returns layout, unit and what was missing, as sentences."""
        info = self.info
        cells = "x".join(map(str, info.shape))
        lines = [
            f"{self.path}: {info.records} showers of {cells} cells, {info.layout}.",
            *info.describe(),
        ]
        names = {column.name for column in info.columns}
        if "mtheta" not in names:
            lines.append("It has no mtheta: the angle is measured from the images.")
        if "energy" not in names:
            lines.append("It has a fixed angle: theta is 90 degrees.")
        elif "theta" not in names:
            lines.append("It has no theta: the true angle of its showers is unknown.")
        if self._left_out:
            lines.append(f"Not one value per shower, left out: {', '.join(self._left_out)}.")
        return tuple(lines)

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers as the file holds them, at most `size` at a time.

        Raises:
            DataError: An event cannot be read or holds NaN, infinite or negative cells.
        """
        with _opened(self.path) as file:
            for first in range(0, self.info.records, size):
                rows = slice(first, min(first + size, self.info.records))
                ecal = self._read(file["ECAL"], rows)
                check_ecal(ecal, str(self.path), first)
                columns = {c.name: self._read(file[c.name], rows) for c in self.info.columns}
                yield RawShowers(ecal, columns)

    def blocks(self, size: int) -> Iterator[Showers]:
        """Yields all showers in GeV, at most `size` at a time."""
        for block in self.raw_blocks(size):
            yield block.to_showers(self.info)

    def _read(self, dataset: h5py.Dataset, rows: slice) -> NDArray[Any]:
        try:
            return np.asarray(dataset[rows])
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{self.path}, event {_first_unreadable(dataset, rows)}: {dataset.name[1:]} cannot"
                f" be read, the file is damaged: {error}. Copy it again from where it came."
            ) from error

    def _units(
        self,
        ecal: h5py.Dataset,
        file: h5py.File,
        energies: NDArray[np.float32],
        stated: str,
        asked: str,
    ) -> Units:
        """Decides the units, and checks the axes unless cloudgan wrote the file."""
        count = len(ecal)
        starts = np.unique(np.linspace(0, max(0, count - SAMPLE_EVENTS), SAMPLE_PLACES, dtype=int))
        is_ours = DECLARED in ecal.attrs
        sums, used = [], []
        for start in starts:
            rows = slice(start, min(start + SAMPLE_EVENTS, count))
            cells = self._read(ecal, rows)
            check_ecal(cells, str(self.path), int(start))
            sums.append(cells.sum((1, 2, 3), dtype=np.float64))
            used.append(energies[rows])
            if not is_ours:
                check_axes(cells, str(self.path))
        ratio = median_ratio(np.concatenate(sums), np.concatenate(used))
        if is_ours:
            is_generated = str(file.attrs.get("source", "")).startswith(GENERATED)
            return declared_unit(
                ecal.attrs[DECLARED], ratio, str(self.path), is_generated=is_generated
            )
        is_public = "mtheta" in file  # which only the authors' files have
        return decide_units(
            ratio,
            energies,
            str(self.path),
            ecal=unit_attribute(ecal.attrs, f"{self.path}: ECAL"),
            energy=stated,
            asked=asked,
            is_authors=is_public or self._energy == "target",
            has_deposits=is_public,
        )


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        size = path.stat().st_size
        if size == 0:
            raise DataError(f"{path} is empty (0 bytes)")
        if not path.is_file() or not h5py.is_hdf5(path):
            raise DataError(f"{path} is not an HDF5 file")
        file = h5py.File(path, "r")
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except OSError as error:
        cut = "truncated file" in str(error)
        raise DataError(
            f"{path} {'is truncated: copy it again' if cut else 'cannot be opened'} ({error})"
        ) from error
    with file:
        try:
            yield file
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, OverflowError) as error:
            # What h5py and NumPy raise for damage, and for types that NumPy does not have.
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise DataError(
                f"{path} is damaged or holds a type that cannot be read ({' '.join(what.split())}):"
                " copy it again"
            ) from error


def _item(file: h5py.File, name: str, path: Path) -> Any:
    """Returns a dataset or group of the file; None: the link leads nowhere.

    Raises:
        DataError: Its values are in another file, which may change or miss without notice.
    """
    link, item = file.get(name, getlink=True), None
    is_elsewhere = isinstance(link, h5py.ExternalLink)
    if not is_elsewhere:
        item = file.get(name)
        if isinstance(item, h5py.Dataset):
            is_elsewhere = item.is_virtual or bool(item.external)
            _check_filters(item, name, path)
    if is_elsewhere:
        raise DataError(
            f"{path}: {name} is in another file (external link, external storage or virtual dataset);"
            " copy it into one file, as with h5copy"
        )
    return item


def _check_filters(dataset: h5py.Dataset, name: str, path: Path) -> None:
    """Checks that the compression of a dataset can be read.

    Importing hdf5plugin registers its filters (doc/usage.rst of
    https://github.com/silx-kit/hdf5plugin, read 2026-11-25).

    Raises:
        DataError: A filter is missing.
    """
    plist = dataset.id.get_create_plist()
    for number, _, _, label in (plist.get_filter(i) for i in range(plist.get_nfilters())):
        if not h5py.h5z.filter_avail(number):
            with suppress(ImportError):
                importlib.import_module("hdf5plugin")
        if not h5py.h5z.filter_avail(number):
            called = f" ({label.decode(errors='replace')})" if label else ""
            raise DataError(
                f"{path}: {name} is compressed with the HDF5 filter {number}{called}, which is not installed:"
                " run `pip install hdf5plugin`, or write the file again with gzip"
            )


def _ecal(file: h5py.File, path: Path) -> h5py.Dataset:
    have = ", ".join(sorted(file)) or "nothing"
    ecal = _item(file, "ECAL", path) if "ECAL" in file.keys() else None  # noqa: SIM118 - of links
    if not isinstance(ecal, h5py.Dataset):
        raise DataError(
            f"{path} has no dataset ECAL [N, X, Y, Z]; it has {have}. Needed are ECAL, with the depth last, and"
            " energy [N]; convert the file to this layout first (docs/train.md)"
        )
    shape, dtype = ecal.shape or (), ecal.dtype
    is_float = dtype.kind == "f" and dtype.itemsize in FLOAT_BYTES
    if len(shape) != len("NXYZ") or 0 in shape[1:] or not is_float:
        raise DataError(
            f"{path}: ECAL is {dtype} {list(shape)}; expected floats [N, X, Y, Z] of 2, 4 or 8"
            " bytes, as [N, 51, 51, 25]"
        )
    if math.prod(shape[1:]) > MAX_CELLS:
        raise DataError(f"{path}: ECAL is {list(shape)}; a shower has at most {MAX_CELLS} cells")
    if len(ecal) == 0:
        raise DataError(f"{path} holds no showers: ECAL is {list(shape)}")
    if "energy" not in file and "target" not in file:
        raise DataError(
            f"{path} has no dataset energy [N] (or target [N, 5], fixed angle); it has {have}"
        )
    return ecal


def _columns(file: h5py.File, path: Path, count: int) -> tuple[list[str], list[str]]:
    """Returns the datasets with one value per shower, and the names of what is none."""
    kept, left_out = [], []
    for name in sorted(set(file) - {"ECAL"}):
        item = _item(file, name, path)
        if _is_per_event(item, count):
            kept.append(name)
        elif name in PER_EVENT:
            shape = list(item.shape or ()) if isinstance(item, h5py.Dataset) else "no dataset"
            raise DataError(
                f"{path}: {name} is {shape} and ECAL holds {count} events;"
                f" expected numbers [{count}]: the file is incomplete"
            )
        else:
            left_out.append(name)
    for name in ("energy", "theta", "mtheta"):
        if name in kept and file[name].size != count:
            raise DataError(f"{path}: {name} is {list(file[name].shape)}; expected [{count}]")
    if "energy" not in kept:
        *between, columns = file["target"].shape[1:] or (1,)
        if columns < len(("pdg", "energy")) or math.prod(between) != 1:
            raise DataError(
                f"{path}: target is {list(file['target'].shape)}; expected [{count}, 2],"
                f" [{count}, 5] or [{count}, 1, 5], the energy in column 1"
            )
    return kept, left_out


def _pdg_id(columns: Columns, path: str) -> int | None:
    """Returns the PDG number of the primary particle; None: the file states none.

    Raises:
        DataError: The showers are of several particles.
    """
    for name, values in columns.items():
        numbers = values.reshape(len(values), -1)[:, 0]
        found, counts = np.unique(numbers, return_counts=True)
        if name.lower() in PDG_COLUMNS or (name == "target" and set(found) <= PDG_NUMBERS):
            if len(found) > 1:
                raise DataError(
                    f"{path}: {name} names {len(found)} primary particles, such as {found[0]:g} ({counts[0]}"
                    f" showers) and {found[1]:g} ({counts[1]}); the networks have no input for the particle:"
                    " write a file with the showers of one particle"
                )
            return int(found[0])
    return None


def _is_per_event(item: Any, count: int) -> bool:
    """Whether `item` is a dataset of numbers with a value for each of `count` events."""
    if not isinstance(item, h5py.Dataset) or not item.shape:
        return False
    return item.shape[0] == count and 0 not in item.shape and item.dtype.kind in "fiub"


def _first_unreadable(dataset: h5py.Dataset, rows: slice) -> int:
    for row in range(rows.start, rows.stop):
        try:
            dataset[row]
        except (OSError, RuntimeError):
            return row
    return int(rows.start)


def _attributes(file: h5py.File, names: list[str]) -> Attributes:
    found: Attributes = {}
    for name in names:
        attributes = (file[name] if name else file).attrs
        values = {str(key): _kept(attributes, key) for key in attributes}
        if kept := {key: value for key, value in values.items() if value is not None}:
            found[name] = kept
    return found


def _kept(attributes: h5py.AttributeManager, key: str) -> Attribute | None:
    """Returns an attribute as the manifest keeps it; None for references and other types."""
    try:
        value = attributes[key]
    except (TypeError, ValueError, OSError):  # a type without an equivalent in NumPy, or no UTF-8
        return None
    if isinstance(value, str):
        return value if _is_text(value) else None
    array = np.asarray(value)
    if array.dtype.kind == "O" and array.ndim == 1 and all(map(_is_text, array)):
        return tuple(array)
    is_kept = array.dtype.kind in "fiubS" and array.dtype.itemsize > 0
    return ArrayValue.of(array) if is_kept else None


def _is_text(value: Any) -> bool:
    """Whether `value` is a string of Unicode characters; h5py reads other bytes as surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
