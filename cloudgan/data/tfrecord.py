"""The framing of TFRecord files, without TensorFlow and NumPy: where records are, and event files of TensorBoard.

A record is: length (uint64), checksum of the length (uint32), the bytes, their checksum (uint32),
little-endian; a checksum is a masked CRC32C (https://www.tensorflow.org/tutorials/load_data/tfrecord,
read 2026-11-22).

An event file is a TFRecord file of tensorflow.Event messages, of which scalars need wall_time (1), step (2),
file_version (3) and summary (5) with values of tag (1) and simple_value (2)
(https://github.com/tensorflow/tensorboard/blob/2.20.0/tensorboard/compat/proto/event.proto and summary.proto,
read 2026-11-22).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cloudgan.core.clock import parse_time
from cloudgan.core.errors import DataError
from cloudgan.schema.record import Line, RunRecord

HEADER_BYTES: Final = 12
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_CASTAGNOLI = 0x82F63B78  # the polynomial of CRC32C, bits reversed (RFC 3720, appendix B.4)
_MASK_DELTA = 0xA282EAD8
_WORD = 0xFFFFFFFF


def masked_crc32c(content: bytes) -> int:
    """Returns the checksum that a TFRecord file has for `content`."""
    crc = _WORD
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    crc ^= _WORD
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _WORD


def frame_record(content: bytes) -> bytes:
    """Returns a record as a TFRecord file holds it."""
    length = len(content).to_bytes(8, "little")
    header = _HEADER.pack(len(content), masked_crc32c(length))
    return header + content + _FOOTER.pack(masked_crc32c(content))


def is_tfrecord(head: bytes) -> bool:
    """Whether a file that begins with these 12 bytes is a TFRecord file."""
    is_whole = len(head) >= HEADER_BYTES
    return is_whole and _HEADER.unpack_from(head)[1] == masked_crc32c(head[:8])


def record_extents(path: Path) -> list[slice]:
    """Returns the position of the content of every record."""
    found: list[slice] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at, end = 0, len(content)
        while at < end:
            head = content[at : at + HEADER_BYTES]
            if len(head) == HEADER_BYTES and not is_tfrecord(head):
                raise DataError(
                    f"{path}, record {len(found)}: truncated or damaged: the checksum of its length, at byte"
                    f" {at}, is wrong. Copy the file again."
                )
            start = at + HEADER_BYTES
            size = _HEADER.unpack_from(head)[0] if len(head) == HEADER_BYTES else 0
            if start + size + _FOOTER.size > end:
                raise DataError(
                    f"{path}, record {len(found)}: truncated or damaged: it starts at byte {at} and exceeds"
                    f" the end of the file, at byte {end}. Copy the file again."
                )
            found.append(slice(start, start + size))
            at = start + size + _FOOTER.size
    return found


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
