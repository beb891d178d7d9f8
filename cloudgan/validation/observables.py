"""What is measured on showers before two samples are compared; N showers of X x Y x Z cells."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.data.showers import CELL_MM
from cloudgan.validation.cells import SPECTRUM_EDGES_GEV, measure
from cloudgan.validation.quotients import over

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from cloudgan.core.progress import Progress
    from cloudgan.data.showers import Showers

    Floats = NDArray[np.float64]
    Floats32 = NDArray[np.float32]

__all__ = [
    "MOST_SHOWERS",
    "PER_SHOWER",
    "SPECTRUM_EDGES_GEV",
    "Observables",
    "join_observables",
    "observe",
    "observe_blocks",
    "observe_source",
]

MOST_SHOWERS = 50_000
"""Of a longer file as many are measured, evenly spread: 1.1 kB each, 55 MB in all."""

BLOCK = 250
"""Showers read at a time: 65 MB of 51 x 51 x 25 cells."""

FIRST_LAYERS, LAST_LAYERS = 6, 8

_CHUNK = 50  # showers measured at a time: where all cells hold energy, 150 MB of places


class Source(Protocol):
    """Showers that come in blocks, such as `cloudgan.data.source.ShowerSource`."""

    @property
    def count(self) -> int:
        """How many there are."""

    def blocks(self, size: int) -> Iterator[Showers]:
        """Yields all of them, at most `size` at a time."""


@dataclass(frozen=True)
class Observables:
    """Measured per shower; sums that many functions share, float32 where there are many of them.

    Attributes:
        energy_gev: Energy of the primary, (N,).
        requested_rad: Angle the shower was asked to have, (N,); see `angle_known`.
        sum_gev: Energy in all cells, Esum, (N,).
        profile_x_gev: Energy per column of cells along x, (N, X).
        profile_y_gev: The same along y, the direction in which the axis tilts, (N, Y).
        profile_z_gev: Energy per layer, (N, Z).
        layer_x_cells: Barycentre of each layer along x from the middle of the window, (N, Z); 0
            where the layer is empty.
        layer_y_cells: The same along y.
        layer_width_cells: Lateral rms of each layer around its own barycentre, (N, Z).
        cells: Cells that hold 2 keV or more, (N,).
        hits_low: Cells above 0.1 MeV, (N,).
        hits: Cells above 0.3 MeV, (N,): about one crossing particle, the cut of the 3DGAN authors.
        hits_high: Cells above 3 MeV, (N,).
        largest_gev: Energy of the largest cell, (N,).
        tail_gev: Energy outside the central 9 x 9 columns, (N,).
        angle_rad: Angle measured on the image, (N,); 0 where it is empty.
        spectrum: Number of cells per bin of `cloudgan.validation.cells.SPECTRUM_EDGES_GEV`, (N, 48).
        image: Cells of an image in x, y and depth.
        angle_known: Whether `requested_rad` is the angle that was asked for, or theta of the
            primary; otherwise it is what the file has instead, measured on the image.
        out_of: Showers that the source has, where some of them were chosen; else 0.
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
    def shares_z(self) -> Floats:
        """Share of the energy per layer, (N, Z); 0 where a shower is empty."""
        return over(self.profile_z_gev, self.sum_gev[:, None])

    @property
    def tail_share(self) -> Floats:
        """Share of the energy outside the central 9 x 9 columns, (N,)."""
        return over(self.tail_gev, self.sum_gev)

    @property
    def largest_share(self) -> Floats:
        """Share of the energy in the largest cell, (N,)."""
        return over(self.largest_gev, self.sum_gev)

    @property
    def first_layers_share(self) -> Floats:
        """Share of the energy in the first 6 layers, (N,)."""
        return _sum(self.shares_z[:, :FIRST_LAYERS])

    @property
    def last_layers_share(self) -> Floats:
        """Share of the energy in the last 8 layers, (N,)."""
        return _sum(self.shares_z[:, -LAST_LAYERS:])

    @property
    def last_layer_share(self) -> Floats:
        """Share of the energy in the last layer, the sign of leakage, (N,); 0 where empty."""
        return self.shares_z[:, -1]

    @property
    def layer_of_maximum(self) -> Floats:
        """Number of the layer with the most energy, from 0, (N,)."""
        return np.asarray(self.profile_z_gev.argmax(1), np.float64)

    @property
    def rms_x_mm(self) -> Floats:
        """Lateral rms around the shower's own barycentre along x, (N,); 0 where it is empty."""
        return np.sqrt(self.moments("x")[1]) * CELL_MM

    @property
    def rms_y_mm(self) -> Floats:
        """The same along y, tilt included."""
        return np.sqrt(self.moments("y")[1]) * CELL_MM

    def moments(self, axis: str) -> tuple[Floats, Floats]:
        """First moment and central second moment of the energy along an axis, (N,) each.

        In cells, counted from 0 (`get_moments` of the authors' code, arXiv:2111.04628); 0 where a
        shower is empty.
        """
        profile: Floats = getattr(self, f"profile_{axis}_gev").astype(np.float64)
        middle = (profile.shape[1] - 1) / 2
        place = np.arange(profile.shape[1]) - middle
        total = profile.sum(1)
        mean = over(profile @ place, total)
        second = np.maximum(over(profile @ place**2, total) - mean**2, 0.0)
        return np.where(total > 0, mean + middle, 0.0), second


