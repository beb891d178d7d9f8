from __future__ import annotations

import pytest

from cloudgan.core.errors import UnknownNameError, install_command

WHEEL = "file:///data/my%20files/cloudgan-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "`pip install 'cloudgan[train]'`"),
        (
            f'{{"url": "{WHEEL}", "archive_info": {{}}}}',
            "`pip install '/data/my files/cloudgan-0.1.0-py3-none-any.whl[train]'`",
        ),
        (
            '{"url": "file:///data/cloudgan", "dir_info": {"editable": true}}',
            "`pip install '.[train]'` in the checkout of cloudgan",
        ),
    ],
    ids=["index", "wheel", "checkout"],
)
def test_an_extra_is_installed_from_where_cloudgan_came(monkeypatch, tmp_path, origin, command):
    info = tmp_path / "cloudgan-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudgan\nVersion: 0.1.0\n")
    if origin:
        (info / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("train") == command


def test_a_misspelt_name_gets_the_nearest_and_all_there_are():
    message = str(UnknownNameError("preset", "mimi", ["paper", "mini"]))
    assert message == "unknown preset 'mimi'. Did you mean 'mini'? Known: mini, paper."


def test_of_many_names_only_the_nearest_are_listed():
    known = [f"gcp/node-{number}/us/spot" for number in range(300)]
    message = str(UnknownNameError("offer", "gcp/node-7/us", known))
    assert "The nearest of 300" in message
    assert "gcp/node-7/us/spot" in message
    assert len(message) < 400
