"""Compute Engine, as far as it is asked: zones, quotas, and the groups behind node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google_cloud.kubernetes_engine import STOCK_OUT
from google_cloud.refusal import Refusal
from google_cloud.server import Route

if TYPE_CHECKING:
    from google_cloud.kubernetes_engine import KubernetesEngine
    from google_cloud.server import Call, GoogleServer

Object = dict[str, Any]
ZONES = {
    "us-central1-a": ("g2-standard-4", "nvidia-tesla-v100", "a2-highgpu-1g"),
    "us-central1-b": ("g2-standard-4", "ct6e-standard-4t"),
    "us-central1-f": ("nvidia-tesla-v100",),
    "europe-west4-a": ("g2-standard-4", "a3-highgpu-8g"),
}
"""What is where: machine types, and GPUs that are attached to machines."""


class ComputeEngine:
    """What may be had in one project.

    Attributes:
        quotas: Limits by metric, in each region.
        global_quotas: In all regions together.
    """

    def __init__(self, server: GoogleServer, engine: KubernetesEngine) -> None:
        self._engine = engine
        self.quotas = {"NVIDIA_L4_GPUS": 8.0, "NVIDIA_V100_GPUS": 8.0, "CPUS": 72.0}
        self.quotas |= {"PREEMPTIBLE_NVIDIA_L4_GPUS": 8.0, "PREEMPTIBLE_NVIDIA_V100_GPUS": 0.0}
        self.global_quotas = {"GPUS_ALL_REGIONS": 8.0}
        group = ("compute.instanceGroupManagers.get",)
        server.add(
            {
                "compute.machineTypes.aggregatedList": Route(
                    lambda call: _listed(call, "machineTypes"), ("compute.machineTypes.list",)
                ),
                "compute.acceleratorTypes.aggregatedList": Route(
                    lambda call: _listed(call, "acceleratorTypes"),
                    ("compute.acceleratorTypes.list",),
                ),
                "compute.regions.get": Route(
                    lambda call: _shown(self.quotas), ("compute.regions.get",)
                ),
                "compute.projects.get": Route(
                    lambda call: _shown(self.global_quotas), ("compute.projects.get",)
                ),
                "compute.instanceGroupManagers.get": Route(self._group, group),
                "compute.instanceGroupManagers.listErrors": Route(self._errors, group),
            }
        )

    def _group(self, call: Call) -> Object:
        pool = self._pool(call)
        ready = pool["status"] == "RUNNING"
        size = pool.get("initialNodeCount", 0) if ready else 0
        return {"name": call.path["instanceGroupManager"], "targetSize": size}

    def _errors(self, call: Call) -> Object:
        self._pool(call)
        if not self._engine.stock_out:
            return {}
        code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        return {"items": [{"error": {"code": code, "message": STOCK_OUT}}]}

    def _pool(self, call: Call) -> Object:
        name = call.path["instanceGroupManager"].removeprefix("gke-").removesuffix("-grp")
        for pool in self._engine.pools():
            if pool["name"] == name:
                return pool
        raise Refusal(404, f"The resource {name} was not found")


def _listed(call: Call, table: str) -> Object:
    """Zones without such a thing are listed too, with a warning, as Google does it."""
    wanted = call.query["filter"].removeprefix("name=")
    items: Object = {}
    for zone, names in ZONES.items():
        if wanted in names:
            items[f"zones/{zone}"] = {table: [{"name": wanted}]}
        else:
            nothing = {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}
            items[f"zones/{zone}"] = {"warning": nothing}
    return {"items": items}


def _shown(limits: dict[str, float]) -> Object:
    return {"quotas": [{"metric": k, "limit": v, "usage": 0.0} for k, v in limits.items()]}
