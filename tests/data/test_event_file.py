"""Event files of TensorBoard, against the message of TensorFlow's own definition."""

from __future__ import annotations

import struct

import pytest

from cloudgan.data.event_file import event_file, scalar_events
from cloudgan.data.tfrecord import record_extents
from cloudgan.schema.record import RunRecord


def test_an_event_file_is_a_whole_tfrecord_file_that_begins_with_its_version(tmp_path):
    content = event_file((b"one", b"two" * 100))
    path = tmp_path / "events"
    path.write_bytes(content)
    found = [content[place] for place in record_extents(path)]
    assert found == [struct.pack("<Bd", 9, 0.0) + b"\x1a\x0dbrain.Event:2", b"one", b"two" * 100]


@pytest.mark.tf
def test_tensorflow_reads_the_scalars(tmp_path):
    import tensorflow as tf

    losses = {"generator": {"total": 0.5}}
    line = {"kind": "epoch", "time": "2026-11-22T12:00:00Z", "step": 300, "epoch": 0, "first": True}
    counts = ("steps", "samples", "carried_samples", "dropped_samples", "train_seconds")
    seconds = ("trace_seconds", "validation_seconds", "checkpoint_seconds", "samples_per_second")
    values = dict.fromkeys((*counts, *seconds), 1)
    record = RunRecord.model_validate(
        {"lines": [line | values | {"complete": True, "losses": losses, "held_out_losses": None}]}
    )
    path = tmp_path / "events.out.tfevents.0"
    path.write_bytes(event_file(scalar_events(record)))
    version, event = tf.compat.v1.train.summary_iterator(str(path))
    assert version.file_version == "brain.Event:2"
    assert (event.step, event.wall_time) == (300, 1795348800.0)
    found = {value.tag: value.simple_value for value in event.summary.value}
    assert found == {"train/generator/total": 0.5, "samples_per_second": 1.0}
