"""What tests of launching have in hand: a cluster, a launcher with exactly its rights, a plan."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from cloudgan.core.config import RunConfig
from cloudgan.core.plan import Place, Showers, Workers
from cloudgan.cost.elsewhere import speeds
from cloudgan.planning.planning import Asked, make_plan
from cloudgan.providers.kubernetes.requests import steps

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan
    from cloudgan.providers.kubernetes.provider import KubernetesProvider

ROOT = Path(__file__).parents[3]
IMAGE = "registry.example/cloudgan@sha256:" + "1" * 64
NAMESPACE = "cloudgan"
NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)


class Lab(NamedTuple):
    """What a test of launching has in hand."""

    cluster: Any
    provider: KubernetesProvider
    kubeconfig: Path
    store: Path
    """The claim's folder, which all pods share."""
    said: list[str]

    def tell(self, run: str, index: int, order: str, number: int = 0) -> None:
        """Tells the stub trainer of a rank to end with an exit code."""
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

    def left(self) -> list[str]:
        """All that exists in the namespace beside what every namespace has."""
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
    """A plan for the stub: two workers, a claim as store, an image of one's own."""
    workers = {"nodes": 2, "cpus": 1, "memory_gib": 1, "image": IMAGE, "grace_seconds": 2}
    asked = {
        "config": RunConfig(name=name),
        "place": Place(provider="kubernetes", namespace=NAMESPACE),
        "workers": Workers(**(workers | changes.pop("workers", {}))),
        "store": "pvc:runs",
        "showers": Showers(source="pvc:data"),
        "owner": "physicist",
    }
    return make_plan(Asked(**(asked | changes)), speeds("paper", 1000, ()), steps, NOW)


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "runs"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


def launcher(folder: Path, stub: Path, python: str) -> Path:
    """What `python -m cloudgan worker` runs in the stub's image."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec "{python}" "{stub}" "$@"\n')
    path.chmod(0o755)
    return path
