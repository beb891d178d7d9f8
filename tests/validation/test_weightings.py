from __future__ import annotations

import numpy as np
import pytest

from cloudgan.validation.overlap import common_part
from cloudgan.validation.weightings import plain, weightings


@pytest.fixture(params=["matched", "independent"])
def common(request, measured):
    other = measured if request.param == "matched" else measured[:401]
    return common_part(
        other, measured[:599] if request.param != "matched" else measured, least=2, seed=0
    )


def test_the_first_weighting_is_the_sample_itself(common):
    drawn = weightings(common, bootstraps=5, halvings=3, seed=1)
    assert drawn.generated.shape == (6, len(common.generated))
    assert drawn.reference.shape == (6, len(common.reference))
    assert (drawn.generated[0] == 1).all()
    assert (drawn.reference[0] == 1).all()
    assert np.array_equal(plain(common).generated, drawn.generated[:1])


def test_halves_share_no_shower_and_are_of_one_size(common):
    drawn = weightings(common, bootstraps=1, halvings=4, seed=1)
    size = len(common.reference) // 2
    assert (drawn.first * drawn.second == 0).all()
    assert (drawn.first.sum(1) == size).all()
    assert (drawn.second.sum(1) == size).all()
    assert len({row.tobytes() for row in drawn.first}) == 4


def test_halves_and_bootstrap_samples_of_matched_showers_are_matched(measured):
    common = common_part(measured, measured, least=2, seed=0)
    drawn = weightings(common, bootstraps=4, halvings=6, seed=1)
    assert np.array_equal(drawn.generated, drawn.reference)
    means = [(w @ measured.energy_gev / w.sum(1)) for w in (drawn.first, drawn.second)]
    assert means[0] == pytest.approx(means[1], rel=0.005)


def test_a_bootstrap_sample_scatters_like_the_mean(measured):
    common = common_part(measured[:300], measured, least=2, seed=0)
    drawn = weightings(common, bootstraps=300, halvings=1, seed=1)
    means = (drawn.generated @ common.generated.response / drawn.generated.sum(1))[1:]
    expected = common.generated.response.std() / np.sqrt(300)
    assert means.std() == pytest.approx(expected, rel=0.15)


def test_weightings_are_a_function_of_the_seed(common):
    first, again, other = (weightings(common, bootstraps=2, halvings=2, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.first, again.first)
    assert np.array_equal(first.reference, again.reference)
    assert not np.array_equal(first.first, other.first)
    assert not np.array_equal(first.reference, other.reference)
