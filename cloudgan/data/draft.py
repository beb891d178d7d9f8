"""Drafts a dataset.yaml: guesses keys, axes and units of an HDF5 file from names, shapes and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.hdf5_items import opened
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

_TEXT = """\
# How to read {file}: cloudgan convert --verify {file} --binning=dataset.yaml. Check each line: it is a guess.
keys: {{cells: {cells}, energy: {energy}{theta}}}   # {seen}
axes: {axes}            # of {cells} after the showers: x and y across, z along the depth ({why})
unit: {{cells: {unit}, energy: {energy_unit}}}   # the median of sum(cells)/energy is {ratio:.3g}
particle: {particle}    # such as electron, photon or pion; null: unknown
geometry: cartesian     # or cylindrical: x = radius, y = angle. {flat}
"""


def draft(path: Path) -> str:
    """Returns a dataset.yaml with comments."""
    with opened(path) as file:
        found: dict[str, h5py.Dataset] = {}
        file.visititems(
            lambda key, one: found.update({key: one} if isinstance(one, h5py.Dataset) else {})
        )
        sizes = {key: int(np.prod(one.shape[1:])) for key, one in found.items() if one.shape}
        floats = [key for key in sizes if found[key].dtype.kind == "f"]
        cells = max(
            floats, key=lambda key: (len(found[key].shape) == len("NXYZ"), sizes[key]), default=""
        )
        count = len(found[cells]) if cells else 0
        single = [
            key for key in sizes if key != cells and sizes[key] == 1 and len(found[key]) == count
        ]
        energies = [
            key for key in single if found[key].dtype.kind == "f" and not _has(key, _ANGLES)
        ]
        energies.sort(key=lambda key: not _has(key, _NAMES_OF_ENERGY))
        if not count or sizes[cells] == 1 or not energies:
            raise DataError(
                f"{path} has no cells and energies of showers; it has {', '.join(found) or 'nothing'}."
                " Needed are floats with many values per shower, and one number per shower"
            )
        sample = found[cells][:_SAMPLE].astype(np.float64)
        energy = found[energies[0]][:_SAMPLE].reshape(-1).astype(np.float64)
        angles = [key for key in single if _has(key, _ANGLES)]
        # the angle that was requested: not mtheta, which was measured on the image
        angles.sort(
            key=lambda key: (
                key.rsplit("/")[-1].lower() not in _ANGLES,
                not _has(key, _NAMES_OF_PRIMARY),
            )
        )
        theta = next(iter(angles), None)
        stated = [
            unit_attribute(found[key].attrs, f"{path}, {key}") for key in (cells, energies[0])
        ]
        seen = ", ".join(f"{key} {list(one.shape)}" for key, one in found.items())
    axes, why = _axes(sample)
    ratio = median_ratio(sample.reshape(len(sample), -1).sum(1), energy)
    guessed = _units(ratio, energy)
    unit, energy_unit = (one or guess for one, guess in zip(stated, guessed, strict=True))
    flat = (
        "Cells in a row need bins: {kind: cylindrical, bins: [{x: [0, 5, 10], y: 16, layers: 45}]}"
        if sample.ndim == len("NV")
        else ""
    )
    return _TEXT.format(
        file=path, cells=cells, energy=energies[0], theta=f", theta: {theta}" if theta else "", seen=seen,
        axes=axes, why=why, unit=unit, energy_unit=energy_unit, ratio=ratio, particle="null", flat=flat,
    )  # fmt: skip


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
