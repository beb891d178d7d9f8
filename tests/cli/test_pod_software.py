"""Software of pods: a resumed run keeps the image that its nodes pulled; wheels fit the accelerator."""

import json
import re
from pathlib import Path

import pytest

from cli.provisioned import basis, showers_in_bucket
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.launch.operations import staging
from cloudgan.launch.operations.staging import known_wheels
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from launch.lifecycle.place_double import PlaceDouble

DIGEST = "sha256:" + "0a" * 32
PULLED = f"lab/gan:1@{DIGEST}"
JOIN = {"task": "join", "join": "lr"}
JAX = {"training": {"engine": "jax"}}
FLAGS = (
    "--provider=kubernetes",
    "--store=s3://lab/cloudgan",
    "--data=s3://lab/cloudgan/data/x",
    "--name=gan",
    "--preset=smoke",
)


class Cluster(PlaceDouble):
    """Builds its steps from the plan that it gets, as every backend does."""

    def steps(self, plan):
        return manifest_steps(plan)


@pytest.fixture
def cluster(user_folder, monkeypatch, tmp_path):
    """A cluster in which every run fails; its kubelet reports the image PULLED."""
    double = Cluster()
    monkeypatch.setattr(
        "cloudgan.launch.operations.deployment.open_backend", lambda place, say, **_: double
    )
    showers_in_bucket(monkeypatch, tmp_path / "showers")
    bucket = FolderStore(tmp_path / "bucket")
    monkeypatch.setattr("cloudgan.launch.lifecycle.run_results.open_store", lambda url: bucket)
    return double


@pytest.mark.parametrize(
    ("reported", "again", "image"),
    [
        (PULLED, "lab/gan:1", PULLED),
        (None, "lab/gan:1", "lab/gan:1"),  # such as a pod that never pulled it
        (PULLED, f"lab/gan@{DIGEST}", f"lab/gan@{DIGEST}"),
        (PULLED, "lab/gan:2", "lab/gan:2"),
    ],
    ids=["same tag", "unknown", "a digest", "another tag"],
)
def test_a_resumed_run_has_the_image_that_its_nodes_pulled(
    cloudgan_here, cluster, reported, again, image
):
    failed = RunState("failed", reason="x", image=reported, ended_at="2026-11-21T12:00:00Z")
    cluster.states = [RunState("absent"), failed]
    cloudgan_here("deploy", *FLAGS, "--image=lab/gan:1", "--yes", exits=1)
    folder = Path("runs/gan")
    log = folder / "launch.json"
    assert json.loads(log.read_text())["attempts"][0]["image"] == reported
    cluster.meant, cluster.states = None, [RunState("absent")]
    ended = cloudgan_here("deploy", *FLAGS, f"--image={again}", "--yes", "--detach")
    said = f"resuming with the image of the run, {PULLED}" in " ".join(ended.stderr.split())
    assert said == (image == PULLED)
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["workers"]["image"] == image
    requests = json.loads(log.read_text())["attempts"][-1]["requests"]
    images = set(re.findall(r'"image": "([^"]+)"', json.dumps(requests)))
    assert images == {image}, "in the Job that was sent"


@pytest.mark.parametrize(
    ("flags", "image"),
    [
        ((), "tensorflow/tensorflow:2.21.0"),
        (("--engine=jax",), "python:3.11-slim"),
        (("--engine=jax", "--image=lab/jax:1"), "lab/jax:1"),
        (
            ("--engine=jax", "--image=tensorflow/tensorflow:2.21.0"),
            "tensorflow/tensorflow:2.21.0",
        ),
    ],
)
def test_pods_on_cpus_have_the_image_of_their_engine(planned, flags, image):
    assert planned(*FLAGS, *flags)["workers"]["image"] == image


def test_a_plan_invents_no_digest(cloudgan_here, user_folder):
    offline = cloudgan_here("plan", *FLAGS, "--image=lab/gan:1", "--json").stdout
    assert "image      lab/gan:1; its digest is recorded when a node pulls it\n" in basis(offline)
    assert "sha256:" not in offline


@pytest.mark.parametrize(
    "image",
    [
        *("python", "python:3.11-slim", "docker.io/python", "localhost/gan", "ghcr.io/lab/gan"),
        *("localhost:5000/lab/gan:1", "registry.example:5000/a/b/c:t", PULLED, f"lab/gan@{DIGEST}"),
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/cloudgan:1",
    ],
)
def test_a_reference_is_taken_as_given(cloudgan_here, user_folder, image):
    plan = cloudgan_here("plan", *FLAGS, f"--image={image}", "--json").json()
    assert plan["workers"]["image"] == image


@pytest.mark.parametrize(
    "image",
    [
        *("Lab/gan", "lab/gan:", "lab/gan:a b", "lab//gan", "https://ghcr.io/lab/gan:1"),
        *("lab/gan@sha256:12", "lab/gan@md5:0123", "ghcr.io/", "lab/gan:1@", "lab/gan:1\n"),
    ],
)
def test_an_invalid_reference_is_refused_before_anything_starts(cloudgan_here, user_folder, image):
    said = cloudgan_here("deploy", *FLAGS, f"--image={image}", "--yes", exits=2).stderr
    assert "not the name of an image; write HOST/NAME:TAG" in " ".join(said.split())
    assert not (user_folder / "runs").exists()


@pytest.mark.parametrize(
    ("asked", "named", "others"),
    [
        (
            ("H100", {}),
            {"tensorflow", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "boto3"},
            {"libtpu"},
        ),
        (("TPU-v5e", {}), {"tensorflow-tpu", "libtpu", "boto3"}, {"nvidia-cudnn-cu12"}),
        ((None, {}), {"boto3", "keras"}, {"tensorflow", "nvidia-cudnn-cu12", "optuna"}),
        (("TPU-v5e", JAX), {"jax", "libtpu", "keras", "boto3"}, {"tensorflow-tpu", "mpich"}),
        ((None, JAX), {"jax", "jaxlib", "keras", "numpy"}, {"libtpu", "tensorflow"}),
        ((None, JOIN), {"keras", "optuna", "cmaes", "scikit-learn", "sqlalchemy"}, {"mpich"}),
        ((None, JOIN | JAX), {"jax", "jaxlib", "keras", "optuna"}, {"tensorflow"}),
    ],
)
def test_pods_install_the_libraries_of_their_accelerator_and_of_their_job(
    monkeypatch, tmp_path, asked, named, others
):
    locks = []
    monkeypatch.setattr(staging, "dependency_wheels", lambda lock, **_: locks.append(lock) or ())
    monkeypatch.setattr(staging, "cache_folder", lambda: tmp_path)
    known_wheels(asked[0], parse_config(asked[1], "test"))
    packages = set(re.findall(r"^([a-z0-9-]+)==", locks[0], re.MULTILINE))
    assert named <= packages
    assert not others & packages
