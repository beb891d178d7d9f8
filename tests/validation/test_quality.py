from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.validation.observables import observe
from cloudgan.validation.quality import quick_numbers

NAMES = ["metric", "response", "profile_z", "hits", "angle", "separation"]


def numbers(ecal, reference, measured):
    asked = reference.theta_rad
    return quick_numbers(observe(replace(reference, ecal_gev=ecal), requested_rad=asked), measured)


def test_equal_showers_are_at_zero_in_each_number(measured):
    found = quick_numbers(measured, measured)
    assert list(found) == NAMES
    assert list(found.values()) == pytest.approx([0] * 6, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        (lambda c: np.float32(1.05) * c, "response", 0.05),
        (lambda c: c[:, :, ::-1], "angle", 2.0),
    ],
)
def test_each_number_sees_what_it_is_for(change, name, value, reference, measured):
    found = numbers(change(reference.ecal_gev), reference, measured)
    assert found[name] == pytest.approx(value, rel=0.05)
    assert found["metric"] > 0.01


def test_the_response_is_that_of_the_worst_bin_of_energy(reference, measured):
    factor = np.where(reference.energy_gev > 70, np.float32(1.2), np.float32(1))
    found = numbers(reference.ecal_gev * factor[:, None, None, None], reference, measured)
    assert found["response"] == pytest.approx(0.2, abs=0.01)


def test_hits_are_those_above_a_third_of_an_mev(reference, measured):
    gev = reference.ecal_gev
    found = numbers(
        np.where((gev > 3e-4) & (gev < 6e-4), np.float32(2e-4), gev), reference, measured
    )
    assert found["hits"] == pytest.approx(1 - (gev >= 6e-4).sum() / (gev > 3e-4).sum(), abs=1e-6)


def test_a_shift_in_depth_is_seen_by_the_profile_and_by_the_metric(reference, measured):
    found = numbers(np.roll(reference.ecal_gev, 1, axis=3), reference, measured)
    assert found["profile_z"] > 0.1
    assert found["metric"] > 0.1
    assert found["response"] == pytest.approx(0, abs=1e-6)


def test_noise_is_far_off_in_shape(noise, measured):
    found = quick_numbers(observe(noise), measured)
    assert found["separation"] > 0.5
    assert found["metric"] > 1


def test_what_cannot_be_said_is_left_out(reference, measured):
    found = quick_numbers(observe(replace(reference, theta_rad=None)), measured)
    assert list(found) == [name for name in NAMES if name != "angle"]
    nothing = quick_numbers(observe(replace(reference, ecal_gev=0 * reference.ecal_gev)), measured)
    assert "metric" not in nothing
    assert nothing["response"] == 1
