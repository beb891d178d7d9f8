"""One real control plane for the tests of this folder, with the back-off of its Job controller shortened."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parent / "build.sh"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Clients of the core and the batch API; delays of 0.2 s, at most 2 s, instead of 10 s and 10 min."""
    found = subprocess.run([BUILD, "--find"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("the real control plane is not built; run `make cluster`")
    kubernetes = pytest.importorskip("kubernetes")
    words = ["up", "--dir", str(tmp_path_factory.mktemp("cluster") / "state"), "--nodes", "2"]
    words += ["--job-backoff", "200ms", "--job-backoff-max", "2s", "--exit-on-stdin-eof"]
    program = subprocess.Popen(
        [found.stdout.strip(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        ready = json.loads(program.stdout.readline())
        client = kubernetes.config.new_client_from_config(ready["kubeconfig"])
        with client:
            yield kubernetes.client.CoreV1Api(client), kubernetes.client.BatchV1Api(client)
        program.stdin.close()
