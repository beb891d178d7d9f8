"""`train`: what JAX and several workers of one machine refuse, before anything starts."""

import json

import pytest

from cloudgan.cli.failure import explain
from cloudgan.core import loopback_network
from cloudgan.core.errors import ConfigError
from cloudgan.launch.operations.staging import check_startable
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Wheel
from cloudgan.training import tensorflow_import


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


def test_jax_on_gpus_needs_an_image_that_has_it(plan_of):
    wheels = (Wheel(file_name="cloudgan.whl", sha256="0" * 64, bytes=1),)
    plan = plan_of(training={"engine": "jax"}).model_copy(update={"wheels": wheels})
    check_startable(plan)
    gpus = plan.workers.model_copy(update={"accelerators_per_node": 1})
    on_gpus = plan.model_copy(update={"workers": gpus})
    with pytest.raises(ConfigError, match="not for GPUs, and nothing was started"):
        check_startable(on_gpus)
    check_startable(on_gpus.model_copy(update={"wheels": ()}))


# `train` refuses several workers whose ports others could reach, before anything starts


TWO = ("train", "--data=showers.h5", "--strategy=multiworker", "--workers=2")


def test_a_machine_that_cannot_isolate_workers_refuses_them(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.setattr(loopback_network.sys, "platform", "darwin")
    said = cloudgan_here(*TWO, f"--run={tmp_path / 'run'}", exits=2).stderr
    assert "--strategy=mirrored --replicas=2" in said
    assert "--allow-open-ports" in said
    assert not (tmp_path / "run").exists()


def test_with_allow_open_ports_the_check_is_skipped(cloudgan_here, tmp_path, monkeypatch):
    monkeypatch.setattr(loopback_network.sys, "platform", "darwin")
    said = cloudgan_here(*TWO, f"--run={tmp_path / 'run'}", "--allow-open-ports", exits=2).stderr
    assert "showers.h5" in said


@pytest.mark.parametrize("workers", [1, 2])
def test_only_one_worker_of_tf_config_trains_without_the_flag(
    cloudgan_here, tmp_path, monkeypatch, workers
):
    peers = [f"127.0.0.1:{2222 + index}" for index in range(workers)]
    task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    said = cloudgan_here("train", "--data=none.h5", f"--run={tmp_path / 'run'}", exits=2).stderr
    assert ("--allow-open-ports" in said) is (workers > 1)
