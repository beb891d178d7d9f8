"""Showers from one layout to another by the real program."""

import pytest

from data.conftest import make_hdf5, make_store

# --verify


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "set", make_hdf5(tmp_path / "a.h5", shape=(5, 5, 4)))


def test_every_layout_is_verified(store, tmp_path, cloudgan_here):
    for source, showers in (
        (store, 20),
        (store.as_uri(), 20),
        (tmp_path / "a.h5", 20),
        (f"{store},{tmp_path / 'a.h5'}", 40),
    ):
        found = cloudgan_here("convert", "--verify", source, "--json").json()
        assert (found["path"], found["verified"]) == (str(source), True)
        assert found["showers"] == showers


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("part-00003-energy.npy", "part-00003-energy.npy is damaged: its SHA-256"),
        ("part-00002-values.npy", "part-00002-values.npy is damaged"),
        ("manifest.json", "manifest.json"),
    ],
)
def test_one_flipped_bit_is_refused_with_the_file(store, refused, name, named):
    content = bytearray((store / name).read_bytes())
    content[len(content) // 2] ^= 1
    (store / name).write_bytes(content)
    for source in (store, store.as_uri()):
        assert named in refused("convert", "--verify", source)
