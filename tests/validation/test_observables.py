from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.validation.observables import (
    HIGH_LEVEL,
    PER_SHOWER,
    SPECTRUM_EDGES_GEV,
    high_level,
    join_observables,
    low_level,
    observe,
    observe_blocks,
)


def showers_of(ecal):
    ecal = np.asarray(ecal, np.float32)
    full = np.full(len(ecal), 10, np.float32)
    return Showers(ecal, full, None, measured_angle(ecal))


def one(cells):
    """One shower of 21 x 21 x 5 cells: {(x, y, z): GeV}."""
    ecal = np.zeros((1, 21, 21, 5), np.float32)
    for place, energy in cells.items():
        ecal[(0, *place)] = energy
    return observe(showers_of(ecal))


SPREAD = {(10, 11, 1): 0.1, (10, 13, 1): 0.1, (12, 10, 4): 0.2}
THRESHOLDS = {(1, 1, 1): 1e-5, (1, 1, 2): 2e-4, (1, 1, 3): 2e-3, (1, 1, 4): 2e-2}


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ({(10, 10, 2): 0.15, (10, 11, 3): 0.05}, {"sum_gev": 0.2, "response": 0.02}),
        # Cells below 2 keV are noise.
        ({(10, 10, 2): 0.1, (0, 0, 0): 1.9e-6}, {"sum_gev": 0.1, "tail_gev": 0, "cells": 1}),
        ({(3, 10, 2): 0.1, (10, 4, 1): 0.2}, {"profile_z_gev": [0, 0.2, 0.1, 0, 0]}),
        # A hit is a cell above a third of an MeV.
        ({(10, 10, 2): 3.1e-4, (10, 10, 3): 2.9e-4, (1, 1, 1): 1.0}, {"hits": 2}),
        # The tails begin five columns from the middle.
        ({(6, 14, 2): 0.1, (14, 6, 2): 0.1}, {"tail_gev": 0}),
        ({(5, 10, 2): 0.1, (10, 15, 2): 0.3, (10, 10, 2): 1.0}, {"tail_gev": 0.4}),
        ({(10, 10, 4): 0.1, (10, 10, 0): 0.3}, {"shares_z": [0.75, 0, 0, 0, 0.25]}),
        (SPREAD, {"shares_z": [0, 0.5, 0, 0, 0.5], "layer_y_cells": [0, 2, 0, 0, 0]}),
        (SPREAD, {"layer_x_cells": [0, 0, 0, 0, 2], "layer_width_cells": [0, 1, 0, 0, 0]}),
        (THRESHOLDS, {"cells": 4, "hits_low": 3, "hits": 2, "hits_high": 1}),
        (THRESHOLDS, {"largest_gev": 0.02, "largest_share": 0.02 / 0.02221}),
        ({}, {"sum_gev": 0, "angle_rad": 0, "shares_z": [0] * 5, "largest_share": 0}),
    ],
)
def test_a_shower_of_a_few_cells_has_the_observables_that_one_counts(cells, values):
    seen = one(cells)
    for name, value in values.items():
        assert getattr(seen, name)[0] == pytest.approx(value, rel=1e-7), name


def test_profiles_and_moments_keep_their_axes_and_are_those_of_the_authors():
    seen = one({(3, 10, 2): 0.1, (10, 4, 1): 0.2})
    assert (seen.profile_x_gev[0, 3], seen.profile_y_gev[0, 4]) == pytest.approx((0.1, 0.2))
    seen = one({(4, 10, 1): 0.3, (8, 10, 3): 0.1})
    found = {axis: [float(each[0]) for each in seen.moments(axis)] for axis in "xyz"}
    assert found == {
        axis: pytest.approx(both)
        for axis, both in {"x": [5.0, 3.0], "y": [10.0, 0.0], "z": [1.5, 0.75]}.items()
    }


def test_the_spectrum_counts_each_cell_in_its_bin():
    seen = one({(10, 10, 2): 1e-3, (10, 10, 3): 1.01e-3, (10, 10, 4): 0.5})
    counts, _ = np.histogram([1e-3, 1.01e-3, 0.5], SPECTRUM_EDGES_GEV)
    assert np.array_equal(seen.spectrum[0], counts)


def test_many_showers_are_measured_like_one(reference):
    whole, single = observe(reference), observe(reference[150:151])
    assert len(whole) == 600
    assert whole.moments("y")[1][150] == pytest.approx(single.moments("y")[1][0])
    assert whole.hits[150] == single.hits[0]


def test_the_angle_is_the_one_the_image_shows(reference):
    assert observe(reference).angle_rad == pytest.approx(reference.mtheta_rad, abs=1e-4)


