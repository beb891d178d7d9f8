"""Event files of TensorBoard from a run's record, without TensorFlow.

An event file is a TFRecord file of tensorflow.Event messages, of which scalars need wall_time (1), step (2),
file_version (3) and summary (5) with values of tag (1) and simple_value (2)
(https://github.com/tensorflow/tensorboard/blob/2.20.0/tensorboard/compat/proto/event.proto and summary.proto,
read 2026-11-22).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from cloudgan.core.clock import parse_time
from cloudgan.data.tfrecord import frame_record
from cloudgan.schema.record import Line, RunRecord

_VERSION = b"brain.Event:2"
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 0x09, 0x10, 0x1A, 0x2A
_VALUE, _TAG, _SIMPLE_VALUE = 0x0A, 0x0A, 0x15


def scalar_events(record: RunRecord) -> tuple[bytes, ...]:
    """Returns one event per epoch and validation that counts, with the tags of `train --track`."""
    lines: list[Line] = [*record.epochs(), *record.validations()]
    return tuple(
        event(line, scalars_of(line)) for line in sorted(lines, key=lambda line: line.step)
    )


def event_file(events: tuple[bytes, ...]) -> bytes:
    """Returns the content of an event file."""
    version = _double(_WALL_TIME, 0.0) + _delimited(_FILE_VERSION, _VERSION)
    return b"".join(map(frame_record, (version, *events)))


def scalars_of(line: Line) -> dict[str, float]:
    """Returns the numbers of an epoch or a validation by tag; of other lines none."""
    if line.kind == "validated":
        return {f"quality/{name}": value for name, value in line.metrics.items()}
    if line.kind != "epoch":
        return {}
    found = {
        f"{part}/{name}/{term}": value
        for part, table in (("train", line.losses), ("test", line.held_out_losses or {}))
        for name, terms in table.items()
        for term, value in terms.items()
    }
    return found | {"samples_per_second": line.samples_per_second}


def event(line: Line, scalars: Mapping[str, float]) -> bytes:
    """Returns an event with numbers by tag, at the time and step of a line."""
    values = b"".join(
        _delimited(
            _VALUE, _delimited(_TAG, tag.encode()) + struct.pack("<Bf", _SIMPLE_VALUE, value)
        )
        for tag, value in scalars.items()
    )
    head = _double(_WALL_TIME, parse_time(line.time).timestamp()) + _varint(_STEP, line.step)
    return head + _delimited(_SUMMARY, values)


def _double(tag: int, value: float) -> bytes:
    return struct.pack("<Bd", tag, value)


def _varint(tag: int, value: int) -> bytes:
    found = bytearray([tag])
    while value >= 0x80:  # noqa: PLR2004
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _delimited(tag: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer: its tag, the length, and the bytes."""
    return _varint(tag, len(content)) + content
