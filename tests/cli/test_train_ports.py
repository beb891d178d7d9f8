"""`train` refuses several workers whose ports others could reach, before anything starts."""

from __future__ import annotations

import json

import pytest

from cloudgan.core import loopback_network

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


@pytest.mark.parametrize(
    ("flag", "lacking"),
    [
        ("--checkpoints=gs://lab/run", "copy checkpoints to gs://lab/run"),
        ("--track=mlflow", "reach the server of --track=mlflow"),
        ("--track=wandb", "reach the server of --track=wandb"),
    ],
)
def test_isolated_workers_reach_no_server(cloudgan_here, tmp_path, flag, lacking):
    said = cloudgan_here(*TWO, f"--run={tmp_path / 'run'}", flag, exits=2).stderr
    assert f"run without a network, so they cannot {lacking}; run one process instead" in said


@pytest.mark.parametrize("workers", [1, 2])
def test_only_one_worker_of_tf_config_trains_without_the_flag(
    cloudgan_here, tmp_path, monkeypatch, workers
):
    peers = [f"127.0.0.1:{2222 + index}" for index in range(workers)]
    task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    said = cloudgan_here("train", "--data=none.h5", f"--run={tmp_path / 'run'}", exits=2).stderr
    assert ("--allow-open-ports" in said) is (workers > 1)