@pytest.mark.parametrize(
    ("field", "at", "value", "said"),
    [
        *[
            ("ecal_gev", (123, 4, 4, 4), value, "image: shower 123 ")
            for value in (np.nan, np.inf, -1)
        ],
        *[("energy_gev", 7, value, "shower 7 has a primary energy") for value in (np.nan, 0, -3)],
    ],
)
def test_an_invalid_number_is_named(reference, field, at, value, said):
    changed = getattr(reference, field).copy()
    changed[at] = value
    with pytest.raises(DataError, match=said):
        observe(replace(reference, **{field: changed}), "image")


def test_no_shower_at_all_is_refused(reference):
    with pytest.raises(DataError, match="no shower"):
        observe(reference[:0], "generated showers")


class Blocks:
    """A source of showers that records how many images are in memory."""

    def __init__(self, showers, count=None):
        self.showers, self.count = showers, count or len(showers)

    def blocks(self, size):
        for first in range(0, self.count, size):
            rows = np.arange(first, min(first + size, self.count)) % len(self.showers)
            yield self.showers[rows]


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in (*PER_SHOWER, "image", "angle_known")
    )


def test_a_stream_is_measured_like_the_whole(reference):
    whole = observe(reference)
    assert same(observe_blocks(Blocks(reference).blocks(250)), whole)
    blocks = [reference[:7], reference[7:300], reference[300:]]
    assert same(observe_blocks(blocks), whole)


def test_a_longer_source_is_sampled_evenly(reference):
    some = observe_blocks(Blocks(reference).blocks(250), count=600, at_most=100)
    rows = np.linspace(0, 599, 100).astype(int)
    assert same(some, observe(reference)[rows])
    assert some.out_of == 600
    assert observe_blocks(Blocks(reference).blocks(250), count=600, at_most=600).out_of == 0


def test_memory_does_not_grow_with_the_number_of_showers(reference):
    """Memory holds one block of images and the observables of the maximum number."""

    def peak(count):
        tracemalloc.start()
        observe_blocks(Blocks(reference, count).blocks(250), count=count, at_most=200)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    few, many = peak(500), peak(2000)
    assert many < 1.1 * few
    assert many < 3 * reference.ecal_gev[:250].nbytes


def test_observables_take_a_kilobyte_per_shower(reference):
    kept = observe(reference)
    size = sum(getattr(kept, name).nbytes for name in PER_SHOWER) / len(kept)
    assert size < 1200


def test_a_bad_shower_in_a_stream_is_named_by_its_number_in_the_file(reference):
    ecal = reference.ecal_gev.copy()
    ecal[404, 4, 4, 4] = np.nan
    bad = Blocks(replace(reference, ecal_gev=ecal))
    with pytest.raises(DataError, match=r"a\.h5: shower 404 "):
        observe_blocks(bad.blocks(250), "a.h5")
    with pytest.raises(DataError, match="shower 404 "):
        observe_blocks(bad.blocks(250), count=600, at_most=599)


def test_the_requested_angle_is_given_or_theta_or_the_measured_angle(reference):
    known = observe(reference)
    assert known.angle_known
    assert known.requested_rad == pytest.approx(reference.theta_rad)
    unknown = observe(replace(reference, theta_rad=None))
    assert not unknown.angle_known
    assert unknown.requested_rad == pytest.approx(reference.mtheta_rad)
    requested = np.linspace(1, 2, 600)
    said = observe_blocks(Blocks(reference).blocks(250), requested_rad=requested)
    assert said.angle_known
    assert np.array_equal(said.requested_rad, requested)
    assert not join_observables([known, unknown]).angle_known


def test_first_and_last_layers_are_six_and_eight(reference):
    seen = observe(reference[:3])
    shares = seen.profile_z_gev / seen.sum_gev[:, None]
    assert seen.first_layers_share == pytest.approx(shares[:, :6].sum(1))
    assert seen.last_layers_share == pytest.approx(shares[:, 17:].sum(1))


def test_the_features_are_fifteen_and_a_hundred_and_two(measured):
    high, low = high_level(measured), low_level(measured)
    assert high.shape == (600, 15) == (600, len(HIGH_LEVEL))
    assert low.shape == (600, 102)
    assert np.isfinite(high).all()
    assert np.isfinite(low).all()
    assert high[:, HIGH_LEVEL.index("energy")] == pytest.approx(measured.energy_gev)
    assert high[:, HIGH_LEVEL.index("hits above 3 MeV")] == pytest.approx(measured.hits_high)
    assert low[:, :25].sum(1) == pytest.approx(1)
    assert low[:, 100] == pytest.approx(measured.response)
