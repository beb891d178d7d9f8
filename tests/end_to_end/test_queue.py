"""A user's run in a queue of Kueue on the real control plane: what `status` says while it waits, and the end."""

import json
import subprocess
import sys

import pytest

from end_to_end.conftest import NAMESPACE, ON_CLUSTER
from end_to_end.test_real_control_plane import objects
from launch.backends.kubernetes.queues import LACKING, other_job, queue

pytestmark = pytest.mark.slow


def test_a_run_in_a_full_queue_says_that_it_waits_trains_when_it_is_admitted_and_leaves_nothing(
    real, here, shards, cloudgan_here
):
    with queue(real):
        before = objects(real)
        real.put("jobs", other_job("other", image="lab/gan:1"))
        real.wait_for(lambda: real.find("jobs", NAMESPACE, "other").get("status", {}).get("active"))
        what = ("--config=plain.yaml", f"--data={shards}", "--epochs=1", "--name=queued")
        flags = (*what, *ON_CLUSTER, "--allow-open-ports", "--queue=physics")
        words = [sys.executable, "-m", "cloudgan", "deploy", *flags]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as deploy:
            try:
                lacking = LACKING.format(1)
                real.wait_for(lambda: lacking in said(real, cloudgan_here), 300)
                text = cloudgan_here("status", "queued").stdout
                assert "waiting" in text.splitlines()[0]
                assert "waits in queue physics until Kueue admits it" in text
                background = {"propagationPolicy": "Background"}  # else its pod stays
                real._ask("DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/other", background)
                out, err = deploy.communicate(timeout=600)
            finally:
                deploy.kill()
        assert deploy.returncode == 0, err.decode()
        assert json.loads(out)["state"] == "finished"
        cloudgan_here("down", "queued")
        real.wait_for(lambda: objects(real) == before)


def said(real, cloudgan_here):
    if not real.find("jobs", NAMESPACE, "queued"):
        return ""
    return json.loads(cloudgan_here("status", "queued", "--json").stdout)["reason"]
