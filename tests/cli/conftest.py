"""A whole run of the real program, made once for the tests of all commands."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cli.provisioned import Desk, few_showers
from cloudgan.core.hardware import Hardware
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Wheel
from cloudgan.schema.presets import find_preset
from cloudgan.schema.record import Epoch, Numerics, Started
from cloudgan.schema.run_folder import RunFolder
from launch.operations.cloud_double import installed

if TYPE_CHECKING:
    from pathlib import Path


class SmallDemo(NamedTuple):
    """The folder that `cloudgan demo` wrote; only tests/cli/test_demo.py may change `run`."""

    run: Path
    said: dict[str, Any]
    copy: Path


@pytest.fixture(scope="session")
def small_demo(made_once, run_cloudgan):
    """A demo of 200 showers and 20 steps, far too short to learn."""

    def make(folder):
        flags = (f"--run={folder / 'small'}", "--showers=200", "--max-steps=20", "--json")
        (folder / "said.json").write_text(run_cloudgan("demo", *flags, fork=False).stdout)
        shutil.copytree(folder / "small", folder / "copy" / "small")

    folder = made_once("small-demo", make)
    said = json.loads((folder / "said.json").read_text())
    return SmallDemo(folder / "small", said, folder / "copy" / "small")


@pytest.fixture
def cloud(monkeypatch, tmp_path):
    """Google Cloud in memory."""
    return installed(monkeypatch, tmp_path)


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """The user's current folder, with a kubeconfig beside it and fixed names of wheels."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.chdir(folder)
    kubeconfig = {
        "clusters": [{"name": "lab", "cluster": {"server": "https://lab.example:6443"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "users": [{"name": "lab", "user": {"token": "planted-token"}}],
        "current-context": "lab",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("USER", "marie@example.org")
    wheels = (Wheel(file_name="cloudgan-1.0-py3-none-any.whl", sha256="1" * 64, bytes=1000),)
    monkeypatch.setattr("cloudgan.api.plan.known_wheels", lambda *_: wheels)
    monkeypatch.setattr("cloudgan.api.deploy.known_wheels", lambda *_: wheels)
    monkeypatch.setattr("cloudgan.launch.operations.deployment.known_wheels", lambda *_: wheels)
    monkeypatch.setattr("cloudgan.launch.operations.deployment.all_wheels", lambda *_: wheels)
    return folder


@pytest.fixture
def desk(user_folder, tmp_path, capsys, monkeypatch):
    """A user who rents nodes of clouds in memory; no wheel is downloaded or uploaded."""
    monkeypatch.setattr(
        "cloudgan.launch.operations.deployment.upload_wheels", lambda plan, progress: None
    )
    few_showers(user_folder / "showers")
    return Desk(user_folder, tmp_path / "buckets", capsys)


@pytest.fixture
def run_on(tmp_path):
    """Writes a run with a first epoch of 300 s and a steady one of 100 s."""

    def write(device, preset="paper", replicas=1, folder=tmp_path / "mine"):
        folder = RunFolder(folder)
        folder.write_config(RunConfig(model=find_preset(preset)))
        numerics = Numerics(
            processor="a chip",
            device=device,
            threads=2,
            replicas=replicas,
            workers=1,
            global_batch_size=32 * replicas,
            precision="float32",
            math_library="oneDNN",
            tensorflow="2.21",
            keras="3.15",
        )
        start = Started(
            time="2026-11-21T12:00:00Z",
            step=0,
            config_hash="abc",
            training_showers=1000,
            held_out_showers=10,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
            numerics=numerics,
            versions={},
            git_commit=None,
            strategy="one",
            loop="custom",
            learning_rate=0.001,
            notes=(),
            startup_seconds=5,
        )
        record.append(folder.record_file, start)
        for number, seconds in enumerate((300.0, 100.0)):
            record.append(
                folder.record_file,
                Epoch(
                    time="2026-11-21T12:00:00Z",
                    step=number + 1,
                    epoch=number,
                    first=number == 0,
                    complete=True,
                    steps=31,
                    samples=992,
                    carried_samples=0,
                    dropped_samples=8,
                    train_seconds=seconds,
                    trace_seconds=1,
                    validation_seconds=2,
                    checkpoint_seconds=1,
                    samples_per_second=10,
                    losses={},
                    held_out_losses=None,
                ),
            )
        return folder.path

    return write
