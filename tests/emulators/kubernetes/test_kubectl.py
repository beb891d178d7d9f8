"""The cluster through kubectl, if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl")


@pytest.fixture
def kubectl(cluster, tmp_path):
    """Returns a function that runs kubectl and returns what it printed."""
    config = cluster.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments, given=None):
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(config), *arguments],
            capture_output=True,
            text=True,
            input=given,
            timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kubectl_applies_follows_and_deletes(cluster, kubectl):
    main = {
        "name": "t",
        "image": "busybox:1",
        "command": ["sh", "-c", "echo rank $JOB_COMPLETION_INDEX"],
    }
    pod = {"restartPolicy": "Never", "containers": [main]}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gan"}}
    manifest = yaml.safe_dump(job | {"spec": spec | {"template": {"spec": pod}}})
    assert kubectl("apply", "-f", "-", given=manifest) == "job.batch/gan created\n"
    assert kubectl("apply", "-f", "-", given=manifest) == "job.batch/gan unchanged\n"
    kubectl("wait", "--for=condition=complete", "job/gan", "--timeout=20s")
    logs = kubectl("logs", "-l", "job-name=gan", "--prefix=false")
    assert sorted(logs.splitlines()) == ["rank 0", "rank 1"]
    assert "2/2" in kubectl("get", "jobs") or "Complete" in kubectl("get", "jobs", "-o", "yaml")
    assert "SuccessfulCreate" in kubectl("describe", "job", "gan")
    assert kubectl("delete", "job", "gan") == 'job.batch "gan" deleted\n'
    cluster.wait_for(lambda: not cluster.select("pods"))
    applied = kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", given=manifest)
    assert applied == "job.batch/gan serverside-applied (server dry run)\n"
    assert not cluster.select("jobs")
