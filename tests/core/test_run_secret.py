"""The secret of a run: its file and its tokens."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.run_secret import RunSecret, new_secret, write_secret


def test_a_secret_has_256_random_bits_and_a_private_file(tmp_path):
    path = tmp_path / "folder" / "key"
    write_secret(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(path.read_text())) == 32
    assert new_secret() != new_secret()


def test_a_token_belongs_to_its_secret_and_role(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        write_secret(path)
    one, other = map(RunSecret.read, paths)
    token = one.token("worker")
    assert one.is_token(token, "worker")
    assert not one.is_token(token, "chief")
    assert not other.is_token(token, "worker")
    assert not one.is_token("", "worker")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 257])
def test_a_file_that_is_no_secret_is_refused(tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="does not hold the secret"):
        RunSecret.read(tmp_path / "key")
    with pytest.raises(ConfigError, match="cannot be read"):
        RunSecret.read(tmp_path / "absent")


@pytest.mark.parametrize(("mode", "accepted"), [(0o600, 1), (0o440, 1), (0o644, 0), (0o660, 0)])
def test_a_secret_that_other_users_can_read_or_replace_is_refused(tmp_path, mode, accepted):
    path = tmp_path / "key"
    write_secret(path)
    path.chmod(mode)
    if accepted:
        assert RunSecret.read(path)
    else:
        with pytest.raises(ConfigError, match="accessible to other users"):
            RunSecret.read(path)
