"""A whole run of the real program, made once for the tests of all commands."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cli.provisioned import Desk, few_showers
from cloudgan.schema.plan import Wheel
from launch.ops.cloud_double import installed

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
    monkeypatch.setattr("cloudgan.api.deployment.known_wheels", lambda *_: wheels)
    monkeypatch.setattr("cloudgan.api.deployment.all_wheels", lambda *_: wheels)
    return folder


@pytest.fixture
def desk(user_folder, tmp_path, capsys, monkeypatch):
    """A user who rents nodes of clouds in memory; no wheel is downloaded or uploaded."""
    monkeypatch.setattr("cloudgan.api.deploy_attempt.upload_wheels", lambda plan, progress: None)
    few_showers(user_folder / "showers")
    return Desk(user_folder, tmp_path / "buckets", capsys)
