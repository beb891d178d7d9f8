"""A subscription of Azure on loopback."""

from __future__ import annotations

import functools
from pathlib import Path

from cloudgan.launch.clouds.azure import ids, kinds, planner
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.launch.clouds.resource import Resource
from emulators.azure import SmallAzure, small_azure
from emulators.azure.cloud import SUBSCRIPTION
from emulators.kubernetes import Cluster
from launch.clouds.lab import Lab, planned

REGION = "eastus"
PLACE = planner.target(SUBSCRIPTION, REGION, None, None)
ACCOUNT_ID = kinds.ACCOUNT.name_of(ids.container(PLACE))
CONTAINER_ID = kinds.CONTAINER.name_of(ids.container(PLACE))
azure_plan = functools.partial(planned, "azure")
OF_SETUP = ("microsoft.storage/", "microsoft.managedidentity/", "microsoft.authorization/")


class AzureLab(Lab):
    provider = "azure"
    account = staticmethod(small_azure)

    def __init__(self, folder: Path, azure: SmallAzure, cluster: Cluster | None = None) -> None:
        super().__init__(folder, cluster)
        self.azure = azure
        if cluster:
            azure.tie(cluster)
        self.setup()

    def setup(self) -> None:
        for step in planner.setup_steps(PLACE):
            self.engine().ensure(step, None)

    def cloud(self) -> AzureClient:
        return self.azure.cloud(planner.target(None, REGION, None, None), self.said.append)

    def share_cluster(self, kind: str = "UserAssigned") -> None:
        """Adds another user's cluster, physics/shared."""
        group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/physics"
        cluster = f"{group}/providers/Microsoft.ContainerService/managedClusters/shared"
        body = {"identity": {"type": kind}, "properties": {"agentPoolProfiles": []}}
        self.azure.arm.put(group, {"location": REGION})
        self.azure.arm.put(cluster, {"location": REGION} | body)

    def reserve(self, count: int = 2) -> str:
        """A reservation takes a cluster of the user's own; this plan has none."""
        return ""

    def left(self) -> list[str]:
        found = [one.lower() for one in self.azure.arm.held()]
        found = [
            one
            for one in found
            if not one.rpartition("/providers/")[2].startswith(OF_SETUP)
            and not one.endswith(f"/resourcegroups/cloudgan-{REGION}")
        ]
        if any("/managedclusters/" in one for one in found):
            # AKS deletes the group of nodes, and what is in it, with the cluster.
            found = [one for one in found if f"/resourcegroups/cloudgan-{REGION}-nodes" not in one]
        return found

    def pools_created(self) -> int:
        return sum(how == "PUT" and "/agentPools/" in path for how, path in self.azure.arm.calls)

    def names_of(self, resource: Resource) -> list[str]:
        return [] if resource.kind == "AKS system pool" else [resource.name.lower()]
