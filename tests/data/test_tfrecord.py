"""The framing of TFRecord files."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.tfrecord import frame_record, is_tfrecord, masked_crc32c, record_extents


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
