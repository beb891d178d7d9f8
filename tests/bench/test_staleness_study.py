"""Update rules under staleness on a noisy quadratic."""

import math

import pytest

from cloudgan.bench.staleness_study import (
    RULES,
    StudyRow,
    final_loss,
    study_json,
    study_table,
)

START = 57.6


@pytest.mark.parametrize("workers", [4, 8])
def test_plain_downpour_diverges_at_a_high_rate_and_no_other_rule_does(workers):
    losses = {name: final_loss(rule, workers, 0.5, steps=150) for name, rule in RULES.items()}
    assert math.isinf(losses.pop("downpour, undamped"))
    assert all(loss < START / 5 for loss in losses.values()), losses


def test_plain_downpour_converges_at_a_low_rate_of_two_workers():
    assert final_loss(RULES["downpour, undamped"], 2, 0.1) < 0.5


def test_a_diverged_training_is_named_in_the_table_and_null_in_json():
    rows = [StudyRow("downpour, undamped", 0.5, {1: 0.614, 4: math.inf})]
    assert study_table(rows).rows == (("0.5", "downpour, undamped", "0.614", "diverged"),)
    assert study_json(rows)[0]["losses"] == {"1": 0.614, "4": None}
