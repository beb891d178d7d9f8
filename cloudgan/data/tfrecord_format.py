"""The positions of the records of a TFRecord file and the bytes of tf.train.Example, without TensorFlow."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.data.record_checksums import FOOTER_BYTES, HEADER_BYTES, masked_crc32c

Buffer = bytes | memoryview

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class Extents(NamedTuple):
    """First byte and size of the content of each record."""

    start: NDArray[np.int64]
    size: NDArray[np.int64]


def record_extents(path: Path) -> Extents:
    """Returns the position of every record.

    Raises:
        DataError: The file is not readable, empty or truncated, or the length of a record is damaged;
            names the record.
    """
    starts: list[int] = []
    sizes: list[int] = []
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            if end == 0:
                raise DataError(f"{path} is empty (0 bytes)")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                at = 0
                while at < end:
                    start = at + HEADER_BYTES
                    if start > end:
                        raise _cut_off(path, content, starts, at)
                    size = _LENGTH.unpack_from(content, at)[0]
                    at = start + size + FOOTER_BYTES
                    if at > end:
                        raise _cut_off(path, content, [*starts, start], start)
                    starts.append(start)
                    sizes.append(size)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return Extents(np.array(starts, np.int64), np.array(sizes, np.int64))


def _cut_off(path: Path, content: mmap.mmap, starts: list[int], last: int) -> DataError:
    """Names the first record with a damaged length, which moves all later records, or the last one."""
    for record, start in enumerate(starts):
        at = start - HEADER_BYTES
        if masked_crc32c(content[at : at + 8]) != _CHECKSUM.unpack_from(content, at + 8)[0]:
            return DataError(
                f"{path}, record {record}: truncated or damaged: the checksum of its length, at byte"
                f" {at}, is wrong. Copy or convert the file again."
            )
    return DataError(
        f"{path}, record {len(starts) - (starts[-1:] == [last])}: truncated or damaged: it starts at"
        f" byte {last} and exceeds the end of the file, at byte {len(content)}. Copy or convert the file"
        " again."
    )


BYTES, FLOATS, INTEGERS = 1, 2, 3

_FIRST, _SECOND = 0x0A, 0x12  # fields 1 and 2, each a length and that many bytes

_WIRE_TYPES = 8

_DELIMITED = 2


def encode(features: Mapping[str, bytes]) -> bytes:
    """Returns an Example of bytes features, in the order given."""
    return delimited(_FIRST, b"".join(entry(name, value) for name, value in features.items()))


def entry(name: str, value: bytes) -> bytes:
    """Returns one feature of an Example; it ends with the bytes of `value`."""
    feature = delimited(_FIRST, delimited(_FIRST, value))  # Feature{1: BytesList{1: value}}
    return delimited(_FIRST, delimited(_FIRST, name.encode()) + delimited(_SECOND, feature))


def bytes_features(record: bytes, wanted: Collection[str]) -> dict[str, bytes]:
    """Returns the `wanted` bytes features of one Example; stops when it has them all.

    Raises:
        ValueError: The bytes are no Example of bytes features, or one is missing.
    """
    found: dict[str, bytes] = {}
    try:
        for name, kind, content in _features(record):
            if name in wanted:
                if kind != BYTES or content[0] != _FIRST:
                    raise ValueError(f"feature {name!r} does not hold bytes")
                start, end = _length(content, 1)
                found[name] = bytes(content[start:end])
                if len(found) == len(wanted):
                    return found
    except IndexError as error:
        raise ValueError("not a tf.train.Example") from error
    raise ValueError(f"no feature {', '.join(sorted(set(wanted) - set(found)))}")


def number_features(record: Buffer) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
    """Returns all features of one Example that are lists of numbers; floats are not copied.

    Raises:
        ValueError: The bytes are no Example, or a list is not packed.
    """
    found: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {}
    try:
        for name, kind, content in _features(record):
            if kind == FLOATS:
                found[name] = np.frombuffer(_packed(name, content), "<f4")
            elif kind == INTEGERS:
                found[name] = np.array(list(_varints(_packed(name, content))), np.int64)
    except IndexError as error:
        raise ValueError("not a tf.train.Example") from error
    return found


def feature_names(record: Buffer) -> set[str]:
    """Returns the names of all features; empty if the bytes are no Example."""
    try:
        return {name for name, _, _ in _features(record)}
    except (IndexError, ValueError):
        return set()


def _features(record: Buffer) -> Iterator[tuple[str, int, Buffer]]:
    """Yields name, kind and list of each feature; raises IndexError or ValueError on nonsense."""
    if record[0] != _FIRST:
        raise ValueError("not a tf.train.Example")
    at, end = _length(record, 1)
    while at < end:
        if record[at] != _FIRST:
            raise ValueError("not a tf.train.Example")
        start, at = _length(record, at + 1)
        if record[start] != _FIRST:
            raise ValueError("a feature without a name")
        key, after = _length(record, start + 1)
        if after >= at:
            continue
        if record[after] != _SECOND:
            raise ValueError("a feature without a value")
        value, value_end = _length(record, after + 1)
        name = str(record[key:after], "utf-8")
        if value == value_end:
            continue
        kind, wire_type = divmod(record[value], _WIRE_TYPES)
        if wire_type != _DELIMITED or kind not in {BYTES, FLOATS, INTEGERS}:
            raise ValueError(f"feature {name!r} is of no known kind")
        first, last = _length(record, value + 1)
        yield name, kind, record[first:last]


def _length(record: Buffer, at: int) -> tuple[int, int]:
    """Reads the length at `at`; returns where its bytes begin and end."""
    size = record[at]
    at += 1
    if size >= 0x80:  # noqa: PLR2004 - the continuation bit of a varint
        size, at = _varint(record, at - 1)
    if at + size > len(record):
        raise IndexError
    return at, at + size


def _varint(record: Buffer, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = record[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            if value >= 1 << 64:
                raise ValueError("a number of more than 64 bits")
            return value, at
        shift += 7


def _packed(name: str, content: Buffer) -> Buffer:
    if len(content) == 0:
        return b""
    if content[0] != _FIRST:
        raise ValueError(f"feature {name!r} is not a packed list")
    start, end = _length(content, 1)
    if end != len(content):
        raise ValueError(f"feature {name!r} is in more than one piece")
    return content[start:end]


def _varints(content: Buffer) -> Iterator[int]:
    at = 0
    while at < len(content):
        value, at = _varint(content, at)
        yield value if value < 1 << 63 else value - (1 << 64)


def delimited(tag: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer: its tag, the length, and the bytes."""
    size, head = len(content), bytearray([tag])
    while size >= 0x80:  # noqa: PLR2004
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content
