"""`cloudgan convert --verify` reads every shower and writes nothing."""

from __future__ import annotations

import json

import pytest

from cloudgan.cli.main import main
from data.conftest import flip, make_hdf5, make_store


@pytest.fixture
def verify(capsys):
    """Runs the command in this process: exit code, standard output and the errors."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["convert", *map(str, words)])
        output = capsys.readouterr()
        errors = [line for line in output.err.splitlines() if line.startswith("cloudgan:")]
        return ended.value.code, output.out, errors

    return run


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "set", make_hdf5(tmp_path / "a.h5", shape=(5, 5, 4)))


def test_every_layout_is_verified(store, tmp_path, verify):
    for source in (store, tmp_path / "a.h5", f"{store},{tmp_path / 'a.h5'}"):
        code, output, errors = verify("--verify", source, "--json")
        assert (code, errors) == (0, [])
        found = json.loads(output)
        assert (found["path"], found["verified"]) == (str(source), True)
        assert found["showers"] == (40 if "," in str(source) else 20)


def test_a_bucket_is_verified(store, verify):
    code, output, _ = verify("--verify", store.as_uri(), "--json")
    assert (code, json.loads(output)["showers"]) == (0, 20)
    flip(store / "part-00003-energy.npy", -6)
    code, _, errors = verify("--verify", store.as_uri())
    assert code == 2
    assert f"{store}/part-00003-energy.npy is damaged: its SHA-256" in errors[0]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("part-00002-values.npy", "part-00002-values.npy is damaged"),
        ("manifest.json", "manifest.json"),
    ],
)
def test_one_flipped_bit_ends_with_2_and_one_line(store, verify, name, named):
    content = bytearray((store / name).read_bytes())
    content[len(content) // 2] ^= 1
    (store / name).write_bytes(content)
    code, _, errors = verify("--verify", store)
    assert code == 2
    assert len(errors) == 1
    assert named in errors[0]
    assert "Traceback" not in errors[0]


def test_either_a_target_or_verify_is_given(store, tmp_path, verify):
    code, _, errors = verify(store)
    assert code == 2
    assert "no target was given; valid: cloudgan convert --verify SOURCE" in errors[0]
    code, _, errors = verify(store, tmp_path / "b.h5", "--verify")
    assert code == 2
    assert "--verify with the target" in errors[0]
    assert not (tmp_path / "b.h5").exists()
