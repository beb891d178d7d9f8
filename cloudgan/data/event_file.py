"""Event files of TensorBoard from a run's record, without TensorFlow.

An event file is a TFRecord file of tensorflow.Event messages, of which scalars need wall_time (1), step (2),
file_version (3) and summary (5) with values of tag (1) and simple_value (2)
(https://github.com/tensorflow/tensorboard/blob/2.20.0/tensorboard/compat/proto/event.proto and summary.proto,
read 2026-11-22).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from cloudgan.core.clock import parse_time
from cloudgan.data.record_checksums import frame_record
from cloudgan.data.tfrecord_format import delimited
from cloudgan.schema.record import Line, RunRecord

_VERSION = b"brain.Event:2"
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 0x09, 0x10, 0x1A, 0x2A
_VALUE, _TAG, _SIMPLE_VALUE = 0x0A, 0x0A, 0x15


def scalar_events(record: RunRecord) -> tuple[bytes, ...]:
    """Returns one event per epoch and validation that counts, with the tags of `train --tensorboard`."""
    found = [(line.step, _event(line, scalars)) for line, scalars in _scalars(record)]
    return tuple(event for _, event in sorted(found, key=lambda one: one[0]))


def event_file(events: tuple[bytes, ...]) -> bytes:
    """Returns the content of an event file."""
    version = _double(_WALL_TIME, 0.0) + delimited(_FILE_VERSION, _VERSION)
    return b"".join(map(frame_record, (version, *events)))


def _scalars(record: RunRecord) -> Iterator[tuple[Line, Mapping[str, float]]]:
    for epoch in record.epochs():
        found = {
            f"{part}/{name}/{term}": value
            for part, table in (("train", epoch.losses), ("test", epoch.held_out_losses or {}))
            for name, terms in table.items()
            for term, value in terms.items()
        }
        yield epoch, found | {"samples_per_second": epoch.samples_per_second}
    for validated in record.validations():
        yield validated, {f"quality/{name}": value for name, value in validated.metrics.items()}


def _event(line: Line, scalars: Mapping[str, float]) -> bytes:
    values = b"".join(
        delimited(_VALUE, delimited(_TAG, tag.encode()) + struct.pack("<Bf", _SIMPLE_VALUE, value))
        for tag, value in scalars.items()
    )
    head = _double(_WALL_TIME, parse_time(line.time).timestamp()) + _varint(_STEP, line.step)
    return head + delimited(_SUMMARY, values)


def _double(tag: int, value: float) -> bytes:
    return struct.pack("<Bd", tag, value)


def _varint(tag: int, value: int) -> bytes:
    found = bytearray([tag])
    while value >= 0x80:  # noqa: PLR2004
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
