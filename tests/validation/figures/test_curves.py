from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.validation.figures.curves import (
    integer_edges,
    mean_rows,
    means,
    shared_edges,
    shares,
    widths_percent,
)
from cloudgan.validation.observables.observables import observe


@pytest.fixture(scope="module")
def sample(reference):
    return observe(reference)


def with_hits(sample, values):
    return replace(sample[slice(0, len(values))], hits=np.array(values, float))


def hits(sample):
    return sample.hits


def energy(sample):
    return sample.energy_gev


def test_shares_count_each_shower_once_and_the_unknown_ones_nowhere(sample):
    curve = shares(hits, np.array([0.0, 2.0, 4.0]))(with_hits(sample, [1, 1, 1, 3, np.nan, 9]))
    assert curve.values == pytest.approx([3 / 6, 1 / 6])
    assert curve.errors == pytest.approx([3**0.5 / 6, 1 / 6])


def test_means_and_widths_are_those_of_each_bin_with_the_errors_of_its_size(sample):
    few = replace(with_hits(sample, [1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60]),
                  energy_gev=np.array([10.0] * 6 + [30.0] * 6))  # fmt: skip
    edges = np.array([0.0, 20.0, 30.0])
    mean, width = means(energy, hits, edges)(few), widths_percent(energy, hits, edges)(few)
    spread = np.std([1, 2, 3, 4, 5, 6])
    assert mean.values == pytest.approx([3.5, 35.0])
    assert mean.errors == pytest.approx([spread / 6**0.5, 10 * spread / 6**0.5])
    assert width.values == pytest.approx([100 * spread / 3.5] * 2)
    assert width.errors == pytest.approx([100 * spread / 3.5 / 12**0.5] * 2)


def test_a_bin_with_few_showers_is_unknown(sample):
    few = replace(with_hits(sample, [1, 2, 3, 4]), energy_gev=np.full(4, 10.0))
    assert np.isnan(means(energy, hits, np.array([0.0, 20.0]))(few).values).all()


def test_profiles_are_means_over_showers(sample):
    curve = mean_rows(lambda s: s.profile_z_gev, 1000.0)(sample)
    assert curve.values == pytest.approx(1000 * sample.profile_z_gev.mean(0), rel=1e-5)
    assert curve.errors.max() < curve.values.max() / 20


def test_edges_hold_nearly_all_of_both_samples_and_bins_grow_with_their_size():
    one, other = np.linspace(0, 1, 200), np.linspace(2, 3, 200)
    edges = shared_edges((one, other))
    assert edges[0] == pytest.approx(0, abs=0.01)
    assert edges[-1] == pytest.approx(3, abs=0.01)
    assert len(shared_edges((one, np.linspace(0, 1, 20000)))) == len(edges) < 20
    assert len(shared_edges((np.linspace(0, 1, 20000),))) == 41


@pytest.mark.parametrize("values", [np.full(50, 7.0), np.zeros(50), np.full(50, np.nan)])
def test_edges_of_constant_values_still_ascend(values):
    assert (np.diff(shared_edges((values,))) > 0).all()


def test_edges_of_whole_numbers_lie_between_them():
    edges = integer_edges((np.arange(3, 12).repeat(30).astype(float),))
    assert (edges[0], edges[-1]) == (2.5, 11.5)
    assert set(np.diff(edges)) == {1.0}
    assert set(np.diff(integer_edges((np.arange(1000.0),)))) == {50.0}
