"""Drafts a dataset.yaml: guesses keys, axes and units of an HDF5 file from names, shapes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.hdf5 import opened
from cloudgan.data.layouts import LAYOUTS, Bins, Geometry, Keys, Layout, calochallenge
from cloudgan.data.units import (
    SAMPLING_FRACTION,
    TOLERANCE,
    median_ratio,
    rms_along_axes,
    unit_attribute,
)

_SAMPLE = 200
_ANGLES = ("theta", "polar")
_NAMES_OF_PRIMARY = ("incident", "primary", "gen")
_NAMES_OF_ENERGY = (*_NAMES_OF_PRIMARY, "energy", "e0")

_BINS = "{kind: cylindrical, bins: [{x: [0, 5, 10], y: 16, layers: 45}]}"
_TEXT = """\
# How to read {file}: cloudgan convert --verify {file} --binning=dataset.yaml. Check each line: {origin}.
keys: {{cells: {cells}, energy: {energy}{theta}}}   # {seen}
axes: {axes}            # of {cells} after the showers: x and y across, z along the depth ({why})
unit: {{cells: {unit}, energy: {energy_unit}}}   # the median of sum(cells)/energy is {ratio:.3g}
particle: {particle}    # such as electron, photon or pion; null: unknown
geometry: {geometry}     # {bins}
"""

_CHALLENGE = {
    one.voxels: one
    for one in (
        Geometry(
            kind="cylindrical",
            bins=(Bins(x=tuple(wide * n for n in range(rings + 1)), y=angles, layers=45),),
        )
        for wide, rings, angles in ((4.65, 9, 16), (2.325, 18, 50))
    )
}
"""Geometries of CaloChallenge's datasets 2 and 3 (README.md of https://github.com/CaloChallenge/homepage), by voxels."""


def draft(path: Path) -> tuple[str, str]:
    """Returns a dataset.yaml with comments, and what its reader must know; "": nothing else.

    Raises:
        DataError: The file has no showers that a dataset.yaml can describe.
    """
    with opened(path) as file:
        known = _known(file, path)
        found: dict[str, h5py.Dataset] = {}
        file.visititems(
            lambda key, one: found.update({key: one} if isinstance(one, h5py.Dataset) else {})
        )
        keys = known.keys if known else _keys(found, path)
        cells = found[keys.cells[0]]
        sample = cells[:_SAMPLE].astype(np.float64)
        energy = found[keys.energy][:_SAMPLE].reshape(-1).astype(np.float64)
        sums = sum(found[key][:_SAMPLE].sum(tuple(range(1, found[key].ndim))) for key in keys.cells)
        stated = [
            unit_attribute(found[key].attrs, f"{path}, {key}")
            for key in (keys.cells[0], keys.energy)
        ]
        seen = ", ".join(f"{key} {list(one.shape)}" for key, one in found.items())
    ratio = median_ratio(np.asarray(sums), energy)
    geometry = (known and known.geometry) or _CHALLENGE.get(sample[0].size) or Geometry()
    axes, why = _axes(sample)
    guessed = _units(ratio, energy)
    if known:
        axes, why = known.axes, f"as in {known.name}"
        guessed = known.unit.cells, known.unit.energy
    unit, energy_unit = (one or guess for one, guess in zip(stated, guessed, strict=True))
    is_row = sample.ndim == len("NV") and not geometry.bins
    text = _TEXT.format(
        file=path, cells=", ".join(keys.cells).join("[]" if len(keys.cells) > 1 else ("", "")),
        energy=keys.energy, theta=f", theta: {keys.theta}" if keys.theta else "", seen=seen, axes=axes,
        why=why, unit=unit, energy_unit=energy_unit, ratio=ratio,
        particle=(known and known.particle) or "null", geometry=_flow(geometry),
        bins=f"cells in a row need bins, such as {_BINS}" if is_row
        else "cartesian, or cylindrical: x = radius, y = angle",
        origin=f"the keys are those of {known.name}" if known else "it is a guess",
    )  # fmt: skip
    if known and known.threshold_mev:
        text += f"threshold_mev: {known.threshold_mev:.4g}    # generated cells below are zero\n"
    if is_row:
        return text, "first complete its line geometry: cells in a row need bins"
    is_read = known and known.name != calochallenge().name  # which has many binnings
    return text, f"{path} is read without it, as {known.name}" if known and is_read else ""


