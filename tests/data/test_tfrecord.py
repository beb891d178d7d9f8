"""The framing of TFRecord files, and event files against the message of TensorFlow's own definition."""

from __future__ import annotations

import struct

import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.tfrecord import (
    event_file,
    frame_record,
    is_tfrecord,
    masked_crc32c,
    record_extents,
    scalar_events,
)
from cloudgan.schema.record import RunRecord


def test_the_checksum_is_that_of_the_standard():
    crc = 0xE3069283  # of these nine bytes: RFC 3720, appendix B.4, and the catalogue of CRCs
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == masked


def test_every_damaged_length_and_every_truncation_is_blamed_on_its_record(tmp_path):
    records = [frame_record(content) for content in (b"a" * 3, b"", b"c" * 5)]
    ends = [sum(map(len, records[: n + 1])) for n in range(3)]
    whole, path = b"".join(records), tmp_path / "a.tfrecord"
    path.write_bytes(whole)
    assert [whole[place] for place in record_extents(path)] == [b"aaa", b"", b"ccccc"]
    for record, start in enumerate((0, *ends[:2])):
        for bit in range(8 * 12):
            content = bytearray(whole)
            content[start + bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
            said = f"record {record}: truncated or damaged: the checksum of its length, at byte {start}"
            with pytest.raises(DataError, match=said):
                record_extents(path)
    for size in set(range(1, len(whole))) - set(ends):
        path.write_bytes(whole[:size])
        record = sum(size > end for end in ends)
        with pytest.raises(DataError, match=f"record {record}: truncated or damaged: it starts at"):
            record_extents(path)


def test_other_files_are_none():
    assert is_tfrecord(frame_record(b"one")[:12])
    assert not is_tfrecord(b"\x89HDF\r\n\x1a\n" * 2)
    assert not is_tfrecord(b"")


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
