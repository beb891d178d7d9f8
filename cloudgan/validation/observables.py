"""Observables and features of showers; N showers, n measured at once, of X x Y x Z cells.

A shower fills about a thousand of 65,025 cells; only these are processed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.showers import Showers, angle_of_layers
from cloudgan.data.units import is_empty

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]


def safe_divide(above: NDArray[np.floating], below: NDArray[np.floating]) -> Floats:
    """Returns `above / below` in float64, 0 where `below` is not positive."""
    above, below = np.broadcast_arrays(above, below)
    found: Floats = np.zeros(above.shape)
    np.divide(above, below, out=found, where=below > 0, dtype=np.float64)
    return found


def ratio(above: Floats, below: Floats) -> Floats:
    """Returns `above / below`, nan where `below` is not positive."""
    return np.where(below > 0, safe_divide(above, below), np.nan)


NOISE_GEV = 2e-6
"""Cells below 2 keV count as empty: a network's output is small where it should be 0."""

HIT_LEVELS_GEV = {"hits_low": 1e-4, "hits": 3e-4, "hits_high": 3e-3}
"""A cell above 0.3 MeV is a hit, about one crossing particle; cut of the 3DGAN authors."""

CORE_CELLS = 4
"""The lateral tail starts beyond this many columns from the central one, 23 mm."""

SPECTRUM_EDGES_GEV = np.logspace(-5.5, 0.5, 49)
"""Bin edges of the spectrum of cell energies, eight bins per decade, GeV."""


