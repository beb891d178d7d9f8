"""The parametric source: electron showers in the CLIC ECAL, hundreds of times faster than Geant4.

Good for demos, tests and pre-training, never the reference of a validation: inside a layer nothing
is correlated, and a classifier on layer features tells it from Geant4 (AUC 0.96).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Silent
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.simulation.cascade import Gflash
from cloudgan.simulation.detector import Detector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cloudgan.core.progress import Progress

MIN_ENERGY_GEV, MAX_ENERGY_GEV = 1.0, 1000.0
"""Where the formulas bear: below, 1/(1.25 ln y - 2.5), the spread of ln T, is no small number."""

STREAM_SHOWERS = 50
"""Showers that share one random stream, numbered from the start: a function of (seed, number)."""


def simulate(
    count: int,
    *,
    seed: int,
    energy_gev: tuple[float, float] = (10.0, 100.0),
    theta_deg: tuple[float, float] = (60.0, 120.0),
    cells: tuple[int, int] = (51, 51),
    block: int = 250,
    progress: Progress | None = None,
) -> Iterator[Showers]:
    """Simulates `count` showers, flat in energy and angle, in blocks of bounded memory.

    A shower is a function of its number, the seed, the ranges and the window: not of `count` and
    not of `block`. A block of 250 at full size holds 65 MB. Near 0 and 180 degrees the shower
    leaves the window sideways and the image holds little; the tuning saw 60 to 120 degrees.

    Args:
        count: How many.
        seed: Not negative.
        energy_gev: Range of the primary energy.
        theta_deg: Range of the polar angle, degrees.
        cells: Window along x and y, around the barycentre.
        block: Showers per block, a multiple of 50.
        progress: Told of each block.

    Raises:
        ConfigError: A range, the window, the block or a number is out of bounds; at the call.
    """
    _check_ranges(energy_gev, theta_deg)
    _check_size(count, seed, cells, block)
    return _blocks(
        count,
        seed=seed,
        ranges=(energy_gev, theta_deg),
        cells=cells,
        block=block,
        progress=progress or Silent(),
    )


def _check_ranges(energy_gev: tuple[float, float], theta_deg: tuple[float, float]) -> None:
    low, high = energy_gev
    if not MIN_ENERGY_GEV <= low <= high <= MAX_ENERGY_GEV:
        raise ConfigError(
            f"energies from {low} to {high} GeV asked; the formulas bear {MIN_ENERGY_GEV:g} to"
            f" {MAX_ENERGY_GEV:g} GeV (fitted between 10 and 100), the lower one first"
        )
    low, high = theta_deg
    if not 0 < low <= high < 180:  # noqa: PLR2004 (a straight angle)
        raise ConfigError(
            f"angles from {low} to {high} degrees asked; they lie between 0 and 180, both excluded"
            " (fitted between 60 and 120), the lower one first"
        )


def _check_size(count: int, seed: int, cells: tuple[int, int], block: int) -> None:
    if count < 1:
        raise ConfigError(f"{count} showers asked; ask for at least 1")
    if seed < 0:
        raise ConfigError(f"seed {seed} asked; a seed is 0 or more")
    if min(cells) < 1 or max(cells) > 255:  # noqa: PLR2004 (2 GB per block)
        raise ConfigError(f"a window of {cells} cells asked; each side is 1 to 255 cells")
    if block < 1 or block % STREAM_SHOWERS:
        raise ConfigError(f"blocks of {block} showers asked; use a multiple of {STREAM_SHOWERS}")


def _blocks(
    count: int,
    *,
    seed: int,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    cells: tuple[int, int],
    block: int,
    progress: Progress,
) -> Iterator[Showers]:
    source = Gflash(Detector(cells=cells))
    progress.start("simulating showers", count, "showers")
    for first in range(0, count, block):
        last = min(first + block, count)
        streams = range(first // STREAM_SHOWERS, -(-last // STREAM_SHOWERS))
        parts = [_stream(source, seed, number, ranges) for number in streams]
        energy, theta, ecal = (
            np.concatenate(part)[: last - first] for part in zip(*parts, strict=True)
        )
        yield Showers(ecal, energy, theta, measured_angle(ecal))
        progress.advance(last - first)


def _stream(
    source: Gflash, seed: int, number: int, ranges: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
    energy = random.uniform(*ranges[0], STREAM_SHOWERS).astype(np.float32)
    theta = np.deg2rad(random.uniform(*ranges[1], STREAM_SHOWERS)).astype(np.float32)
    # The float32 nearest to pi lies behind it, where a shower would run backwards.
    theta = np.minimum(theta, np.nextafter(np.float32(np.pi), np.float32(0)))
    ecal = source.draw(energy.astype(np.float64), theta.astype(np.float64), random)
    return energy, theta, ecal
