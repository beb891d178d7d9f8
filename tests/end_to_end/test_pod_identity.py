"""The real worker and trainer in a pod whose identity fails at the start and in the middle."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from cloudgan.core.errors import CloudganError
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.store import open_store
from storage.identity_double import IdentityDouble
from waiting import until

pytestmark = pytest.mark.slow


def test_a_run_survives_an_identity_that_fails_at_the_start_and_in_the_middle(
    shards, s3_server, plain_model, tmp_path, monkeypatch
):
    store = open_store("s3://physics/identity")
    assert store.list() == ()  # with a login of its own
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    config = {
        "data": {"path": str(shards)},
        "model": plain_model,
        "training": {"max_steps": 2000, "epochs": 1000, "validation_showers": 0},
        "checkpoint": {"every_steps": 4},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    log = tmp_path / "log"
    with contextlib.closing(IdentityDouble(status=500)) as agent, log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "cloudgan", "worker"],
            env=os.environ
            | {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.address}/v1/credentials",
                "CUDA_VISIBLE_DEVICES": "-1",
                "JOB_COMPLETION_INDEX": "0",
                "CLOUDGAN_WORLD": "1",
                "CLOUDGAN_PEERS": "127.0.0.1:2222",
                "CLOUDGAN_STORE": "s3://physics/identity",
                "CLOUDGAN_RUN": "run-1",
                "CLOUDGAN_CONFIG": str(tmp_path / "run.yaml"),
                "CLOUDGAN_WORK": str(tmp_path / "work"),
            },
            stdout=output,
            stderr=output,
        )
        folder = RunFolder(tmp_path / "work" / "runs" / "run-1")

        def copies(copied):
            with contextlib.suppress(CloudganError, OSError):
                lines = record.read_if_whole(folder.record_file).lines
                return sum(getattr(line, "copied", None) is copied for line in lines)
            return 0

        try:
            until(lambda: "retrying every" in log.read_text(), "it does not wait for its identity")
            agent.status = 200
            until(lambda: copies(True) >= 2, "no copy")
            agent.status = 500
            until(lambda: copies(False) >= 2, "no copy failed")
            agent.status = 200
            before = copies(True)
            until(lambda: copies(True) > before, "no copy after the outage")
            worker.terminate()
            assert worker.wait(60) == 75
        finally:
            worker.kill()
            worker.wait()
    said = log.read_text()
    assert said.count("generation 1: training") == 1
    assert "generation 2" not in said
    assert any(name.endswith(".npz") for name in store.list("runs/run-1/checkpoints/"))
