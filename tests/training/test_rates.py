from __future__ import annotations

import math

import pytest

from cloudgan.core.config import parse_config
from cloudgan.training.rates import make_rates, scaled_rate

pytestmark = pytest.mark.tf


def config(**training):
    return parse_config({"training": {"reference_batch_size": 64} | training}, "x")


@pytest.mark.parametrize(
    ("scale", "factor"), [("none", 1.0), ("linear", 4.0), ("sqrt", math.sqrt(4.0))]
)
def test_the_rate_grows_with_the_global_batch_as_asked(scale, factor):
    assert scaled_rate(config(scale_lr=scale), 256) == pytest.approx(1e-3 * factor)


def test_warm_up_rises_from_the_base_rate_to_the_scaled_one_over_each_networks_own_updates():
    rates = make_rates(config(scale_lr="linear", warmup_epochs=2), 256, steps_per_epoch=10)
    for rate, updates_per_step in ((rates.generator, 2), (rates.discriminator, 2)):
        end = 2 * 10 * updates_per_step
        assert float(rate(0)) == pytest.approx(1e-3)
        assert float(rate(end / 2)) == pytest.approx(2.5e-3)
        assert float(rate(end)) == pytest.approx(4e-3)
        assert float(rate(10 * end)) == pytest.approx(4e-3)


def test_a_rate_that_does_not_rise_needs_no_warm_up():
    rates = make_rates(config(scale_lr="linear"), 32, steps_per_epoch=10)
    assert rates.generator == rates.discriminator == pytest.approx(5e-4)
