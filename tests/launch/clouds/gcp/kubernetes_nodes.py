"""The machines of the emulator's pools as nodes of a test cluster."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulators.gcp.project import Project


def join(google: Project, cluster: Any) -> None:
    """Uses a test cluster for all clusters of the project; the machines of its pools become nodes."""
    engine = google.engine
    engine.endpoint = cluster.url.removeprefix("https://")
    engine.certificate = base64.b64encode(cluster.ca.read_bytes()).decode()

    def come(pool: dict[str, Any]) -> None:
        config = pool["config"]
        gpus = sum(int(one["acceleratorCount"]) for one in config.get("accelerators", ()))
        taints = [one | {"effect": "NoSchedule"} for one in config.get("taints", ())]
        if gpus:
            taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
        for name in names(pool):
            cluster.add_node(name, gpus=gpus, labels=config["labels"], taints=taints)

    def go(pool: dict[str, Any]) -> None:
        for name in names(pool):
            if cluster.find("nodes", None, name):
                cluster.remove_node(name)

    engine.nodes_come, engine.nodes_go = come, go


def names(pool: dict[str, Any]) -> list[str]:
    """Returns the names of a pool's machines."""
    return [f"gke-{pool['name']}-{number}" for number in range(pool.get("initialNodeCount", 0))]
