"""The machines of an emulated cloud as nodes of one test cluster, which is behind all its clusters."""

from __future__ import annotations

import base64
from typing import Any

from emulators.kubernetes import Cluster


class Nodes:
    """Adds and removes nodes. Without a `cluster` nothing answers at the address of the cloud's clusters."""

    cluster: Cluster | None = None

    @property
    def url(self) -> str:
        return self.cluster.url if self.cluster else "https://127.0.0.1:1"

    @property
    def authority(self) -> str:
        """The certificate authority of the clusters, base64."""
        return base64.b64encode(self.cluster.ca.read_bytes() if self.cluster else b"none").decode()

    def come(self, name: str, **how: Any) -> None:
        """Adds a node; `how` are the arguments of `Cluster.add_node`."""
        if self.cluster:
            self.cluster.add_node(name, **how)

    def go(self, name: str) -> None:
        if self.cluster and self.cluster.find("nodes", None, name):
            self.cluster.remove_node(name)
