"""TensorBoard summaries of a run's epochs and validations."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from cloudgan.schema.record import Epoch, Validated


class Summaries:
    """Writes event files into a folder."""

    def __init__(self, folder: Path) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))

    def write(self, line: Epoch, validated: Validated | None) -> None:
        """Writes the losses and the throughput of an epoch, and the metrics of its validation."""
        with self._writer.as_default(step=line.step):
            for part, table in (("train", line.losses), ("test", line.held_out_losses or {})):
                for name, terms in table.items():
                    for term, value in terms.items():
                        tf.summary.scalar(f"{part}/{name}/{term}", value)
            for name, value in (validated.metrics if validated else {}).items():
                tf.summary.scalar(f"quality/{name}", value)
            tf.summary.scalar("samples_per_second", line.samples_per_second)
        self._writer.flush()
