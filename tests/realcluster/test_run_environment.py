"""Variables and secrets of a run on the real API server: its Secret is made after the Job that waits for it."""

from __future__ import annotations

import hashlib
import time

import pytest

from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.manifests import manifest_steps, trainer
from launch.backends.kubernetes.lab import plan_of

pytestmark = pytest.mark.slow
PLANTED = "pl4nted $(HOME) 'secret'"
MODE = "$(HOME) $$"
SAYS = 'echo "- $LAB_MODE, $(printf %s "$LAB_LOGIN" | sha256sum)"'


def test_a_pod_waits_for_the_secret_of_its_run_and_has_all_variables(apis, monkeypatch):
    core, _ = apis
    monkeypatch.setenv("LAB_LOGIN", PLANTED)
    workers = {"nodes": 1, "env": {"LAB_MODE": MODE}, "secrets": ("LAB_LOGIN",)}
    plan = plan_of(workers=workers, store="s3://lab/x")
    steps = manifest_steps(plan)
    backend = KubernetesBackend(ClusterApi(core.api_client), "cloudgan")
    for step in steps:
        if step.ensure.startswith("Job "):
            trainer(step.body)["command"] = ["sh", "-c", SAYS]
        backend.ensure(step, plan)
    limit = time.monotonic() + 60
    while backend.state("gan").phase != "finished" and time.monotonic() < limit:
        time.sleep(0.5)
    (lines,) = ([line.text for line in log(False)] for log in backend.log_sources("gan").values())
    assert f"{MODE}, {hashlib.sha256(PLANTED.encode()).hexdigest()}" in lines[0]
    (secret,) = (
        one for one in core.list_namespaced_secret("cloudgan").items if one.metadata.name == "gan"
    )
    assert secret.metadata.owner_references[0].kind == "Job"
    assert secret.metadata.labels["cloudgan-run"] == "gan"
    for _ in backend.destroy("gan"):
        pass
    limit = time.monotonic() + 60
    while core.list_namespaced_secret("cloudgan").items and time.monotonic() < limit:
        time.sleep(0.5)
    assert core.list_namespaced_secret("cloudgan").items == [], "deleted with the Job"
