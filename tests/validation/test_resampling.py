from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation.overlap import overlap_region
from cloudgan.validation.resampling import draw_weights, halves


@pytest.fixture(params=["matched", "independent"])
def overlap(request, measured):
    other = measured if request.param == "matched" else measured[:401]
    return overlap_region(
        other, measured[:599] if request.param != "matched" else measured, min_showers=2, seed=0
    )


def test_the_first_weight_vector_is_all_ones(overlap):
    ours, theirs = draw_weights(overlap, bootstraps=5, seed=1)
    assert ours.shape == (6, len(overlap.generated))
    assert theirs.shape == (6, len(overlap.reference))
    assert (ours[0] == 1).all()
    assert (theirs[0] == 1).all()


def test_halves_share_no_shower_and_are_of_one_size(overlap):
    found = list(halves(overlap, count=4, seed=1))
    size = len(overlap.reference) // 2
    for pair in found:
        assert [len(half) for half in pair] == [size, size]
        assert not set(pair[0].sum_gev) & set(pair[1].sum_gev)
    assert len({first.sum_gev.tobytes() for first, _ in found}) == 4


def test_halves_and_bootstrap_samples_of_matched_showers_are_matched(measured):
    overlap = overlap_region(measured, measured, min_showers=2, seed=0)
    ours, theirs = draw_weights(overlap, bootstraps=4, seed=1)
    assert np.array_equal(ours, theirs)
    for first, second in halves(overlap, count=6, seed=1):
        assert first.energy_gev.mean() == pytest.approx(second.energy_gev.mean(), rel=0.005)


def test_a_bootstrap_sample_scatters_like_the_mean(measured):
    overlap = overlap_region(measured[:300], measured, min_showers=2, seed=0)
    ours, _ = draw_weights(overlap, bootstraps=300, seed=1)
    means = (ours @ overlap.generated.response / ours.sum(1))[1:]
    expected = overlap.generated.response.std() / np.sqrt(300)
    assert means.std() == pytest.approx(expected, rel=0.15)


def test_weights_are_a_function_of_the_seed(overlap):
    first, again, other = (draw_weights(overlap, bootstraps=2, seed=s)[1] for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    halved = [next(halves(overlap, count=1, seed=s))[0].sum_gev for s in (1, 1, 2)]
    assert np.array_equal(halved[0], halved[1])
    assert not np.array_equal(halved[0], halved[2])
