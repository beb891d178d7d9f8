"""Reads showers from HDF5 files in the public 3DGAN layouts, and in those of `cloudgan.data.layouts`.

Variable angle (Ele_VarAngleMeas_*.h5, arXiv:2111.04628): ECAL [N, X, Y, Z], energy [N] in GeV, and
theta, mtheta, eta, sum, bins, each of which may miss. Fixed angle (its predecessor): ECAL
[N, 25, 25, 25] and target [N, 5] or [N, 1, 5], whose column 1 is the energy. Any further dataset with one value per
shower travels along.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cloudgan.core.errors import DataError
from cloudgan.core.local_path import missing_file
from cloudgan.data.hdf5_writer import GENERATED, array_value
from cloudgan.data.layouts import INIT_COMMAND, LAYOUTS, OWN, PUBLIC, Layout, read_layouts
from cloudgan.data.manifest import (
    MAX_CELLS,
    Attribute,
    Attributes,
    ColumnInfo,
    SourceInfo,
)
from cloudgan.data.showers import image_shape, to_images
from cloudgan.data.units import (
    DECLARED,
    KNOWN_UNITS,
    Columns,
    RawFile,
    RawShowers,
    Units,
    check_axes,
    check_columns,
    check_ecal,
    check_one_unit,
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


def open_hdf5(path: Path, unit: str = "", binning: str = "") -> RawFile:
    """Opens and checks one HDF5 file of showers."""
    where = str(path)
    with opened(path) as file:
        layout = _layout(file, path, binning)
        cells, shape = _cells(file, path, layout)
        keys, left_out = _columns(file, path, len(cells[0]), layout)
        energy = file[keys.get("energy", "target")]
        values = {column: file[key][:] for column, key in keys.items()}
        stated = [
            unit_attribute(one.attrs, f"{where}: {one.name[1:]}") for one in (energy, cells[0])
        ]
        dataset: Layout | None = None  # of which the manifest tells
        kind = LAYOUT if "energy" in keys else FIXED_LAYOUT
        if layout is not PUBLIC:
            low, high = values["energy"].min(), values["energy"].max()
            found = {"energy_shape": energy.shape[1:], "spans_decades": bool(high > DECADES * low)}
            layout = _in_stated_units(layout, stated, unit, where).model_copy(update=found)
            dataset, kind = layout, f"HDF5 in the layout of {layout.name}"
        of_energy = layout.unit.energy if dataset else stated[0]
        check_columns(values, where, energy_per_gev=KNOWN_UNITS[of_energy or "GeV"])
        pdg_id = _pdg_id(values, where)
        units = _units(path, file, layout, energies_gev(values), stated, asked=unit)
        status = path.stat()
        info = SourceInfo(
            name=where,
            layout=kind,
            bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
            records=len(cells[0]),
            shape=shape,
            ecal_dtype=cells[0].dtype.str,
            ecal_per_gev=units.ecal_per_gev,
            energy_per_gev=units.energy_per_gev,
            ecal_decided=units.decided,
            pdg_id=pdg_id,
            dataset=dataset,
            columns=tuple(
                ColumnInfo(name=column, dtype=file[key].dtype.str, shape=file[key].shape[1:])
                for column, key in keys.items()
            ),
            attributes=attributes_of(file, ["", *(one.name[1:] for one in cells), *keys.values()]),
        )
    notes = []
    if not dataset and "mtheta" not in keys:  # a layout says itself what it lacks
        notes.append("It has no mtheta: the angle is measured from the images.")
    if not dataset and "energy" not in keys:
        notes.append("It has a fixed angle: theta is 90 degrees.")
    elif not dataset and "theta" not in keys:
        notes.append("It has no theta: the true angle of its showers is unknown.")
    if left_out:
        notes.append(f"Not one value per shower, left out: {', '.join(left_out)}.")
    return RawFile(path, info, partial(_raw_blocks, path, layout, keys), tuple(notes))


def _raw_blocks(
    path: Path, layout: Layout, keys: Mapping[str, str], size: int
) -> Iterator[RawShowers]:
    """Yields all showers as the file holds them, at most `size` at a time; `keys` are the datasets by column."""
    with opened(path) as file:
        count = len(file[keys.get("energy", "target")])
        for first in range(0, count, size):
            rows = slice(first, min(first + size, count))
            columns = {c: _read(path, file[key], rows) for c, key in keys.items()}
            yield RawShowers(_images(path, file, layout, rows), columns)


def _images(path: Path, file: h5py.File, layout: Layout, rows: slice) -> NDArray[Any]:
    """Returns showers as images in the unit of the file."""
    images = to_images(layout, [_read(path, file[key], rows) for key in layout.keys.cells])
    check_ecal(images, str(path), rows.start)
    return images


def _read(path: Path, dataset: h5py.Dataset, rows: slice) -> NDArray[Any]:
    try:
        return np.asarray(dataset[rows])
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{path}, event {first_unreadable(dataset, rows)}: {dataset.name[1:]} cannot"
            f" be read, the file is damaged: {error}. Copy it again from where it came."
        ) from error


def _units(
    path: Path,
    file: h5py.File,
    layout: Layout,
    energies: NDArray[np.float32],
    stated: list[str],
    *,
    asked: str,
) -> Units:
    """Decides the units, and checks the axes unless cloudgan wrote the file."""
    count, where, attributes = len(energies), str(path), file[layout.keys.cells[0]].attrs
    is_3dgan, is_ours = layout is PUBLIC, DECLARED in attributes
    sums, used, events = [], [], []
    for start in np.unique(np.linspace(0, max(0, count - SAMPLE_EVENTS), SAMPLE_PLACES, dtype=int)):
        rows = slice(start, min(start + SAMPLE_EVENTS, count))
        images = _images(path, file, layout, rows)
        sums.append(images.sum((1, 2, 3), dtype=np.float64))
        used.append(energies[rows])
        events.append(np.arange(count)[rows])
        if not is_ours and (is_3dgan or layout.needs_axes_check):
            check_axes(images, where)
    seen = np.concatenate(sums), np.concatenate(used)
    ratio = median_ratio(*seen)
    if is_ours:
        is_generated = str(file.attrs.get("source", "")).startswith(GENERATED)
        return declared_unit(attributes[DECLARED], ratio, where, is_generated=is_generated)
    check_one_unit(*seen, where, np.concatenate(events))
    has_deposits = "mtheta" in file  # which only the authors' files have
    return decide_units(
        ratio,
        energies,
        where,
        ecal=stated[1] if is_3dgan or asked else layout.unit.cells,
        energy=stated[0] if is_3dgan else layout.unit.energy,
        asked=asked,
        stated_by="declared in the file" if is_3dgan or stated[1] else f"as in {layout.name}",
        is_authors=has_deposits or (is_3dgan and "energy" not in file),
        has_deposits=has_deposits,
    )


def _layout(file: h5py.File, path: Path, binning: str) -> Layout:
    """Returns the layout of a file."""
    if not binning and "ECAL" in file.keys():  # noqa: SIM118 - of links
        return PUBLIC
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


def _cells(
    file: h5py.File, path: Path, layout: Layout
) -> tuple[list[h5py.Dataset], tuple[int, int, int]]:
    """Returns the datasets of the cells, checked, and the shape of an image."""
    cells = [item_of(file, key, path) for key in layout.keys.cells]
    for key, one in zip(layout.keys.cells, cells, strict=True):
        shape = one.shape or () if isinstance(one, h5py.Dataset) else ()
        is_float = bool(shape) and one.dtype.kind == "f" and one.dtype.itemsize in FLOAT_BYTES
        if len(shape) < len("NX") or 0 in shape[1:] or not is_float:
            what = f"{one.dtype} {list(shape)}" if shape else "no dataset"
            raise DataError(
                f"{path}: {key} is {what}; expected floats of 2, 4 or 8 bytes, the showers first"
            )
        if not len(one):
            raise DataError(f"{path} holds no showers: {key} is {list(shape)}")
        if one.shape[:1] != cells[0].shape[:1] or one.dtype != cells[0].dtype:
            raise DataError(
                f"{path}: {key} is {one.dtype} {list(one.shape)}, and {layout.keys.cells[0]} is {cells[0].dtype}"
                f" {list(cells[0].shape)}; expected one number of showers and one type"
            )
    image, given = (
        image_shape(layout, [one.shape[1:] for one in cells]),
        [list(one.shape) for one in cells],
    )
    if image is None and layout.geometry.bins:
        raise DataError(
            f"{path}: {', '.join(layout.keys.cells)} is {', '.join(map(str, given))}, and the binning has"
            f" {layout.geometry.voxels} cells in {layout.geometry.shape[2]} layers: give the --binning of this file"
        )
    if image is None and layout.name == OWN:
        raise DataError(
            f"{path}: {layout.keys.cells[0]} is {given[0]}, showers without a grid, and {OWN} has no bins: give their"
            " cells as geometry: {kind: cylindrical, bins: [{x: [0, 5, 10], y: 16, layers: 45}]}, with the edges of"
            " the rings in mm and the number of angles"
        )
    if image is None:
        raise DataError(
            f"{path}: {layout.keys.cells[0]} is {given[0]}, showers without a grid; give their cells by"
            " --binning=FILE.xml (binning_dataset_N.xml of https://github.com/CaloChallenge/homepage, folder code),"
            f" or `{INIT_COMMAND} {path}` and geometry: bins in dataset.yaml"
        )
    if math.prod(image) > MAX_CELLS:
        raise DataError(f"{path}: images of {image}; a shower has at most {MAX_CELLS} cells")
    return cells, image


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


def _columns(
    file: h5py.File, path: Path, count: int, layout: Layout
) -> tuple[dict[str, str], list[str]]:
    """Returns the datasets with one value per shower by column, and the names of what is none."""
    known = {layout.key_of(column): column for column in ("energy", "theta")}
    kept: dict[str, str] = {}
    left_out: list[str] = []
    keys = {layout.key_of(name) for name in file[layout.group]} | known.keys()
    for key in sorted(keys - {*layout.keys.cells}):
        if key in known and file.get(key, getlink=True) is None:
            continue  # a layout without an angle, or a file of a fixed one
        column, item = known.get(key, Path(key).name), item_of(file, key, path)
        shape = item.shape or () if isinstance(item, h5py.Dataset) else ()
        if column in known.values() and key not in known:
            left_out.append(key)  # its name is that of a key
        elif shape and shape[0] == count and 0 not in shape and item.dtype.kind in "fiub":
            kept[column] = key
        elif column in PER_EVENT:
            found = list(shape) if isinstance(item, h5py.Dataset) else "no dataset"
            raise DataError(
                f"{path}: {key} is {found} and {min(layout.keys.cells)} holds {count} events;"
                f" expected numbers [{count}]: the file is incomplete"
            )
        else:
            left_out.append(key)
    if layout.keys.theta and "theta" not in kept:
        raise DataError(
            f"{path} has no dataset {layout.keys.theta}, the angle of {layout.name}; it has {names_in(file)}"
        )
    if not {"energy", "target"} & kept.keys():
        raise DataError(
            f"{path} has no dataset energy [N] (or target [N, 5], fixed angle); it has {names_in(file)}. If one of"
            f" them is the energy, `{INIT_COMMAND} {path}` drafts dataset.yaml; then give --binning=dataset.yaml"
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


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Yields an HDF5 file."""
    try:
        size = path.stat().st_size
        if size == 0:
            raise DataError(f"{path} is empty (0 bytes)")
        if not path.is_file() or not h5py.is_hdf5(path):
            raise DataError(f"{path} is not an HDF5 file")
        file = h5py.File(path, "r")
    except FileNotFoundError as error:
        raise missing_file(path) from error
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


def item_of(file: h5py.File, name: str, path: Path) -> Any:
    """Returns a dataset or group of the file; None: the link leads nowhere."""
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


def names_in(file: h5py.File) -> str:
    """Returns the names of all groups at the top and all datasets, for messages."""
    found: set[str] = set()
    file.visititems(lambda name, item: found.update([name] * isinstance(item, h5py.Dataset)))
    return ", ".join(sorted({*file, *found})) or "nothing"


def first_unreadable(dataset: h5py.Dataset, rows: slice) -> int:
    """Returns the first shower of `rows` that cannot be read."""
    for row in range(rows.start, rows.stop):
        try:
            dataset[row]
        except (OSError, RuntimeError):
            return row
    return int(rows.start)


def attributes_of(file: h5py.File, names: list[str]) -> Attributes:
    """Returns the attributes of datasets, and of the file itself for an empty name, as the manifest keeps them."""
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
    return array_value(array) if is_kept else None


def _is_text(value: Any) -> bool:
    """Whether `value` is a string of Unicode characters; h5py reads other bytes as surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