def _known(file: h5py.File, path: Path) -> Layout | None:
    """Returns the public layout whose keys the file has; None: it is not known, or ECAL, which may be anything."""
    if "ECAL" in file:
        if "target" in file and "energy" not in file:
            raise DataError(
                f"{path} needs no dataset.yaml: its energies are in a column of target, as in the fixed-angle 3DGAN"
                f" layout, which is read as it is: cloudgan convert --verify {path}"
            )
        return None
    fits = (
        one for one in LAYOUTS if all(key in file for key in (*one.keys.cells, one.keys.energy))
    )
    found = next(fits, None)
    if found and found.name == calochallenge().name:
        shape = getattr(file[found.keys.cells[0]], "shape", ())
        return calochallenge(_CHALLENGE.get(int(np.prod(shape[1:]))))
    return found


def _keys(found: Mapping[str, h5py.Dataset], path: Path) -> Keys:
    """Guesses which datasets are the cells, the energy and the angle."""
    sizes = {key: int(np.prod(one.shape[1:])) for key, one in found.items() if one.shape}
    floats = [key for key in sizes if found[key].dtype.kind == "f"]
    cells = max(
        floats, key=lambda key: (len(found[key].shape) == len("NXYZ"), sizes[key]), default=""
    )
    count = len(found[cells]) if cells else 0
    single = [key for key in sizes if key != cells and sizes[key] == 1 and len(found[key]) == count]
    energies = [key for key in single if found[key].dtype.kind == "f" and not _has(key, _ANGLES)]
    energies.sort(key=lambda key: not _has(key, _NAMES_OF_ENERGY))
    if not count or sizes[cells] == 1 or not energies:
        raise DataError(
            f"{path} has no cells and energies of showers; it has {', '.join(found) or 'nothing'}."
            " Needed are floats with many values per shower, and one number per shower"
        )
    angles = [key for key in single if _has(key, _ANGLES)]
    # the angle that was requested: not mtheta, which was measured on the image
    angles.sort(
        key=lambda key: (
            key.rsplit("/")[-1].lower() not in _ANGLES,
            not _has(key, _NAMES_OF_PRIMARY),
        )
    )
    return Keys(cells=(cells,), energy=energies[0], theta=next(iter(angles), None))


def _flow(geometry: Geometry) -> str:
    """Returns a geometry in one line of YAML."""
    if not geometry.bins:
        return geometry.kind
    bins = [
        f"{{x: [{', '.join(f'{edge:g}' for edge in each.x)}], y: {each.y}, layers: {each.layers}}}"
        for each in geometry.bins
    ]
    return f"{{kind: {geometry.kind}, bins: [{', '.join(bins)}]}}"


def _has(key: str, words: tuple[str, ...]) -> bool:
    return any(word in key.lower() for word in words)


def _axes(sample: NDArray[Any]) -> tuple[str, str]:
    """Returns the axes of (n, a, b, c) cells: the depth is the longest in cells, or the first of a row."""
    if sample.ndim != len("NXYZ"):
        return "zyx", "cells in a row: the layers follow each other"
    lengths = rms_along_axes(sample)
    depth = int(np.argmax(lengths))
    lateral = iter("xy")
    axes = "".join("z" if axis == depth else next(lateral) for axis in range(3))
    return axes, "rms in cells: " + ", ".join(f"{one:.3g}" for one in lengths)


def _units(ratio: float, energy: NDArray[Any]) -> tuple[str, str]:
    """Returns units with which the cells hold all of the energy, or the sampling fraction of it."""
    energy_unit = "MeV" if energy.max() > 1000 else "GeV"  # noqa: PLR2004 - GeV of a beam
    factor = 1e3 if energy_unit == "MeV" else 1.0
    shares = {unit: ratio * factor / per_gev for unit, per_gev in (("MeV", 1e3), ("GeV", 1.0))}
    fits = [u for u, share in shares.items() if SAMPLING_FRACTION / TOLERANCE < share < TOLERANCE]
    return (fits or ["MeV"])[0], energy_unit
