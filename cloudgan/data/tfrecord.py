"""The framing of TFRecord files, without TensorFlow and NumPy: what TensorBoard reads, and where records are.

A record is: length (uint64), checksum of the length (uint32), the bytes, their checksum (uint32),
little-endian; a checksum is a masked CRC32C (https://www.tensorflow.org/tutorials/load_data/tfrecord,
read 2026-11-22).
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

from cloudgan.core.errors import DataError

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
