"""The report of a demo."""

from __future__ import annotations

from cloudgan.api.run_page import quality_sections
from cloudgan.schema.record import RunRecord, Validated


def validated(epoch, **numbers):
    return Validated(
        time="2026-01-01T00:00:00Z",
        step=10 * (epoch + 1),
        epoch=epoch,
        showers=300,
        metrics=numbers,
        seconds=0.5,
        ranked_by="metric",
        best=epoch == 0,
        program_seconds=9.0,
    )


def test_quality_metrics_are_a_curve_whose_caption_names_the_best_epoch():
    found = (validated(0, metric=0.2, hits=0.3), validated(1, metric=0.25, hits=float("nan")))
    (section,) = quality_sections(RunRecord(lines=found))
    (curve,) = section.blocks
    assert len(curve.data().rows) == 2
    assert "300 generated showers" in curve.caption
    assert "metric 0.25 after epoch 2, best 0.2 after epoch 1" in curve.caption


def test_a_run_without_validations_has_no_quality_section():
    assert quality_sections(RunRecord(lines=())) == ()
