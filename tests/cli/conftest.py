"""A whole run of the real program, made once for the tests of all commands."""

import json
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.provisioned import Desk, basis, few_showers
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.schema.plan import NodePool, Wheel
from cloudgan.storage.store import open_store
from launch.lifecycle.cloud_double import PROJECT, REGION, CloudDouble, RulesDouble, installed
from records import epoch, kubeconfig, numerics, started, write_run


class SmallDemo(NamedTuple):
    """The folder that `cloudgan demo` wrote; only tests/cli/test_demo.py may change `run`."""

    run: Path
    said: dict[str, Any]
    copy: Path


@pytest.fixture(scope="session")
def small_demo(made_once, run_cloudgan):
    """A demo of 200 showers and 20 steps, far too short to learn."""

    def make(folder):
        flags = ("--showers=200", "--max-steps=20", "--max-seconds=999", "--json")
        said = run_cloudgan("demo", f"--run={folder / 'small'}", *flags)
        (folder / "said.json").write_text(said.stdout)
        shutil.copytree(folder / "small", folder / "copy" / "small")

    folder = made_once("small-demo", make)
    said = json.loads((folder / "said.json").read_text())
    return SmallDemo(folder / "small", said, folder / "copy" / "small")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def impatient(monkeypatch):
    """Shortens the intervals: no deletion here takes five seconds."""
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.001)))


@pytest.fixture
def trainer_image(tmp_path, monkeypatch):
    """The image of pods that train nothing, for a test cluster; all waits are short."""
    pytest.importorskip("kubernetes")
    from emulators.kubernetes import Image, python_image
    from launch.backends.kubernetes.lab import launcher

    monkeypatch.setattr("cloudgan.launch.operations.deployment.all_wheels", lambda *_: ())
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.05)))
    tests = Path(__file__).parents[1]
    python = python_image(tests.parent)
    program = launcher(tmp_path, tests / "live" / "trainer.py", python.programs["python"])
    return Image({"python": str(program)}, python.env, appended=python.appended)


@pytest.fixture
def quick_verdict(monkeypatch):
    """No classifiers, few bootstrap samples and permutations: tests/validation covers them."""
    for name, value in (("LEVELS", {}), ("BOOTSTRAPS", 15), ("PERMUTATIONS", 299)):
        monkeypatch.setattr(f"cloudgan.validation.assess.{name}", value)


@pytest.fixture
def cloud(monkeypatch, tmp_path):
    """Google Cloud in memory."""
    return installed(monkeypatch, tmp_path)


@pytest.fixture
def provisioned(plan_of, tmp_path):
    """Makes the plan of a run on nodes of Google Cloud, and writes its desired states, one after the other."""
    rules = RulesDouble(CloudDouble("gcp", tmp_path / "buckets"), engine="cluster")

    def make(name, *states, region=REGION, store=None, node_pool=(), **more):
        place = rules.target(PROJECT, region, f"{region}-a", None)
        pool = {"node_type": "n1-standard-8+1xT4", "market": "spot", "name": name}
        plan = plan_of(
            name=name,
            target=place.model_dump(),
            store=store or rules.store_url(place),
            node_pool=NodePool(**pool | dict(node_pool)),
            requests=lambda plan: (),
            **more,
        )
        for state in states:
            RunRegistry(open_store(plan.store), "another machine").write(plan, state)
        return plan

    return make


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """The user's current folder, with a kubeconfig beside it and fixed names of wheels."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig()))
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
    return Desk(user_folder, tmp_path / "buckets", capsys, monkeypatch)


@pytest.fixture
def refused(user_folder, cloudgan_here):
    """Runs a command in the current folder that must be refused; returns its message, on one line.

    It changes no file, and prints nothing but a message of at most three lines, besides progress.
    """

    def run(*words, exits=2):
        before = contents(Path.cwd())
        done = cloudgan_here(*words, exits=exits)
        assert contents(Path.cwd()) == before
        assert exits != 2 or done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "a bug in cloudgan" not in done.stderr
        message = f"\n{done.stderr}".rpartition("\ncloudgan: ")[2]
        assert len(message.splitlines()) <= 3
        assert len(message) < 2100
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
