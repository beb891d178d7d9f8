"""What a trial is ranked by."""

from __future__ import annotations

import math

import pytest

from cloudgan.schema.record import RunRecord
from cloudgan.search.objectives import objective_median, spent_seconds
from records import epoch, stopped, validated


def test_the_median_of_the_last_three_numbers_ranks_and_one_without_a_value_spoils_it():
    numbers = [validated(step, value) for step, value in enumerate((9.0, 3.0, 5.0, 4.0))]
    assert objective_median(RunRecord(lines=tuple(numbers)), "metric") == 4.0
    spoilt = (*numbers, validated(4, math.nan))
    assert objective_median(RunRecord(lines=spoilt), "metric") is None
    assert objective_median(RunRecord(lines=()), "metric") is None


def test_the_loss_of_the_generator_on_held_out_showers_may_rank_trials():
    losses = [{"generator": {"total": value}} for value in (9.0, 3.0, 5.0, 4.0)]
    lines = [epoch(number, held_out_losses=one) for number, one in enumerate(losses)]
    assert objective_median(RunRecord(lines=tuple(lines)), "generator_loss") == 4.0
    assert objective_median(RunRecord(lines=(epoch(0),)), "generator_loss") is None


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), None),
        ((validated(0, 0.3), stopped(1, 20.0)), 20.0),
        ((epoch(0, 4.0), epoch(1, 5.0)), 15.0),
        ((epoch(0, 4.0), validated(0, 0.3, program_seconds=9.0)), 9.0),
    ],
)
def test_the_time_of_a_killed_process_counts_until_its_last_line(lines, seconds):
    assert spent_seconds(RunRecord(lines=lines)) == seconds
