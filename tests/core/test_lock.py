"""Requirement files: parts of the one lock."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.core.lock import locked

ROOT = Path(__file__).parents[2]
NVIDIA, PROGRAM = "nvidia-cudnn-cu12", "fire"


def names(text):
    return re.findall(r"(?m)^([a-z0-9-]+)==\S+", text)


@pytest.mark.parametrize(
    ("extras", "has", "lacks"),
    [
        ((), {PROGRAM, "termcolor"}, {"numpy-financial", "boto3", "tensorflow"}),
        (("build",), {"hatchling", "editables"}, {PROGRAM}),
        (("train",), {"tensorflow", "wrapt", PROGRAM}, {NVIDIA, "boto3", "optuna", "libtpu"}),
        (("gpu",), {"tensorflow", NVIDIA, "nvidia-nccl-cu12"}, {"tensorflow-tpu"}),
        (("pod", "tpu"), {"tensorflow-tpu", "libtpu", "google-cloud-storage"}, {"tensorflow"}),
        (("pod", "jax-tpu"), {"jax", "jaxlib", "libtpu", "requests"}, {"tensorflow-tpu"}),
        (("aws",), {"botocore", "kubernetes"}, {"azure-core", "tensorflow"}),
        (("physics", "kubernetes", "gcp", "azure", "test"), {"pytest"}, {"tensorflow", "keras"}),
        (("build", "dev"), {"pytest", "jax", "ruff", "hatchling"}, {NVIDIA, "wandb"}),
    ],
    ids=["none", "build", "train", "gpu", "pod, tpu", "pod, jax-tpu", "aws", "users", "build, dev"],
)
def test_an_extra_has_what_it_needs_each_once_with_hashes(extras, has, lacks):
    text = locked(*extras)
    assert has <= set(names(text))
    assert not lacks & set(names(text))
    assert names(text) == sorted(set(names(text)))
    assert all("--hash=sha256:" in one for one in re.split(r"(?m)^(?=\w)", text)[1:])


def test_jax_has_another_libtpu_than_tensorflow():
    found = [re.search(r"(?m)^libtpu==(\S+)", locked(extra)) for extra in ("tpu", "jax-tpu")]
    assert [one[1] for one in found] == ["0.0.14", "0.0.42.1"]


def test_packages_are_added_with_what_they_need_and_others_are_left_out():
    text = names(locked("pod", packages=("mpi4py", "mpich"), without=("numpy", "h5py")))
    assert {"mpi4py", "mpich", "keras"} <= set(text)
    assert not {"numpy", "h5py", "scipy"} & set(text)


def test_it_runs_before_anything_is_installed():
    command = [sys.executable, "-I", "-S", "-P", ROOT / "cloudgan/core/lock.py", "train", "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == locked("train", "build")


def test_an_extra_that_there_is_not_is_an_error():
    with pytest.raises(KeyError, match="quantum"):
        locked("quantum")
