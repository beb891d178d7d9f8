from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.record_checksums import first_damaged, frame_record, masked_crc32c
from cloudgan.data.tfrecord_format import (
    bytes_features,
    encode,
    feature_names,
    number_features,
    record_extents,
)


def test_bytes_come_back_as_they_were():
    features = {"a": b"", "b": b"\x00" * 127, "c": b"x" * 128, "d": b"y" * 70_000}
    record = encode(features)
    assert bytes_features(record, features.keys()) == features
    assert bytes_features(record, {"c"}) == {"c": features["c"]}
    assert feature_names(record) == set(features)


def test_a_missing_feature_is_named():
    with pytest.raises(ValueError, match="no feature z"):
        bytes_features(encode({"a": b"1"}), {"a", "z"})


def test_every_truncation_is_noticed():
    record = encode({"cells": b"12", "values": b"3456"})
    for size in range(len(record)):
        with pytest.raises(ValueError, match=r".+"):
            bytes_features(record[:size], {"cells", "values"})


def test_random_bytes_never_raise_anything_but_value_errors():
    rng = np.random.default_rng(0)
    good = bytearray(encode({"cells": b"12" * 40, "values": b"3456" * 40}))
    for _ in range(500):
        record = good.copy()
        record[rng.integers(len(good))] = rng.integers(256)
        try:
            bytes_features(bytes(record), {"cells", "values"})
            number_features(bytes(record))
        except ValueError:
            pass
        feature_names(bytes(record))


def test_what_is_no_example_has_no_features():
    assert feature_names(b"") == set()
    assert feature_names(b"\x89HDF\r\n\x1a\n" * 4) == set()


def test_the_checksum_is_that_of_the_standard():
    crc = 0xE3069283  # of these nine bytes: RFC 3720, appendix B.4, and the catalogue of CRCs
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == masked


def test_the_damaged_record_is_found_by_every_bit(tmp_path):
    records = [b"a" * 3, b"", b"c" * 5]
    whole = b"".join(map(frame_record, records))
    assert first_damaged(whole) is None
    ends = np.cumsum([len(frame_record(record)) for record in records])
    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        found = first_damaged(bytes(content))
        assert found.record == np.searchsorted(ends, bit // 8, "right")
    for size in set(range(1, len(whole))) - set(ends.tolist()):
        assert "truncated" in first_damaged(whole[:size]).problem


def test_a_wrong_length_is_blamed_on_its_record_and_not_on_a_later_one(tmp_path):
    path = tmp_path / "a.tfrecord"
    content = bytearray(frame_record(b"one") + frame_record(b"two" * 40) + frame_record(b"three"))
    content[len(frame_record(b"one"))] ^= 8
    path.write_bytes(content)
    with pytest.raises(
        DataError, match="record 1: truncated or damaged: the checksum of its length"
    ):
        record_extents(path)
    path.write_bytes(frame_record(b"one") + b"short")
    with pytest.raises(DataError, match="record 1: truncated or damaged: it starts at byte 19"):
        record_extents(path)