def measure(
    ecal: NDArray[np.float32], name: str, numbers: Integers
) -> dict[str, NDArray[np.floating]]:
    """Measures images (n, X, Y, Z), GeV; the keys are fields of `Observables`.

    `name` and `numbers`, (n,), are of the sample and its showers in errors.

    Raises:
        DataError: A cell is NaN, infinite or negative.
    """
    flat = ecal.reshape(len(ecal), -1)
    lowest, highest = flat.min(1), flat.max(1)
    good = (lowest >= -NOISE_GEV) & (highest < np.inf)  # NaN fails both
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"{name}: shower {numbers[row]} has a cell of {lowest[row]} GeV (or NaN or infinity); expected"
            " finite values >= 0"
        )
    filled = np.flatnonzero(flat >= np.float32(NOISE_GEV))
    shower, x, y, layer = np.unravel_index(filled, ecal.shape)
    gev = flat.reshape(-1)[filled]
    double = gev.astype(np.float64)
    count, x_cells, y_cells, layers = ecal.shape

    def sums(
        weight: NDArray[np.floating] | None, place: Integers | None = None, size: int = 1
    ) -> Floats:
        """Sums a weight per shower, (n,), or per shower and place along an axis, (n, size)."""
        number = shower if place is None else shower * size + place
        found = np.bincount(number, weight, count * size).astype(np.float64)
        return found if place is None else found.reshape(count, size)

    total = sums(double, layer, layers)
    moments, means, variance = [], [], np.zeros(total.shape)
    for place, size in ((x, x_cells), (y, y_cells)):
        offset = place - (size - 1) / 2
        moments.append(sums(double * offset, layer, layers))
        means.append(safe_divide(moments[-1], total))
        variance += safe_divide(sums(double * offset**2, layer, layers), total) - means[-1] ** 2
    outside = (np.abs(x - x_cells // 2) > CORE_CELLS) | (np.abs(y - y_cells // 2) > CORE_CELLS)
    bins = len(SPECTRUM_EDGES_GEV) - 1
    bin_of = np.searchsorted(SPECTRUM_EDGES_GEV, gev, side="right") - 1
    inside = (bin_of >= 0) & (bin_of < bins)
    spectrum = np.bincount(shower[inside] * bins + bin_of[inside], minlength=count * bins)
    single = np.float32
    return {
        "sum_gev": sums(gev),
        "profile_x_gev": sums(gev, x, x_cells).astype(single),
        "profile_y_gev": sums(gev, y, y_cells).astype(single),
        "profile_z_gev": total.astype(single),
        "layer_x_cells": means[0].astype(single),
        "layer_y_cells": means[1].astype(single),
        "layer_width_cells": np.sqrt(np.maximum(variance, 0.0)).astype(single),
        "angle_rad": angle_of_layers(total, moments[0], moments[1]).astype(np.float64),
        "cells": sums(None),
        **{
            key: np.bincount(shower[gev > level], minlength=count).astype(np.float64)
            for key, level in HIT_LEVELS_GEV.items()
        },
        "largest_gev": ecal.max((1, 2, 3), initial=0.0).astype(np.float64),
        "tail_gev": sums(gev * outside),
        "spectrum": spectrum.reshape(-1, bins).astype(single),
    }


MAX_SHOWERS = 50_000
"""Maximum number measured, evenly spaced over a longer file: 1.1 kB each, 55 MB in total."""

BLOCK = 250
"""Showers read at once: 65 MB of 51 x 51 x 25 cells."""

FIRST_LAYERS, LAST_LAYERS = 6, 8

_CHUNK = 50  # showers measured at once: 150 MB of indices if all cells have energy


@dataclass(frozen=True)
class Observables:
    """Observables per shower; large arrays are float32.

    Attributes:
        energy_gev: Energy of the primary, (N,).
        requested_rad: Requested angle, (N,); see `angle_known`.
        sum_gev: Energy in all cells, Esum, (N,).
        profile_x_gev: Energy per column of cells along x, (N, X).
        profile_y_gev: Energy per column along y, the direction in which the axis tilts, (N, Y).
        profile_z_gev: Energy per layer, (N, Z).
        layer_x_cells: Barycentre of each layer along x from the centre of the window, (N, Z); 0 where
            the layer is empty.
        layer_y_cells: Barycentre of each layer along y.
        layer_width_cells: Lateral rms of each layer around its own barycentre, (N, Z).
        cells: Cells of 2 keV or more, (N,).
        hits_low: Cells above 0.1 MeV, (N,).
        hits: Cells above 0.3 MeV, (N,): about one crossing particle, the cut of the 3DGAN authors.
        hits_high: Cells above 3 MeV, (N,).
        largest_gev: Energy of the largest cell, (N,).
        tail_gev: Energy outside the central 9 x 9 columns, (N,).
        angle_rad: Angle measured on the image, (N,); 0 where it is empty.
        spectrum: Cells per bin of `cloudgan.validation.observables.SPECTRUM_EDGES_GEV`, (N, 48).
        image: Cells of an image in x, y and depth.
        angle_known: Whether `requested_rad` is the requested angle or theta of the primary; otherwise
            it is the angle measured on the image.
        out_of: Number of showers of the source if only some were measured; else 0.
    """

    energy_gev: Floats
    requested_rad: Floats
    sum_gev: Floats
    profile_x_gev: Floats32
    profile_y_gev: Floats32
    profile_z_gev: Floats32
    layer_x_cells: Floats32
    layer_y_cells: Floats32
    layer_width_cells: Floats32
    cells: Floats
    hits_low: Floats
    hits: Floats
    hits_high: Floats
    largest_gev: Floats
    tail_gev: Floats
    angle_rad: Floats
    spectrum: Floats32
    image: tuple[int, int, int]
    angle_known: bool
    out_of: int = 0

    def __len__(self) -> int:
        return len(self.energy_gev)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Observables:
        """Returns the showers of `rows`."""
        return replace(self, **{name: getattr(self, name)[rows] for name in PER_SHOWER})

    @property
    def response(self) -> Floats:
        """Esum/E of each shower, (N,)."""
        return self.sum_gev / self.energy_gev

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Whether each shower is empty, (N,): see `cloudgan.data.manifest.EMPTY_SHARE`."""
        return is_empty(self.sum_gev, self.energy_gev)

    @property
    def shares_z(self) -> Floats:
        """Share of the energy per layer, (N, Z); 0 where a shower is empty."""
        return safe_divide(self.profile_z_gev, self.sum_gev[:, None])

    @property
    def tail_share(self) -> Floats:
        """Share of the energy outside the central 9 x 9 columns, (N,)."""
        return safe_divide(self.tail_gev, self.sum_gev)

    @property
    def largest_share(self) -> Floats:
        """Share of the energy in the largest cell, (N,)."""
        return safe_divide(self.largest_gev, self.sum_gev)

    @property
    def first_layers_share(self) -> Floats:
        """Share of the energy in the first 6 layers, (N,)."""
        return np.asarray(self.shares_z[:, :FIRST_LAYERS].sum(1))

    @property
    def last_layers_share(self) -> Floats:
        """Share of the energy in the last 8 layers, (N,)."""
        return np.asarray(self.shares_z[:, -LAST_LAYERS:].sum(1))

    @property
    def layer_of_maximum(self) -> Floats:
        """Layer with the most energy, from 0, (N,)."""
        return np.asarray(self.profile_z_gev.argmax(1), np.float64)

    def moments(self, axis: str) -> tuple[Floats, Floats]:
        """First moment and central second moment of the energy along an axis, (N,) each.

        In cells, counted from 0 (`get_moments` of the authors' code, arXiv:2111.04628); 0 where a shower is
        empty.
        """
        profile: Floats = getattr(self, f"profile_{axis}_gev").astype(np.float64)
        middle = (profile.shape[1] - 1) / 2
        place = np.arange(profile.shape[1]) - middle
        total = profile.sum(1)
        mean = safe_divide(profile @ place, total)
        second = np.maximum(safe_divide(profile @ place**2, total) - mean**2, 0.0)
        return np.where(total > 0, mean + middle, 0.0), second


PER_SHOWER = tuple(field.name for field in fields(Observables))[:-3]
"""Fields with one row per shower."""


def observe(
    showers: Showers,
    name: str = "showers",
    *,
    requested_rad: NDArray[np.floating] | None = None,
    numbers: NDArray[np.int64] | None = None,
) -> Observables:
    """Measures `showers`.

    Args:
        requested_rad: Requested angles, (N,). Default: theta where known, else the angle measured on
            the image.
        numbers: Shower numbers in errors, (N,). Default: from 0.

    Raises:
        DataError: No shower, a value that is NaN or infinite, or a negative energy.
    """
    if not len(showers):
        raise DataError(f"{name}: no showers; at least one is required")
    energy = showers.energy_gev.astype(np.float64)
    numbers = np.arange(len(showers)) if numbers is None else numbers
    if not (np.isfinite(energy).all() and (energy > 0).all()):
        row = int(np.argmin(np.isfinite(energy) & (energy > 0)))
        raise DataError(
            f"{name}: shower {numbers[row]} has a primary energy of {energy[row]} GeV; expected > 0"
        )
    known = requested_rad is not None or showers.theta_rad is not None
    if requested_rad is None:
        requested_rad = showers.mtheta_rad if showers.theta_rad is None else showers.theta_rad
    parts = [
        measure(showers.ecal_gev[row : row + _CHUNK], name, numbers[row : row + _CHUNK])
        for row in range(0, len(showers), _CHUNK)
    ]
    x, y, z = showers.ecal_gev.shape[1:]
    measured: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts]) for key in parts[0]
    }
    requested = requested_rad.astype(np.float64)
    return Observables(energy, requested, **measured, image=(x, y, z), angle_known=known)


def observe_blocks(
    blocks: Iterable[Showers],
    name: str = "showers",
    *,
    requested_rad: NDArray[np.floating] | None = None,
    count: int = 0,
    at_most: int = MAX_SHOWERS,
    progress: Progress | None = None,
) -> Observables:
    """Measures showers block by block; at most one block of images is in memory.

    Args:
        requested_rad: Requested angles of all showers of all blocks.
        count: Showers in all blocks. Of more than `at_most` so many are measured, evenly spaced from the first to
            the last. Default: all are measured.

    Raises:
        DataError: As for `observe`, or a file is damaged.
    """
    progress = progress or Silent()
    chosen = np.linspace(0, count - 1, at_most).astype(int) if count > at_most else None
    parts, first = [], 0
    for block in blocks:
        last = first + len(block)
        numbers = np.arange(first, last)
        if chosen is not None:
            numbers = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)]
        if numbers.size:
            requested = None if requested_rad is None else requested_rad[numbers]
            some = block if len(numbers) == len(block) else block[numbers - first]
            parts.append(observe(some, name, requested_rad=requested, numbers=numbers))
        progress.advance(len(block))
        first = last
    if not parts:
        raise DataError(f"{name}: no showers; at least one is required")
    return replace(join_observables(parts), out_of=0 if chosen is None else first)


def join_observables(parts: list[Observables]) -> Observables:
    """Concatenates `parts`; the angle is known if all parts know it."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(p, name) for p in parts]) for name in PER_SHOWER
    }
    return replace(parts[0], **joined, angle_known=all(part.angle_known for part in parts))


HIGH_LEVEL = (
    "Esum/E",
    "M1 x",
    "M1 y",
    "M1 z",
    "M2 x",
    "M2 y",
    "M2 z",
    "first 6 layers",
    "last 8 layers",
    "layer of the maximum",
    "hits above 0.1 MeV",
    "hits above 3 MeV",
    "largest cell",
    "measured angle",
    "energy",
)
"""Columns of `high_level`: fourteen shower shapes and the requested energy."""


def high_level(sample: Observables) -> Floats:
    """Returns the 15 high-level features of `HIGH_LEVEL`, (N, 15).

    Energies in GeV, moments in cells and cells squared, layers from 0, angles in rad.
    """
    shapes = histogram_features(sample)
    columns = [sample.energy_gev if name == "energy" else shapes[name] for name in HIGH_LEVEL]
    return np.stack(columns, axis=1)


def low_level(sample: Observables) -> NDArray[np.float32]:
    """Returns the low-level features, (N, 4 Z + 2): 102 for 25 layers.

    Per layer: share of the energy, barycentre along x and y in cells from the centre of the window, lateral
    rms in cells; then Esum/E and the energy of the primary in GeV.
    """
    parts = (
        sample.shares_z,
        sample.layer_x_cells,
        sample.layer_y_cells,
        sample.layer_width_cells,
        sample.response[:, None],
        sample.energy_gev[:, None],
    )
    return np.concatenate([part.astype(np.float32) for part in parts], axis=1)


def histogram_features(sample: Observables) -> dict[str, Floats]:
    """Returns the features compared as one-dimensional distributions, (N,) each, by name."""
    moments = {axis: sample.moments(axis) for axis in "xyz"}
    return {
        "Esum/E": sample.response,
        **{f"M1 {axis}": first for axis, (first, _) in moments.items()},
        **{f"M2 {axis}": second for axis, (_, second) in moments.items()},
        "first 6 layers": sample.first_layers_share,
        "last 8 layers": sample.last_layers_share,
        "layer of the maximum": sample.layer_of_maximum,
        "hits above 0.1 MeV": sample.hits_low,
        "hits above 0.3 MeV": sample.hits,
        "hits above 3 MeV": sample.hits_high,
        "filled cells": sample.cells,
        "largest cell": sample.largest_gev,
        "tail": sample.tail_share,
        "measured angle": sample.angle_rad,
    }
