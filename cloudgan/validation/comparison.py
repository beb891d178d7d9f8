"""Two samples of showers in a few numbers, each beside what chance alone would give.

The numbers are ratios generated/reference, or mean distances of such ratios from 1, on event by
event equal energies and requested angles. The floor of a number is the same number for two random
halves of the reference, whose energies are matched in pairs: what the reference says of itself.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.validation.observables import observe
from cloudgan.validation.ratios import MIN_IN_BIN, energy_bins, energy_edges, halves, ratios

if TYPE_CHECKING:
    from cloudgan.data.showers import Showers
    from cloudgan.validation.observables import Observables

MIN_SHOWERS = 20
"""Fewer are not compared."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measured(_Part):
    """A number and its floor; None is unknown, and a note of the comparison says why."""

    value: float | None
    floor: float | None


class EnergyBin(_Part):
    """The energy response between two primary energies.

    Attributes:
        low_gev: Lower edge, included.
        high_gev: Upper edge, excluded but in the last bin.
        showers: How many of the reference.
        response_ratio: mean(Esum/E), generated over reference.
        width_ratio: Standard deviation of Esum/E, generated over reference.
    """

    low_gev: float
    high_gev: float
    showers: int
    response_ratio: Measured
    width_ratio: Measured


class Comparison(_Part):
    """Generated against reference showers.

    Attributes:
        schema_version: 1.
        showers: How many of each.
        seed: Of the random halves.
        bins: Energy response, three bins.
        profile_x: Mean of |ratio - 1| of the mean absolute energy per column along x, over the
            columns that hold more than 1 % of the reference's energy.
        profile_y: The same along y.
        profile_z: The same per layer: the longitudinal profile.
        hits_ratio: Mean number of cells above 0.3 MeV.
        angle_slope: Slope of the least-squares line of the angle measured on the generated image
            against the requested one, the reference's `mtheta_rad`: 1 obeys, 0 ignores. Its floor
            is that of reference images against their own.
        rms_x_ratio: Mean lateral rms along x, of the showers that are not empty.
        rms_y_ratio: The same along y.
        tail_ratio: Share of the energy outside the central 9 x 9 columns.
        last_layer_ratio: Share of the energy in the last layer.
        empty_generated: Generated showers without a cell above 2 keV.
        notes: What is unknown, and why.
    """

    schema_version: Literal[1] = 1
    showers: int
    seed: int
    bins: tuple[EnergyBin, ...]
    profile_x: Measured
    profile_y: Measured
    profile_z: Measured
    hits_ratio: Measured
    angle_slope: Measured
    rms_x_ratio: Measured
    rms_y_ratio: Measured
    tail_ratio: Measured
    last_layer_ratio: Measured
    empty_generated: int
    notes: tuple[str, ...] = ()


def compare(
    generated: Showers,
    reference: Showers,
    *,
    edges_gev: tuple[float, ...] | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares showers that share energies and requested angles, event by event.

    Args:
        generated: From a generator that was asked for the reference's energies and `mtheta_rad`.
        reference: Monte Carlo, never trained on.
        edges_gev: Edges of the energy bins; see `energy_edges`.
        seed: Of the random halves.

    Raises:
        DataError: The samples do not match, are too small, or all of one sample is empty.
    """
    _check_match(generated, reference)
    return compare_observables(
        observe(generated, "generated showers"),
        observe(reference, "reference showers", requested_rad=reference.mtheta_rad),
        edges_gev=edges_gev,
        seed=seed,
    )


def compare_observables(
    generated: Observables,
    reference: Observables,
    *,
    edges_gev: tuple[float, ...] | None = None,
    seed: int = 0,
) -> Comparison:
    """`compare` for samples that are measured already.

    Raises:
        DataError: All of one sample is empty.
        ConfigError: The edges do not rise.
    """
    _check_content(generated, reference, edges_gev)
    generated = replace(generated, requested_rad=reference.requested_rad)
    edges = edges_gev or energy_edges(reference.energy_gev)
    first, second = halves(reference.energy_gev, seed)
    found = ratios(generated, reference, edges)
    floor = ratios(reference[first], reference[second], edges)
    measured = {key: Measured(value=found[key], floor=floor[key]) for key in found}
    inside = energy_bins(reference.energy_gev, edges)
    bins = tuple(
        EnergyBin(
            low_gev=edges[number],
            high_gev=edges[number + 1],
            showers=int(rows.sum()),
            response_ratio=measured.pop(f"response {number}"),
            width_ratio=measured.pop(f"width {number}"),
        )
        for number, rows in enumerate(inside)
    )
    empty = int((generated.sum_gev == 0).sum())
    return Comparison.model_validate(
        {
            "showers": len(generated),
            "seed": seed,
            "bins": bins,
            "empty_generated": empty,
            "notes": _notes(found, empty),
        }
        | measured
    )


def _check_match(generated: Showers, reference: Showers) -> None:
    if len(generated) != len(reference):
        raise DataError(
            f"{len(generated)} generated showers, {len(reference)} of the reference;"
            " generate one for each shower of the reference"
        )
    if len(reference) < MIN_SHOWERS:
        raise DataError(f"{len(reference)} showers cannot be compared; give {MIN_SHOWERS} or more")
    if generated.ecal_gev.shape[1:] != reference.ecal_gev.shape[1:]:
        raise DataError(
            f"generated images of {generated.ecal_gev.shape[1:]} cells, reference images of"
            f" {reference.ecal_gev.shape[1:]}; cut both to the same window"
        )
    if not np.allclose(generated.energy_gev, reference.energy_gev, rtol=1e-3):
        row = int(np.argmax(np.abs(generated.energy_gev - reference.energy_gev)))
        raise DataError(
            f"shower {row} was generated at {generated.energy_gev[row]:.4g} GeV, the reference has"
            f" {reference.energy_gev[row]:.4g} GeV; generate at the energies of the reference"
        )


def _check_content(
    generated: Observables, reference: Observables, edges_gev: tuple[float, ...] | None
) -> None:
    for name, sample in (("generated", generated), ("reference", reference)):
        if not sample.sum_gev.any():
            raise DataError(
                f"all {len(sample)} {name} showers are empty (no cell above 2 keV):"
                " a generator that collapsed, or energies in another unit than GeV"
            )
    if edges_gev and (len(edges_gev) == 1 or any(a >= b for a, b in pairwise(edges_gev))):
        raise ConfigError(f"energy edges {edges_gev} asked; give two or more, rising, in GeV")


def _notes(numbers: dict[str, float | None], empty: int) -> tuple[str, ...]:
    """Says what is unknown."""
    reasons = {
        "response": f"fewer than {MIN_IN_BIN} showers in the energy bin",
        "width": f"fewer than {MIN_IN_BIN} showers in the energy bin, or all alike",
        "angle_slope": "all showers were asked for the same angle",
        "tail_ratio": "the reference holds nothing outside the central 9 x 9 columns",
        "hits_ratio": "the reference holds no cell above 0.3 MeV",
    }
    notes = [
        f"{key} is unknown: {reasons.get(key.split()[0], 'the reference holds nothing there')}"
        for key, value in numbers.items()
        if value is None
    ]
    return (f"{empty} generated showers are empty",) * bool(empty) + tuple(notes)
