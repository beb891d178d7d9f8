"""A cluster, a launcher with exactly the documented permissions, and a plan."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.launch.plan.build import PlanRequest, make_plan
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Plan, Showers, Target, Workers
from cloudgan.speed.model import build_throughput_model

ROOT = Path(__file__).parents[4]
IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
NAMESPACE = "cloudgan"
ON_DOUBLE = pytest.mark.parametrize("cluster", ["double"], indirect=True)
"""For what a real control plane on one machine does not play; see tests/realcluster/README.md."""
NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)


class Lab(NamedTuple):
    """A cluster emulator and the backend under test."""

    cluster: Any
    backend: KubernetesBackend
    kubeconfig: Path
    store: Path
    """The claim's folder, which all pods share."""
    said: list[str]

    def end_worker(self, run: str, index: int, order: str, number: int = 0) -> None:
        """Makes the stub trainer of a rank exit with a code."""
        folder = self.store / "runs" / run
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f".new-{index}-{number}"
        path.write_text(order)
        path.rename(folder / f"do-{index}-{number}")

    def pods(self, run: str) -> list[dict[str, Any]]:
        found = self.cluster.select("pods", NAMESPACE)
        return [one for one in found if one["metadata"]["labels"].get("cloudgan-run") == run]

    def pod(self, run: str, index: int) -> str:
        """The name of the pod that runs as this rank."""

        def look() -> str:
            names = [
                pod["metadata"]["name"]
                for pod in self.pods(run)
                if pod["metadata"]["name"].startswith(f"{run}-{index}-")
                and (pod.get("status") or {}).get("phase") == "Running"
                and not pod["metadata"].get("deletionTimestamp")
            ]
            return names[0] if names else ""

        name: str = self.cluster.wait_for(look)
        return name

    def remaining(self) -> list[str]:
        """Returns all objects in the namespace except those that every namespace has."""
        kinds = ("pods", "jobs", "services", "configmaps", "networkpolicies", "secrets")
        return [
            f"{kind}/{one['metadata']['name']}"
            for kind in kinds
            for one in self.cluster.select(kind, NAMESPACE)
            if one["metadata"]["name"] != "kube-root-ca.crt"  # every namespace has it
        ]


def rules(*names: str) -> list[dict[str, Any]]:
    folder = ROOT / "deploy" / "kubernetes"
    return [yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in names]


def plan_of(name: str = "gan", **changes: Any) -> Plan:
    """Returns a plan for the stub: two workers, a claim as store, an image with cloudgan.

    Without a port probe unless it has allow_open_ports=False.
    """
    workers = {"nodes": 2, "cpus": 1, "memory_gib": 1, "image": IMAGE, "grace_seconds": 2}
    workers |= {"allow_open_ports": True}
    asked = {
        "config": RunConfig(name=name),
        "target": Target(provider="kubernetes", namespace=NAMESPACE),
        "workers": Workers(**(workers | changes.pop("workers", {}))),
        "store": "pvc:runs",
        "showers": Showers(source="pvc:data"),
        "owner": "physicist",
    }
    return make_plan(
        PlanRequest(**(asked | changes)),
        build_throughput_model("paper", 1000, ()),
        manifest_steps,
        NOW,
    )


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "runs"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


def launcher(folder: Path, stub: Path, python: str) -> Path:
    """Creates the `python` program of the stub's image: the stub is its module cloudgan."""
    path = folder / "python"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec "{python}" "$@"\nexec "{python}" "{stub}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def finish(lab: Lab, plan: Plan) -> None:
    """Lets all workers of a plan end well, as soon as they run."""
    for index in range(plan.workers.nodes):
        lab.pod(plan.run, index)
        lab.end_worker(plan.run, index, "0")


def admin(lab: Lab) -> ClusterApi:
    """Returns a client with all rights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(lab.kubeconfig.with_name("admin")))
        return ClusterApi(connect(None))
