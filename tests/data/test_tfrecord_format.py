from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.tfrecord_format import bytes_features, encode, feature_names, number_features


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
