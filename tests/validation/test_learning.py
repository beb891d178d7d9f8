from __future__ import annotations

import pytest

from cloudgan.validation.assessment import Assessment, Measure, Sample
from cloudgan.validation.gates import demo_gates, judge
from cloudgan.validation.learning import with_learning


def assessment(value, **more):
    sample = Sample(name="a", showers=300, cells=(21, 21, 25), energy_range_gev=(10, 20))
    core = Measure(name="profile_z", where="core", value=value, **more)
    return Assessment(generated=sample, reference=sample, seed=0, measures=(core,))


def left(trained, untrained):
    return with_learning(assessment(trained), assessment(untrained)).all("profile_z_left")[0]


def test_what_is_left_is_the_share_of_the_error_before_training():
    assert left(0.06, 0.6).value == pytest.approx(0.1)
    measure = with_learning(assessment(0.06, error=0.006), assessment(0.6, error=0.06))
    assert measure.all("profile_z_left")[0].error == pytest.approx(0.1 * 0.1 * 2**0.5)


@pytest.mark.parametrize(
    ("trained", "untrained", "passes"), [(0.06, 0.6, True), (0.11, 0.3, False)]
)
def test_a_network_that_was_nearly_as_good_before_training_did_not_learn(
    trained, untrained, passes
):
    verdict = judge(with_learning(assessment(trained), assessment(untrained)), demo_gates())
    assert verdict.passed is passes
    assert any("hardly learned" in text for text in verdict.broken) is not passes


def test_without_an_error_to_begin_with_nothing_is_known():
    assert left(0.06, 0.0).value is None
    assert left(None, 0.6).value is None
