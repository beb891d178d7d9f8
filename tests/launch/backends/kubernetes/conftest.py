"""Fixtures for launch tests on the Kubernetes emulator."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml

from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_monitor import RunMonitor
from cloudgan.schema.run_folder import RunFolder
from launch.backends.kubernetes.lab import CLAIM, IMAGE, NAMESPACE, Lab, launcher, rules

CILIUM = Path(__file__).with_name("ciliumnetworkpolicies.yaml")


@pytest.fixture
def make_lab(tmp_path, cluster):
    """Returns a function that creates a lab; its arguments configure the cluster."""
    pytest.importorskip("kubernetes")
    from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect
    from emulators.kubernetes import Image, python_image

    stub = Path(__file__).with_name("stub_trainer.py")
    python = python_image()
    program = launcher(tmp_path, stub, python.programs["python"])
    image = Image({"python": str(program)}, python.env)
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def make(roles=("role", "clusterrole"), patience_seconds=20.0, cilium=False, **options):
            known = {"nodes": 2, "images": {IMAGE: image}, "root": tmp_path}
            made = stack.enter_context(cluster(**known | options))
            admin = _admin(made, tmp_path)
            admin.create(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            )
            admin.create(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", CLAIM)
            if cilium:
                kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                admin.create(kinds, yaml.safe_load(CILIUM.read_text()))
            kubeconfig = made.kubeconfig(tmp_path / "kubeconfig", made.token(rules=rules(*roles)))
            patch.setenv("KUBECONFIG", str(kubeconfig))
            said: list[str] = []
            client = stack.enter_context(connect(None))
            api = ClusterApi(client, patience_seconds=patience_seconds, say=said.append)
            backend = KubernetesBackend(api, NAMESPACE)
            store = Path(made.claim_folder(NAMESPACE, "runs"))
            return Lab(made, backend, kubeconfig, store, said)

        def _admin(made, folder):
            patch.setenv("KUBECONFIG", str(made.kubeconfig(folder / "admin")))
            return ClusterApi(stack.enter_context(connect(None)))

        yield make


@pytest.fixture
def lab(make_lab):
    return make_lab()


@pytest.fixture
def launch_log(tmp_path):
    return lambda plan: LaunchLog(RunFolder(tmp_path / "runs" / plan.run), plan)


@pytest.fixture
def begin(launch_log):
    """Starts a plan in a lab."""
    return lambda lab, plan: apply(plan, lab.backend, launch_log(plan), lab.said.append)


@pytest.fixture
def follow():
    """Follows a plan to its end in a lab; `seen` gets each state."""

    def run(lab, plan, seen=lambda state: None):
        return RunMonitor(lab.backend, plan, lab.said.append, seen).follow()

    return run
