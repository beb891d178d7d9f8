"""A finished epoch as one row of a terminal or log."""

from __future__ import annotations

from cloudgan.core.durations import format_duration
from cloudgan.schema.losses import totals
from cloudgan.schema.record import Epoch, Validated


def epoch_row(line: Epoch, validated: Validated | None = None) -> str:
    """Returns such as ``epoch  3  G 65.17  D 23.9   544 showers  1.5 s   metric 0.071 best``."""
    generator, discriminator = totals(line.losses)
    row = f"epoch {line.epoch + 1:>2}  G {generator:<6.4g} D {discriminator:<6.3g}"
    row += f" {line.samples:,} showers  {format_duration(round(line.train_seconds, 1))}"
    return f"{row}   {quality_note(validated)}" if validated else row


def quality_note(found: Validated) -> str:
    """Returns such as ``metric 0.071 best``."""
    value = found.metrics.get(found.ranked_by)
    number = "unknown" if value is None else f"{value:.4g}"
    return f"{found.ranked_by} {number}{' best' if found.best else ''}"
