"""Observables of showers; N showers of X x Y x Z cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.showers import Showers
from cloudgan.data.units import is_empty
from cloudgan.validation.observables.cells import measure, safe_divide

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

MAX_SHOWERS = 50_000
"""Maximum number measured, evenly spaced over a longer file: 1.1 kB each, 55 MB in total."""

BLOCK = 250
"""Showers read at once: 65 MB of 51 x 51 x 25 cells."""

FIRST_LAYERS, LAST_LAYERS = 6, 8

_CHUNK = 50  # showers measured at once: 150 MB of indices if all cells have energy


class Source(Protocol):
    """Source of showers in blocks, such as `cloudgan.data.sources.ShowerSource`."""

    @property
    def count(self) -> int:
        """Number of showers."""

    def blocks(self, size: int) -> Iterator[Showers]:
        """Yields all showers, at most `size` at once."""


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
        spectrum: Cells per bin of `cloudgan.validation.observables.cells.SPECTRUM_EDGES_GEV`, (N, 48).
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
        return _sum(self.shares_z[:, :FIRST_LAYERS])

    @property
    def last_layers_share(self) -> Floats:
        """Share of the energy in the last 8 layers, (N,)."""
        return _sum(self.shares_z[:, -LAST_LAYERS:])

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


def _sum(shares: Floats) -> Floats:
    return np.asarray(shares.sum(1), np.float64)


def observe(
    showers: Showers,
    name: str = "showers",
    *,
    requested_rad: NDArray[np.floating] | None = None,
    numbers: NDArray[np.int64] | None = None,
) -> Observables:
    """Measures `showers`.

    Args:
        showers: At least one.
        name: Name of the sample in errors.
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


def observe_source(
    source: Source,
    name: str = "showers",
    *,
    at_most: int = MAX_SHOWERS,
    progress: Progress | None = None,
) -> Observables:
    """Measures showers while reading; at most one block of images is in memory.

    Args:
        source: At least one shower.
        name: Name of the sample in errors.
        at_most: Maximum number measured, evenly spaced from the first to the last.
        progress: Receives each block.

    Raises:
        DataError: As for `observe`, or a file is damaged.
    """
    chosen = None
    if source.count > at_most:
        chosen = np.linspace(0, source.count - 1, at_most).astype(int)
    return observe_blocks(source.blocks(BLOCK), name, chosen=chosen, progress=progress)


def observe_blocks(
    blocks: Iterable[Showers],
    name: str = "showers",
    *,
    requested_rad: NDArray[np.floating] | None = None,
    chosen: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Observables:
    """Measures showers block by block; see `observe` and `observe_source`.

    Args:
        blocks: Blocks of showers, such as those of a generator.
        name: Name of the sample in errors.
        requested_rad: Requested angles of all showers of all blocks.
        chosen: Numbers of the showers to measure, ascending. Default: all.
        progress: Receives each block.

    Raises:
        DataError: As for `observe`.
    """
    progress = progress or Silent()
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
