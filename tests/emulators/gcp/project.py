"""One Google Cloud project with all services of the emulator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from emulators.gcp.cloud_storage import CloudStorage
from emulators.gcp.compute_engine import ComputeEngine
from emulators.gcp.discovery import api
from emulators.gcp.identity import Identity
from emulators.gcp.kubernetes_engine import KubernetesEngine
from emulators.gcp.server import GoogleServer, serving
from emulators.gcp.tpu import Tpus
from emulators.kubernetes import Cluster

APIS = (
    ("container", "v1"),
    ("compute", "v1"),
    ("storage", "v1"),
    ("iam", "v1"),
    ("cloudresourcemanager", "v3"),
    ("serviceusage", "v1"),
    ("tpu", "v2"),
)
PROJECT = "lab"


class Project:
    """A project in which `setup` was done."""

    def __init__(self) -> None:
        self.server = GoogleServer(tuple(api(*one) for one in APIS))
        self.engine = KubernetesEngine(self.server)
        self.compute = ComputeEngine(self.server, self.engine)
        self.storage = CloudStorage(self.server)
        self.identity = Identity(self.server)
        self.tpus = Tpus(self.server)
        for name in ("cloudgan-nodes", "cloudgan-trainer", "cloudgan-tpu"):
            self.identity.add_account(name)
        self.engine.refuse_network = self.compute.refuse_network
        self.tpus.refuse_network = self.compute.refuse_network
        self._has_pool = False
        self.identity.has_pool = self._pool_exists
        self.engine.accounts = self.identity.accounts  # type: ignore[assignment]

    def _pool_exists(self) -> bool:
        """The pool stays when its cluster is deleted."""
        self._has_pool |= any(
            one.body.get("workloadIdentityConfig") for one in self.engine.clusters.values()
        )
        return self._has_pool

    def tie(self, cluster: Cluster) -> None:
        """Uses a test cluster for all clusters of the project."""
        self.engine.nodes.cluster = cluster

    def left(self) -> list[str]:
        """Returns the resources that a run or cloudgan created, except bucket and identities."""
        clusters = [f"cluster {name}" for _, name in self.engine.clusters]
        pools = [f"pool {pool['name']}" for pool in self.engine.pools()]
        tpus = [name.rpartition("/")[2] for name in (*self.tpus.resources, *self.tpus.nodes)]
        compute = [path for table in self.compute.left.values() for path in table]
        return clusters + pools + [f"TPU {name}" for name in tpus] + compute


@contextlib.contextmanager
def project() -> Iterator[Project]:
    """Runs a project."""
    made = Project()
    with serving(made.server):
        yield made
