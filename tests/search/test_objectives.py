"""What a trial is ranked by."""

from __future__ import annotations

import math

import pytest

from cloudgan.schema.record import Epoch, RunRecord, Stopped, Validated
from cloudgan.search.objectives import objective_median, spent_seconds

TIME = "2026-11-22T00:00:00Z"


def validated(step, value, *, program_seconds=1.0):
    return Validated(
        time=TIME, step=step, epoch=step - 1, showers=200, metrics={"metric": value}, seconds=0.1,
        ranked_by="metric", best=True, program_seconds=program_seconds,
    )  # fmt: skip


def epoch(step, seconds, *, held_out=None):
    return Epoch(
        time=TIME, step=step, epoch=step - 1, first=False, complete=True, steps=1, samples=8,
        carried_samples=0, dropped_samples=0, train_seconds=seconds, trace_seconds=0,
        validation_seconds=1.0, checkpoint_seconds=0.5, samples_per_second=8, losses={},
        held_out_losses=held_out,
    )  # fmt: skip


def stopped(step, seconds):
    return Stopped(
        time=TIME, step=step, reason="finished", program_seconds=seconds, train_seconds=seconds
    )


def test_the_median_of_the_last_three_numbers_ranks_and_one_without_a_value_spoils_it():
    numbers = [validated(step, value) for step, value in enumerate((9.0, 3.0, 5.0, 4.0), start=1)]
    assert objective_median(RunRecord(lines=tuple(numbers)), "metric") == 4.0
    spoilt = (*numbers, validated(5, math.nan))
    assert objective_median(RunRecord(lines=spoilt), "metric") is None
    assert objective_median(RunRecord(lines=()), "metric") is None


def test_the_loss_of_the_generator_on_held_out_showers_may_rank_trials():
    losses = [{"generator": {"total": value}} for value in (9.0, 3.0, 5.0, 4.0)]
    lines = [epoch(step, 1.0, held_out=one) for step, one in enumerate(losses, start=1)]
    assert objective_median(RunRecord(lines=tuple(lines)), "generator_loss") == 4.0
    assert objective_median(RunRecord(lines=(epoch(1, 1.0),)), "generator_loss") is None


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), None),
        ((validated(1, 0.3), stopped(1, 20.0)), 20.0),
        ((epoch(1, 4.0), epoch(2, 5.0)), 12.0),
        ((epoch(1, 4.0), validated(1, 0.3, program_seconds=9.0)), 9.0),
    ],
)
def test_the_time_of_a_killed_process_counts_until_its_last_line(lines, seconds):
    assert spent_seconds(RunRecord(lines=lines)) == seconds
