"""Reads showers from HDF5 files in the public 3DGAN layouts, and in those of `cloudgan.data.layouts`.

Variable angle (Ele_VarAngleMeas_*.h5, arXiv:2111.04628): ECAL [N, X, Y, Z], energy [N] in GeV, and
theta, mtheta, eta, sum, bins, each of which may miss. Fixed angle (its predecessor): ECAL
[N, 25, 25, 25] and target [N, 5] or [N, 1, 5], whose column 1 is the energy. Any further dataset with one value per
shower travels along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.geometry import image_shape, to_images
from cloudgan.data.hdf5_items import attributes_of, first_unreadable, item_of, names_in, opened
from cloudgan.data.hdf5_writer import GENERATED
from cloudgan.data.layouts import INIT_COMMAND, LAYOUTS, Layout, read_layouts
from cloudgan.data.manifest import (
    MAX_CELLS,
    ColumnInfo,
    SourceInfo,
)
from cloudgan.data.showers import Showers
from cloudgan.data.units import (
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

LAYOUT = "HDF5 in the public 3DGAN layout"
FIXED_LAYOUT = "HDF5 in the fixed-angle 3DGAN layout"
PER_EVENT = ("energy", "target", "theta", "mtheta", "eta", "sum", "bins")
PDG_COLUMNS = {"pdgid", "pdg_id", "pdg"}
PDG_NUMBERS = {11, -11, 13, -13, 22, 111, 130, 211, -211, 2112, 2212}
"""Of particles that are shot at calorimeters: column 0 of target holds them in the LCD files."""
FLOAT_BYTES = (2, 4, 8)
DECADES = 30.0
"""Factor between energies from which the networks get their logarithm."""
SAMPLE_PLACES, SAMPLE_EVENTS = 8, 32
"""The unit is decided on eight runs of 32 neighbouring events, spread over the file."""


class Hdf5File:
    """One HDF5 file of showers, checked when opened and read in blocks."""

    def __init__(self, path: Path | str, unit: str = "", binning: str = "") -> None:
        self.path = Path(path)
        with opened(self.path) as file:
            layout = _layout(file, self.path, binning)
            if layout:
                cells, shape = _layout_cells(file, self.path, layout)
            else:
                cells = [_ecal(file, self.path)]
                shape = cells[0].shape[1:]
            keys, self._left_out = _columns(file, self.path, len(cells[0]), layout)
            energy = file[keys.get("energy", "target")]
            values = {column: file[key][:] for column, key in keys.items()}
            stated = [
                unit_attribute(one.attrs, f"{self.path}: {one.name[1:]}")
                for one in (energy, cells[0])
            ]
            if layout:
                layout = _in_stated_units(layout, stated, unit, str(self.path))
                low, high = values["energy"].min(), values["energy"].max()
                found = {
                    "energy_shape": energy.shape[1:],
                    "spans_decades": bool(high > DECADES * low),
                }
                layout = layout.model_copy(update=found)
            of_energy = layout.unit.energy if layout else stated[0]
            check_columns(values, str(self.path), energy_per_gev=KNOWN_UNITS[of_energy or "GeV"])
            pdg_id = _pdg_id(values, str(self.path))
            status = self.path.stat()
            self._keys = keys
            public = LAYOUT if "energy" in keys else FIXED_LAYOUT
            self._layout = layout
            units = self._units(file, cells, energies_gev(values), stated, unit)
            self.info = SourceInfo(
                name=str(self.path),
                layout=f"HDF5 in the layout of {layout.name}" if layout else public,
                bytes=status.st_size,
                modified_ns=status.st_mtime_ns,
                records=len(cells[0]),
                shape=shape,
                ecal_dtype=cells[0].dtype.str,
                ecal_per_gev=units.ecal_per_gev,
                energy_per_gev=units.energy_per_gev,
                ecal_decided=units.decided,
                pdg_id=pdg_id,
                dataset=layout,
                columns=tuple(
                    ColumnInfo(name=column, dtype=file[key].dtype.str, shape=file[key].shape[1:])
                    for column, key in keys.items()
                ),
                attributes=attributes_of(
                    file, ["", *(one.name[1:] for one in cells), *keys.values()]
                ),
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
        if info.dataset:
            pass  # its own sentences say what it lacks
        elif "mtheta" not in names:
            lines.append("It has no mtheta: the angle is measured from the images.")
        if not info.dataset and "energy" not in names:
            lines.append("It has a fixed angle: theta is 90 degrees.")
        elif not info.dataset and "theta" not in names:
            lines.append("It has no theta: the true angle of its showers is unknown.")
        if self._left_out:
            lines.append(f"Not one value per shower, left out: {', '.join(self._left_out)}.")
        return tuple(lines)

    def raw_blocks(self, size: int) -> Iterator[RawShowers]:
        """Yields all showers as the file holds them, at most `size` at a time."""
        with opened(self.path) as file:
            for first in range(0, self.info.records, size):
                rows = slice(first, min(first + size, self.info.records))
                columns = {c: self._read(file[key], rows) for c, key in self._keys.items()}
                yield RawShowers(self._images(file, rows), columns)

    def blocks(self, size: int) -> Iterator[Showers]:
        """Yields all showers in GeV, at most `size` at a time."""
        for block in self.raw_blocks(size):
            yield block.to_showers(self.info)

    def _images(self, file: h5py.File, rows: slice) -> NDArray[Any]:
        """Returns showers as images in the unit of the file."""
        layout = self._layout
        cells = [self._read(file[key], rows) for key in (layout.keys.cells if layout else ["ECAL"])]
        images = to_images(layout, cells) if layout else cells[0]
        check_ecal(images, str(self.path), rows.start)
        return images

    def _read(self, dataset: h5py.Dataset, rows: slice) -> NDArray[Any]:
        try:
            return np.asarray(dataset[rows])
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{self.path}, event {first_unreadable(dataset, rows)}: {dataset.name[1:]} cannot"
                f" be read, the file is damaged: {error}. Copy it again from where it came."
            ) from error

    def _units(
        self,
        file: h5py.File,
        cells: list[h5py.Dataset],
        energies: NDArray[np.float32],
        stated: list[str],
        asked: str,
    ) -> Units:
        """Decides the units, and checks the axes unless cloudgan wrote the file."""
        count, attributes, layout = len(energies), cells[0].attrs, self._layout
        starts = np.unique(np.linspace(0, max(0, count - SAMPLE_EVENTS), SAMPLE_PLACES, dtype=int))
        is_ours = DECLARED in attributes
        sums, used = [], []
        for start in starts:
            rows = slice(start, min(start + SAMPLE_EVENTS, count))
            images = self._images(file, rows)
            sums.append(images.sum((1, 2, 3), dtype=np.float64))
            used.append(energies[rows])
            if not is_ours and (not layout or layout.needs_axes_check):
                check_axes(images, str(self.path))
        ratio = median_ratio(np.concatenate(sums), np.concatenate(used))
        if is_ours:
            is_generated = str(file.attrs.get("source", "")).startswith(GENERATED)
            return declared_unit(
                attributes[DECLARED], ratio, str(self.path), is_generated=is_generated
            )
        is_public = "mtheta" in file  # which only the authors' files have
        return decide_units(
            ratio,
            energies,
            str(self.path),
            ecal=layout.unit.cells if layout and not asked else stated[1],
            energy=layout.unit.energy if layout else stated[0],
            asked=asked,
            stated_by=f"as in {layout.name}"
            if layout and not stated[1]
            else "declared in the file",
            is_authors=is_public or "energy" not in self._keys,
            has_deposits=is_public,
        )


def _layout(file: h5py.File, path: Path, binning: str) -> Layout | None:
    """Returns the layout of a file; None: a public 3DGAN one."""
    if not binning and "ECAL" in file.keys():  # noqa: SIM118 - of links
        return None
    given = read_layouts(binning) if binning else LAYOUTS
    found = [one for one in given if all(key in file for key in (*one.keys.cells, one.keys.energy))]
    if not found and binning:
        keys = given[0].keys
        missing = next(key for key in (*keys.cells, keys.energy) if key not in file)
        raise DataError(
            f"{path} has no dataset {missing}, which {binning} needs; it has {names_in(file)}. Correct keys in"
            f" {binning}, or give the --binning of this file"
        )
    if not found:
        raise DataError(
            f"{path} has no dataset ECAL [N, X, Y, Z]; it has {names_in(file)}. Known are ECAL with energy or target,"
            f" and the keys of {', '.join(one.name for one in LAYOUTS)}. For others `{INIT_COMMAND} {path}` drafts"
            " dataset.yaml; then give --binning=dataset.yaml"
        )
    shapes = [tuple(getattr(file[key], "shape", ())[1:]) for key in found[0].keys.cells]
    fits = [one for one in found if image_shape(one, shapes)]
    if len(fits) > 1:
        raise DataError(
            f"{path}: {len(fits)} particles of {binning} have {fits[0].voxels} voxels"
            f" ({', '.join(str(one.particle) for one in fits)}); give a binning with one of them"
        )
    return (fits or found)[0]


def _layout_cells(
    file: h5py.File, path: Path, layout: Layout
) -> tuple[list[h5py.Dataset], tuple[int, int, int]]:
    """Returns the datasets of the cells, checked, and the shape of an image."""
    cells = [item_of(file, key, path) for key in layout.keys.cells]
    for key, one in zip(layout.keys.cells, cells, strict=True):
        _check_cells(one, key, path)
        if one.shape[:1] != cells[0].shape[:1] or one.dtype != cells[0].dtype:
            raise DataError(
                f"{path}: {key} is {one.dtype} {list(one.shape)}, and {layout.keys.cells[0]} is {cells[0].dtype}"
                f" {list(cells[0].shape)}; expected one number of showers and one type"
            )
    shapes = [one.shape[1:] for one in cells]
    shape, given = image_shape(layout, shapes), [list(one.shape) for one in cells]
    if shape is None and layout.geometry.bins:
        raise DataError(
            f"{path}: {', '.join(layout.keys.cells)} is {', '.join(map(str, given))}, and the binning has"
            f" {layout.geometry.voxels} cells in {layout.geometry.shape[2]} layers: give the --binning of this file"
        )
    if shape is None:
        raise DataError(
            f"{path}: {layout.keys.cells[0]} is {given[0]}, showers without a grid; give their cells by"
            " --binning=FILE.xml (binning_dataset_N.xml of https://github.com/CaloChallenge/homepage, folder code),"
            f" or `{INIT_COMMAND} {path}` and geometry: bins in dataset.yaml"
        )
    if math.prod(shape) > MAX_CELLS:
        raise DataError(f"{path}: images of {shape}; a shower has at most {MAX_CELLS} cells")
    return cells, shape


def _in_stated_units(layout: Layout, stated: list[str], asked: str, path: str) -> Layout:
    """Returns the layout in the units of --unit."""
    units = layout.unit.model_copy(update={"cells": asked or layout.unit.cells})
    for name, one, other in zip(
        ("energy", "cells"), stated, (units.energy, units.cells), strict=True
    ):
        if one and one != other:
            raise DataError(
                f"{path}: the attribute unit of {name} is {one}, and {layout.name} has {other}; correct the attribute,"
                f" or write the units of the file into dataset.yaml (`{INIT_COMMAND} {path}`)"
            )
    return layout.model_copy(update={"unit": units})


def _check_cells(dataset: Any, name: str, path: Path) -> None:
    shape = dataset.shape or () if isinstance(dataset, h5py.Dataset) else ()
    if len(shape) < len("NX") or 0 in shape[1:] or not _is_float(dataset):
        what = f"{dataset.dtype} {list(shape)}" if shape else "no dataset"
        raise DataError(
            f"{path}: {name} is {what}; expected floats of 2, 4 or 8 bytes, the showers first"
        )
    if not len(dataset):
        raise DataError(f"{path} holds no showers: {name} is {list(shape)}")


def _is_float(dataset: h5py.Dataset) -> bool:
    return dataset.dtype.kind == "f" and dataset.dtype.itemsize in FLOAT_BYTES


def _ecal(file: h5py.File, path: Path) -> h5py.Dataset:
    ecal = item_of(file, "ECAL", path)
    if not isinstance(ecal, h5py.Dataset):
        raise DataError(f"{path} has no dataset ECAL [N, X, Y, Z]; it has {names_in(file)}")
    shape = ecal.shape or ()
    if len(shape) != len("NXYZ") or 0 in shape[1:] or not _is_float(ecal):
        raise DataError(
            f"{path}: ECAL is {ecal.dtype} {list(shape)}; expected floats [N, X, Y, Z] of 2, 4 or 8"
            " bytes, as [N, 51, 51, 25]"
        )
    if math.prod(shape[1:]) > MAX_CELLS:
        raise DataError(f"{path}: ECAL is {list(shape)}; a shower has at most {MAX_CELLS} cells")
    if len(ecal) == 0:
        raise DataError(f"{path} holds no showers: ECAL is {list(shape)}")
    if "energy" not in file and "target" not in file:
        raise DataError(
            f"{path} has no dataset energy [N] (or target [N, 5], fixed angle); it has {names_in(file)}"
        )
    return ecal


def _columns(
    file: h5py.File, path: Path, count: int, layout: Layout | None
) -> tuple[dict[str, str], list[str]]:
    """Returns the datasets with one value per shower by column, and the names of what is none."""
    group = file[layout.group] if layout else file
    known = {layout.key_of(c): c for c in ("energy", "theta")} if layout else {}
    cells = set(layout.keys.cells) if layout else {"ECAL"}
    kept: dict[str, str] = {}
    left_out: list[str] = []
    for key in sorted(
        {*(layout.key_of(name) if layout else name for name in group), *known} - cells
    ):
        if layout and key not in file:
            continue  # a layout without an angle
        column, item = known.get(key, Path(key).name), item_of(file, key, path)
        if column in known.values() and key not in known:
            left_out.append(key)  # its name is that of a key
        elif _is_per_event(item, count):
            kept[column] = key
        elif column in PER_EVENT:
            shape = list(item.shape or ()) if isinstance(item, h5py.Dataset) else "no dataset"
            raise DataError(
                f"{path}: {key} is {shape} and {min(cells)} holds {count} events;"
                f" expected numbers [{count}]: the file is incomplete"
            )
        else:
            left_out.append(key)
    if layout and layout.keys.theta and "theta" not in kept:
        raise DataError(
            f"{path} has no dataset {layout.keys.theta}, the angle of {layout.name}; it has {names_in(file)}"
        )
    for column in ("energy", "theta", "mtheta"):
        if column in kept and file[kept[column]].size != count:
            raise DataError(
                f"{path}: {kept[column]} is {list(file[kept[column]].shape)}; expected [{count}]"
            )
    if "energy" not in kept:
        *between, columns = file["target"].shape[1:] or (1,)
        if columns < len(("pdg", "energy")) or math.prod(between) != 1:
            raise DataError(
                f"{path}: target is {list(file['target'].shape)}; expected [{count}, 2],"
                f" [{count}, 5] or [{count}, 1, 5], the energy in column 1"
            )
    return kept, left_out


def _pdg_id(columns: Columns, path: str) -> int | None:
    """Returns the PDG number of the primary particle; None: the file states none."""
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
