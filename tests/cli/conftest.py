"""A whole run of the real program, made once for the tests of all commands."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.provisioned import Desk, basis, few_showers
from cloudgan.schema.plan import Wheel
from launch.lifecycle.cloud_double import installed
from records import epoch, numerics, started, write_run


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
def quick_verdict(monkeypatch):
    """No classifiers and few bootstrap samples: tests/validation covers them."""
    monkeypatch.setattr("cloudgan.validation.acceptance.assess.LEVELS", {})
    monkeypatch.setattr("cloudgan.validation.acceptance.assess.BOOTSTRAPS", 15)


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
def refused(user_folder, cloudgan_here):
    """Runs a command in the user's folder that must be refused; returns its message, on one line."""

    def run(*words, exits=2):
        before = contents(user_folder)
        done = cloudgan_here(*words, exits=exits)
        assert contents(user_folder) == before
        assert exits != 2 or done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "a bug in cloudgan" not in done.stderr
        return " ".join(done.stderr.split())

    return run


def contents(folder):
    """The bytes of each file of a folder by its path, and None for folders and special files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def planned(user_folder, cloudgan_here):
    """Returns a plan as JSON."""
    return lambda *words: cloudgan_here("plan", "--json", *words).json()


@pytest.fixture
def plan_basis(planned):
    """Returns the lines below a plan with -v."""
    return lambda *words: basis(planned(*words))


@pytest.fixture
def run_on(tmp_path):
    """Writes a run with a first epoch of 300 s and a steady one of 100 s."""

    def write(device, preset="paper", replicas=1, folder=tmp_path / "mine"):
        on = numerics(device=device, replicas=replicas, global_batch_size=32 * replicas)
        trained = {"steps": 31, "samples": 992, "dropped_samples": 8}
        return write_run(
            folder,
            started(numerics=on, training_showers=1000),
            epoch(0, 300.0, **trained),
            epoch(1, 100.0, **trained),
            model={"preset": preset},
        ).path

    return write
