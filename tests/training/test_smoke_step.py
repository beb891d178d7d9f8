"""The computation of the smoke step, in this process and in two that share a strategy."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from cloudgan.core import settings
from cloudgan.training import smoke_step

pytestmark = pytest.mark.tf


def test_fewer_devices_than_planned_end_it_before_it_waits_for_others(monkeypatch, capsys):
    monkeypatch.setenv("CLOUDGAN_ACCELERATORS", "1")
    monkeypatch.setattr(sys, "stdin", None)  # reading it would fail
    assert smoke_step.run("tensorflow") == 2
    error = capsys.readouterr().err
    assert error.startswith("cloudgan: the plan has 1 accelerator for this worker")


def test_a_lost_agent_ends_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert smoke_step.run("tensorflow") == 75


@pytest.mark.parametrize("wrong", [0.0, float("nan")])
def test_a_wrong_result_is_refused(wrong):
    with pytest.raises(smoke_step.CloudganError, match="instead of 8"):
        smoke_step.compare([8.0, wrong], 8.0, "the sum is wrong")


ENGINES = ["tensorflow", *(["jax"] if find_spec("jax") else [])]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_workers_compute_and_sum_as_expected(engine, free_ports):
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "cloudgan.training.smoke_step", engine],
            env=settings.child_environment(JAX_PLATFORMS="cpu", KERAS_BACKEND=engine),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in workers
    ]
    for index, process in enumerate(processes):
        task = {"type": "worker", "index": index}
        process.stdin.write(json.dumps({"cluster": {"worker": workers}, "task": task}) + "\n")
        process.stdin.flush()
    output = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], output
    assert all("smoke step: 2 x CPU computed and summed as expected" in text for text in output)


@pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed")
def test_jax_without_the_planned_devices_ends_with_2():
    done = subprocess.run(
        [sys.executable, "-m", "cloudgan.training.smoke_step", "jax"],
        env=settings.child_environment(
            JAX_PLATFORMS="cpu", KERAS_BACKEND="jax", CLOUDGAN_ACCELERATORS="4"
        ),
        input="null\n",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 2, done.stderr
    assert "the plan has 4 accelerators for this worker" in done.stderr
    assert "JAX finds 0" in done.stderr
