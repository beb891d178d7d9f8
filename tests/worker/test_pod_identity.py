"""A pod whose identity is not ready when it starts, or fails later; the trainer is a stub."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from cloudgan.storage.store import STORE_FAILED, open_store
from storage.conftest import s3  # noqa: F401
from storage.identity_double import IdentityDouble

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

LONG = 1_000_000  # steps: it will not end before it is ended


@pytest.fixture
def pod(s3, monkeypatch):  # noqa: F811
    """The Pod Identity agent of a node, and the bucket that its pods use."""
    s3.make_bucket(bucket := f"pod-{time.monotonic_ns()}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0.01)
    with contextlib.closing(IdentityDouble(status=500)) as agent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.address)
        where = f"{agent.address}/v1/credentials"
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", where)
        yield agent, f"s3://{bucket}"


def test_a_pod_waits_for_its_identity_and_trains(team, pod, wait_until):
    agent, url = pod
    alone = team(1)
    worker = alone.start(0, CLOUDGAN_STORE=url)
    wait_until(lambda: "retrying every" in worker.output, "a line why it waits")
    assert alone.began(0) == []
    agent.status = 200
    assert worker.wait() == 0, worker.output
    assert "runs/run-1/checkpoints/step-000000030.npz" in open_store(url).list()


def test_a_pod_whose_identity_is_never_ready_asks_for_another_try(team, pod):
    _, url = pod
    worker = team(1, store_seconds=0.1).start(0, CLOUDGAN_STORE=url)
    assert worker.wait() == 75, worker.output
    last = worker.output.splitlines()[-1]  # the launcher reads it in the pod's status
    assert f"exiting with code 75: {STORE_FAILED} for 0 s: " in last
    assert "it needs s3:ListBucket" in worker.output


def test_a_restart_waits_until_a_new_process_can_log_in(team, pod, wait_until):
    """The agent's own login may be valid while a new trainer gets none."""
    agent, url = pod
    agent.status, agent.seconds = 200, 36_000.0
    alone = team(1, orders={"steps": LONG})
    worker = alone.start(0, CLOUDGAN_STORE=url)
    alone.checkpoint(20)
    agent.status = 500
    alone.end_soon()
    os.kill(alone.trainer_pid(0), 9)
    wait_until(lambda: "retrying every" in worker.output, "a line why it waits")
    assert len(alone.began(0)) == 1
    agent.status = 200
    assert worker.wait() == 0, worker.output


@pytest.mark.parametrize(("supervised", "code"), [(True, 75), (False, 2)])
def test_a_program_that_cannot_log_in_asks_the_agent_for_another_try(
    team, pod, tmp_path, supervised, code
):
    """Of the programs in a pod, this one needs neither TensorFlow nor Geant4 up to its first request."""
    _, url = pod
    alone = team(1)
    alone.config.write_text(json.dumps({"task": "simulate", "simulation": {"showers": 1}}))
    environment = os.environ | alone.environment(0, CLOUDGAN_STORE=url)
    if supervised:
        environment["CLOUDGAN_LIVENESS"] = str(tmp_path / "liveness.json")
    read, write = os.pipe()  # the program ends when its standard input does
    done = subprocess.run(
        [sys.executable, "-m", "cloudgan.api.shower_production"],
        env=environment,
        stdin=read,
        capture_output=True,
        text=True,
    )
    for end in (read, write):
        os.close(end)
    assert done.returncode == code, done.stdout + done.stderr
    assert "it needs s3:ListBucket" in done.stdout
