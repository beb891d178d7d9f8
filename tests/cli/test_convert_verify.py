"""`cloudgan convert --verify` reads every shower and writes nothing."""

from __future__ import annotations

import json

import pytest

from cloudgan.cli.main import main
from data.conftest import make_hdf5, make_shards


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
def shards(tmp_path):
    return make_shards(tmp_path / "set", make_hdf5(tmp_path / "a.h5", shape=(5, 5, 4)))


def test_every_layout_is_verified(shards, tmp_path, verify):
    for source in (shards, tmp_path / "a.h5", f"{shards},{tmp_path / 'a.h5'}"):
        code, output, errors = verify("--verify", source, "--json")
        assert (code, errors) == (0, [])
        found = json.loads(output)
        assert (found["path"], found["verified"]) == (str(source), True)
        assert found["showers"] == (40 if "," in str(source) else 20)


def test_a_bucket_is_verified(shards, verify):
    code, output, _ = verify("--verify", shards.as_uri(), "--json")
    assert (code, json.loads(output)["showers"]) == (0, 20)
    path = shards / "showers-00003.tfrecord"
    path.write_bytes(path.read_bytes()[:-6] + b"\0\0" + path.read_bytes()[-4:])
    code, _, errors = verify("--verify", shards.as_uri())
    assert code == 2
    assert f"{shards}/showers-00003.tfrecord, record 1: damaged: its checksum" in errors[0]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("showers-00002.tfrecord", "showers-00002.tfrecord, record"),
        ("manifest.json", "manifest.json"),
    ],
)
def test_one_flipped_bit_ends_with_2_and_one_line(shards, verify, name, named):
    content = bytearray((shards / name).read_bytes())
    content[len(content) // 2] ^= 1
    (shards / name).write_bytes(content)
    code, _, errors = verify("--verify", shards)
    assert code == 2
    assert len(errors) == 1
    assert named in errors[0]
    assert "Traceback" not in errors[0]


def test_either_a_target_or_verify_is_given(shards, tmp_path, verify):
    code, _, errors = verify(shards)
    assert code == 2
    assert "no target was given; valid: cloudgan convert --verify SOURCE" in errors[0]
    code, _, errors = verify(shards, tmp_path / "b.h5", "--verify")
    assert code == 2
    assert "--verify with the target" in errors[0]
    assert not (tmp_path / "b.h5").exists()
