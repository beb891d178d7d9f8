"""`train --engine=jax` refuses what it does not support, before anything is imported."""

from __future__ import annotations

import pytest

from cloudgan.api import tensorflow_import
from cloudgan.cli.failure import explain
from cloudgan.cli.main import main
from cloudgan.core.errors import ConfigError
from cloudgan.launch.operations.staging import check_startable
from cloudgan.schema.config import parse_config


@pytest.mark.parametrize(
    "given",
    [
        ["--parallel=downpour"],
        ["--stages=conv1"],
        ["--loop=fit"],
        ["--precision=float64"],
        ["--strategy=tpu"],
    ],
    ids=lambda given: given[0],
)
def test_an_option_that_jax_lacks_is_named_with_exit_code_2(given, capsys, tmp_path):
    words = ["train", "--engine=jax", f"--data={tmp_path}", f"--run={tmp_path / 'r'}", *given]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    message = capsys.readouterr().err
    assert "--engine=jax does not support" in message
    assert given[0].partition("=")[0] in message
    assert "--engine=tensorflow" in message


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(tensorflow_import, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError) as missing:
        tensorflow_import.require_engine("jax")
    failure = explain(missing.value)
    assert failure.exit_code == 2
    assert "[jax]" in failure.message


def test_the_engine_changes_neither_hash_nor_documents_of_other_runs():
    usual, jax = (
        parse_config({"training": {"engine": engine}}, "a test") for engine in ("tensorflow", "jax")
    )
    assert usual.config_hash() == jax.config_hash()
    assert "engine" not in usual.model_dump()["training"]
    assert jax.model_dump()["training"]["engine"] == "jax"


def test_a_deploy_of_jax_is_refused_before_anything_starts(plan_of):
    with pytest.raises(ConfigError, match="jax is planned but not launched"):
        check_startable(plan_of(training={"engine": "jax"}))
