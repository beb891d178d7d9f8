from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.shards.manifest import ColumnInfo, SourceInfo
from cloudgan.data.shards.shower_record import CELLS, COLUMNS, VALUES, RecordDecoder
from cloudgan.data.tfrecord_format import bytes_features, encode

BOTH = pytest.mark.parametrize(
    ("shape", "dtype"), [((51, 51, 25), "<f4"), ((51, 51, 25), "<f8"), ((99, 99, 25), "<f4")]
)


def decoder_of(shape, dtype, columns=("energy", "theta")):
    source = SourceInfo(
        name="a.h5",
        layout="3DGAN",
        bytes=1,
        modified_ns=0,
        records=1,
        shape=shape,
        ecal_dtype=dtype,
        ecal_per_gev=50,
        ecal_decided="so",
        columns=tuple(ColumnInfo(name=name, dtype="<f4") for name in columns),
    )
    return RecordDecoder(source)


def record_of(decoder, count, columns=2):
    cell, value = decoder._cell.itemsize, decoder._value.itemsize
    rng = np.random.default_rng(count)
    return encode(
        {
            COLUMNS: rng.bytes(4 * columns),
            CELLS: rng.bytes(cell * count),
            VALUES: rng.bytes(value * count),
        }
    )


@BOTH
def test_the_frame_of_every_size_finds_what_parsing_finds(shape, dtype):
    decoder = decoder_of(shape, dtype)
    # Lengths take a byte more from 128 and 16384 on, of each part at another count.
    for count in (*range(300), *range(1000, 5000, 37), *range(4050, 4110), 9000, 70_000):
        record = record_of(decoder, count)
        assert decoder._frame(len(record)) is not None, count
        assert decoder.split(record) == bytes_features(record, (COLUMNS, CELLS, VALUES))


def test_many_columns_have_a_frame_too():
    names = ("energy", *(f"c{number}" for number in range(99)))
    decoder = decoder_of((51, 51, 25), "<f4", names)
    record = record_of(decoder, 5, columns=100)
    assert decoder._frame(len(record)) is not None
    assert len(decoder.split(record)[COLUMNS]) == 400


def test_features_in_another_order_are_parsed():
    decoder = decoder_of((51, 51, 25), "<f4")
    parts = decoder.split(record_of(decoder, 40))
    swapped = encode({name: parts[name] for name in (VALUES, COLUMNS, CELLS)})
    assert decoder.split(swapped) == parts


def test_a_wrong_byte_of_the_frame_is_no_shower_and_never_another_one():
    decoder = decoder_of((51, 51, 25), "<f4")
    record = record_of(decoder, 40)
    whole, refused = decoder.split(record), 0
    for at in range(len(record)):
        wrong = bytearray(record)
        wrong[at] ^= 0x15
        try:
            found = decoder.split(bytes(wrong))
        except (ValueError, UnicodeDecodeError):
            refused += 1
            continue
        changed = [name for name in whole if found[name] != whole[name]]
        assert len(changed) <= 1, at  # a byte of that part itself
        assert {name: len(found[name]) for name in whole} == {n: len(whole[n]) for n in whole}
    assert refused > 30


def test_a_size_that_no_record_has_is_parsed_and_refused():
    decoder = decoder_of((51, 51, 25), "<f4")
    for size in (*range(200), 1003):
        framed = decoder._frame(size)
        if framed is None and size:
            with pytest.raises(ValueError, match=r"Example|feature"):
                decoder.split(bytes(size))
    assert decoder._frame(3) is None
