from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation.metrics.bootstrap_weights import draw_weights, unit_weights
from cloudgan.validation.observables.overlap import overlap_region


@pytest.fixture(params=["matched", "independent"])
def overlap(request, measured):
    other = measured if request.param == "matched" else measured[:401]
    return overlap_region(
        other, measured[:599] if request.param != "matched" else measured, min_showers=2, seed=0
    )


def test_the_first_weight_vector_is_all_ones(overlap):
    drawn = draw_weights(overlap, bootstraps=5, halvings=3, seed=1)
    assert drawn.generated.shape == (6, len(overlap.generated))
    assert drawn.reference.shape == (6, len(overlap.reference))
    assert (drawn.generated[0] == 1).all()
    assert (drawn.reference[0] == 1).all()
    assert np.array_equal(unit_weights(overlap).generated, drawn.generated[:1])


def test_halves_share_no_shower_and_are_of_one_size(overlap):
    drawn = draw_weights(overlap, bootstraps=1, halvings=4, seed=1)
    size = len(overlap.reference) // 2
    assert (drawn.first * drawn.second == 0).all()
    assert (drawn.first.sum(1) == size).all()
    assert (drawn.second.sum(1) == size).all()
    assert len({row.tobytes() for row in drawn.first}) == 4


def test_halves_and_bootstrap_samples_of_matched_showers_are_matched(measured):
    overlap = overlap_region(measured, measured, min_showers=2, seed=0)
    drawn = draw_weights(overlap, bootstraps=4, halvings=6, seed=1)
    assert np.array_equal(drawn.generated, drawn.reference)
    means = [(w @ measured.energy_gev / w.sum(1)) for w in (drawn.first, drawn.second)]
    assert means[0] == pytest.approx(means[1], rel=0.005)


def test_a_bootstrap_sample_scatters_like_the_mean(measured):
    overlap = overlap_region(measured[:300], measured, min_showers=2, seed=0)
    drawn = draw_weights(overlap, bootstraps=300, halvings=1, seed=1)
    means = (drawn.generated @ overlap.generated.response / drawn.generated.sum(1))[1:]
    expected = overlap.generated.response.std() / np.sqrt(300)
    assert means.std() == pytest.approx(expected, rel=0.15)


def test_weights_are_a_function_of_the_seed(overlap):
    first, again, other = (
        draw_weights(overlap, bootstraps=2, halvings=2, seed=s) for s in (1, 1, 2)
    )
    assert np.array_equal(first.first, again.first)
    assert np.array_equal(first.reference, again.reference)
    assert not np.array_equal(first.first, other.first)
    assert not np.array_equal(first.reference, other.reference)
