from __future__ import annotations

from pathlib import Path

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path


@pytest.mark.parametrize(
    "given", ["runs/a", "/runs/a", "../a", "a:b", "C:/x", "x.h5", Path("a/https:/b")]
)
def test_a_path_stays_what_it_is(given):
    assert local_path(given) == Path(given)


def test_a_leading_tilde_is_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_path("~/x.h5") == tmp_path / "x.h5"
    with pytest.raises(
        ConfigError, match=r"^--run=~no-such-user/x: the home folder .* write \./~no-such-user"
    ):
        local_path("~no-such-user/x", source="--run")


@pytest.mark.parametrize("given", ["https://", "gs://x/y", "GS://x", "foo+bar://x", "pvc:claim"])
@pytest.mark.parametrize("as_path", [False, True])
def test_a_url_is_refused_also_after_pathlib_took_one_slash_away(given, as_path):
    with pytest.raises(
        ConfigError, match=r"^--run=.* is a URL; valid: a path of this machine.*; copy$"
    ):
        local_path(Path(given) if as_path else given, source="--run", advice="copy")
