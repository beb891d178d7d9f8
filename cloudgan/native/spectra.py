"""Kernels to their spectra and back, as matrices: small enough for a plain product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cloudgan.native.geometry import Geometry

Doubles = np.ndarray[Any, np.dtype[np.float64]]


def to_spectrum(sizes: Geometry) -> Doubles:
    """(frequencies along depth * along y * 2, taps along y * along depth).

    Rows hold cosines and sines in turn; times a kernel they give its spectrum, divided by the number
    of frequencies, so that the transforms of the images need no factor.
    """
    turns = _waves(sizes)
    return np.stack([turns.real, turns.imag], 1).reshape(-1, turns.shape[1])


def from_spectrum(sizes: Geometry) -> Doubles:
    """The way back for gradients, (taps along y * along depth, frequencies * 2).

    Frequencies along depth of which only one half is computed count twice.
    """
    twice = np.full(sizes.frequencies, 2.0)
    twice[0] = 1.0
    if sizes.period[1] % 2 == 0:
        twice[-1] = 1.0
    turns = _waves(sizes) * np.repeat(twice, sizes.period[0])[:, None]
    return np.stack([turns.real, -turns.imag], 1).reshape(-1, turns.shape[1]).T


def _waves(sizes: Geometry) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """exp(i omega (tap - before)) / frequencies, by frequency and tap."""
    period_y, period_z = sizes.period
    _, taps_y, taps_z = sizes.kernel
    along_y = np.outer(np.arange(period_y), np.arange(taps_y) - sizes.before[1]) / period_y
    along_z = np.outer(np.arange(sizes.frequencies), np.arange(taps_z) - sizes.before[2]) / period_z
    turns = along_z[:, None, None, :] + along_y[None, :, :, None]
    waves: np.ndarray[Any, np.dtype[np.complex128]] = np.exp(2j * np.pi * turns)
    return waves.reshape(-1, taps_y * taps_z) / (period_y * period_z)