PER_SHOWER = tuple(field.name for field in fields(Observables))[:-3]
"""The fields that have a row per shower."""


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
        name: Stands for them in errors.
        requested_rad: The angle that each was asked to have, (N,). Default: theta, where they know
            it; else the angle they came with, which a file has measured on the image.
        numbers: Under which errors name them, (N,). Default: from 0.

    Raises:
        DataError: No shower, a value that is no number, a cell or a primary energy below zero.
    """
    if not len(showers):
        raise DataError(f"{name}: no shower to look at; give at least one")
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
    asked = requested_rad.astype(np.float64)
    return Observables(energy, asked, **measured, image=(x, y, z), angle_known=known)


def observe_source(
    source: Source,
    name: str = "showers",
    *,
    at_most: int = MOST_SHOWERS,
    progress: Progress | None = None,
) -> Observables:
    """Measures showers as they are read: no more than a block of images is ever in memory.

    Args:
        source: At least one shower.
        name: Stands for them in errors and beside the bar.
        at_most: Of more showers as many are measured, evenly spread from the first to the last.
        progress: Told of each block.

    Raises:
        DataError: As of `observe`, or a file is damaged.
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
    """Measures showers block by block; arguments as of `observe` and `observe_source`.

    Args:
        blocks: Of showers, such as a generator gives them.
        name: Stands for them in errors and beside the bar.
        requested_rad: Of all showers of all blocks.
        chosen: Numbers of those to be measured, rising. Default: all.
        progress: Told of each block.

    Raises:
        DataError: As of `observe`.
    """
    progress = progress or Silent()
    parts, first = [], 0
    for block in blocks:
        last = first + len(block)
        numbers = np.arange(first, last)
        if chosen is not None:
            numbers = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)]
        if numbers.size:
            asked = None if requested_rad is None else requested_rad[numbers]
            some = block if len(numbers) == len(block) else block[numbers - first]
            parts.append(observe(some, name, requested_rad=asked, numbers=numbers))
        progress.advance(len(block))
        first = last
    if not parts:
        raise DataError(f"{name}: no shower to look at; give at least one")
    return replace(join_observables(parts), out_of=0 if chosen is None else first)


def join_observables(parts: list[Observables]) -> Observables:
    """Returns all showers of `parts`; the angle is known where all know it."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(p, name) for p in parts]) for name in PER_SHOWER
    }
    return replace(parts[0], **joined, angle_known=all(part.angle_known for part in parts))
