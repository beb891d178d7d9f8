"""The page of a run: what its epochs were worth."""

from __future__ import annotations

from cloudgan.cli.report import quality_sections
from cloudgan.core.record import RunRecord, Validated


def validated(epoch, **numbers):
    return Validated(
        time="2026-01-01T00:00:00Z",
        step=10 * (epoch + 1),
        epoch=epoch,
        showers=300,
        numbers=numbers,
        seconds=0.5,
        by="metric",
        best=epoch == 0,
        program_seconds=9.0,
    )


def test_the_numbers_of_epochs_are_a_curve_that_says_which_is_the_best():
    found = (validated(0, metric=0.2, hits=0.3), validated(1, metric=0.25, hits=float("nan")))
    (section,) = quality_sections(RunRecord(lines=found))
    (curve,) = section.blocks
    assert "<svg" in curve.svg
    assert "300 generated showers" in curve.caption
    assert "metric 0.25 after epoch 2, best 0.2 after epoch 1" in curve.caption


def test_a_run_that_was_not_validated_has_no_such_part():
    assert quality_sections(RunRecord(lines=())) == ()
