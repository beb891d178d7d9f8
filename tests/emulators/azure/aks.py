"""AKS: what it adds to a cluster and a pool, and the kubeconfig of a cluster's users."""

from __future__ import annotations

import base64
from typing import Any

import yaml

from emulators.nodes import Nodes

GPUS = {"Standard_NC64as_T4_v3": 4, "Standard_NC48ads_A100_v4": 2, "Standard_NC96ads_A100_v4": 4}
"""Of sizes that have not one."""
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}


class Aks:
    """Clusters and pools.

    Attributes:
        nodes: Those of all clusters.
        made: How many clusters were created; each has an issuer of its own.
        has_entra: Whether users log in by Entra; otherwise by the kubeconfig of AKS alone.
        rules: What users may do in clusters; None: everything.
    """

    def __init__(self) -> None:
        self.nodes, self.made, self.has_entra = Nodes(), 0, False
        self.rules: list[dict[str, Any]] | None = None

    def make(self) -> dict[str, Any]:
        """Creates a cluster; returns its additional properties."""
        self.made += 1
        issuer = f"https://oidc.prod-aks.azure.com/{self.made}/"
        return {
            "fqdn": "127.0.0.1",
            "oidcIssuerProfile": {"enabled": True, "issuerURL": issuer},
            "powerState": {"code": "Running"},
        }

    def add_pool(self, pool: dict[str, Any]) -> None:
        """The nodes of a pool join its cluster, with the taint that AKS gives Spot nodes itself."""
        properties = pool["properties"]
        taints = [_taint(text) for text in properties.get("nodeTaints") or ()]
        if properties.get("scaleSetPriority") == "Spot":
            taints.append(SPOT)
        gpus, labels = GPUS.get(properties["vmSize"], 1), properties.get("nodeLabels") or {}
        for name in _names(pool):
            self.nodes.come(name, hidden_gpus=gpus, labels=labels, taints=taints)

    def remove_pool(self, pool: dict[str, Any]) -> None:
        for name in _names(pool):
            self.nodes.go(name)

    def credentials(self) -> dict[str, Any]:
        """The kubeconfig that a user gets."""
        there = {"server": self.nodes.url, "certificate-authority-data": self.nodes.authority}
        user = {"exec": {"command": "kubelogin"}} if self.has_entra else {"token": self.token()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "aks", "cluster": there}],
            "users": [{"name": "user", "user": user}],
        }
        value = base64.b64encode(yaml.safe_dump(config).encode()).decode()
        return {"kubeconfigs": [{"name": "clusterUser", "value": value}]}

    def token(self) -> str:
        """A token of Entra that the clusters accept."""
        return self.nodes.cluster.token(self.rules) if self.nodes.cluster else "none"


def _names(pool: dict[str, Any]) -> list[str]:
    return [f"aks-{pool['name']}-{number}" for number in range(pool["properties"]["count"])]


def _taint(text: str) -> dict[str, str]:
    label, _, effect = text.rpartition(":")
    key, _, value = label.partition("=")
    return {"key": key, "value": value, "effect": effect}
