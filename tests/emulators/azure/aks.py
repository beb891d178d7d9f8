"""AKS clusters: each is a Kubernetes emulator, and pools are nodes in it."""

from __future__ import annotations

import base64
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import yaml

from emulators.kubernetes import local_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from emulators.kubernetes import Cluster, Image

GPUS = {"Standard_NC64as_T4_v3": 4, "Standard_NC48ads_A100_v4": 2, "Standard_NC96ads_A100_v4": 4}
"""Of sizes that have not one."""
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}


class Aks:
    """Makes and removes clusters and nodes; a real one begins with a node of its system."""

    def __init__(self, root: Path, images: Mapping[str, Image] | None = None) -> None:
        self.root, self.images = root, images
        self.clusters: dict[str, Cluster] = {}
        self._stacks: dict[str, contextlib.ExitStack] = {}
        self._numbers = itertools.count(1)
        self.made = 0
        self.has_entra = False
        self.rules: list[dict[str, Any]] | None = None
        """What its users may do in clusters; None: everything."""
        """Whether users log in by Entra; otherwise by the kubeconfig of AKS alone."""

    def make(self, address: str) -> dict[str, Any]:
        """Creates a cluster; returns its additional properties."""
        number = next(self._numbers)
        self.made += 1
        stack = contextlib.ExitStack()
        there = local_cluster(nodes=0, images=self.images, root=self.root / f"aks-{number}")
        key = address.lower()
        self.clusters[key], self._stacks[key] = stack.enter_context(there), stack
        return {
            "fqdn": "127.0.0.1",
            "oidcIssuerProfile": {
                "enabled": True,
                "issuerURL": f"https://oidc.prod-aks.azure.com/{number}/",
            },
            "powerState": {"code": "Running"},
        }

    def add_pool(self, address: str, pool: dict[str, Any]) -> None:
        """The nodes of a pool join its cluster, with the taint that AKS gives Spot nodes itself."""
        properties = pool["properties"]
        taints = [_taint(text) for text in properties.get("nodeTaints") or ()]
        if properties.get("scaleSetPriority") == "Spot":
            taints.append(SPOT)
        for number in range(properties["count"]):
            self.clusters[address.lower()].add_node(
                f"aks-{pool['name']}-{number}",
                hidden_gpus=GPUS.get(properties["vmSize"], 1),
                labels=properties.get("nodeLabels") or {},
                taints=taints,
            )

    def remove_pool(self, pool: dict[str, Any]) -> None:
        address = pool["id"].lower().partition("/agentpools/")[0]
        cluster = self.clusters.get(address)
        for node in cluster.select("nodes") if cluster else ():
            name = node["metadata"]["name"]
            if name.startswith(f"aks-{pool['name']}-"):
                cluster.lose_node(name, unknown_seconds=0, evict_seconds=0, remove_seconds=0)

    def remove(self, address: str) -> None:
        if stack := self._stacks.pop(address.lower(), None):
            self.clusters.pop(address.lower())
            stack.close()

    def credentials(self, address: str) -> dict[str, Any]:
        """The kubeconfig that a user gets."""
        cluster = self.clusters[address.lower()]
        authority = base64.b64encode(cluster.ca.read_bytes()).decode()
        there = {"server": cluster.url, "certificate-authority-data": authority}
        token = {"token": cluster.token(self.rules)}
        user = {"exec": {"command": "kubelogin"}} if self.has_entra else token
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "aks", "cluster": there}],
            "users": [{"name": "user", "user": user}],
        }
        value = base64.b64encode(yaml.safe_dump(config).encode()).decode()
        return {"kubeconfigs": [{"name": "clusterUser", "value": value}]}

    def token(self) -> str:
        """A token of Entra that every cluster here accepts."""
        (cluster,) = self.clusters.values()
        return cluster.token()

    def close(self) -> None:
        for address in list(self._stacks):
            self.remove(address)


def _taint(text: str) -> dict[str, str]:
    label, _, effect = text.rpartition(":")
    key, _, value = label.partition("=")
    return {"key": key, "value": value, "effect": effect}
