"""A project of Google Cloud on loopback."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.client import GcpClient
from cloudgan.launch.clouds.gcp.login import Login
from cloudgan.launch.clouds.resource import Resource
from cloudgan.schema.plan import Target
from emulators.gcp.project import Project, project
from emulators.gcp.server import TOKEN
from emulators.kubernetes import Cluster
from launch.clouds.lab import POLL_SECONDS, Lab, planned

gcp_plan = functools.partial(planned, "gcp")
PLACE = Target(provider="gcp", account="lab", region="us-central1", zone="us-central1-a")


class GcpLab(Lab):
    provider = "gcp"
    account = staticmethod(lambda folder: project())

    def __init__(self, folder: Path, google: Project, cluster: Cluster | None = None) -> None:
        super().__init__(folder, cluster)
        self.google, self.token, self.patience_seconds = google, TOKEN, 5.0
        if cluster:
            google.tie(cluster)
            self.log_in(cluster.token())

    def log_in(self, token: str, rights: Any = None) -> None:
        """Uses another login: a token, and what it may do; None: everything."""
        self.token = token
        self.google.server.tokens[token] = rights

    def lose_patience(self) -> None:
        self.patience_seconds = 0.05

    def api(self) -> GoogleApi:
        return GoogleApi(
            AuthorizedSession(Credentials(token=self.token)),
            "lab",
            endpoint=self.google.server.url,
            patience_seconds=self.patience_seconds,
            pause_seconds=POLL_SECONDS / 2,
        )

    def cloud(self, poll_seconds: float = POLL_SECONDS) -> GcpClient:
        login = Login(Credentials(token=self.token), "lab")
        return GcpClient(login, self.api(), self.said.append, poll_seconds=poll_seconds)

    def reserve(
        self, count: int = 2, node_type: str = "g2-standard-4", zone: str = "us-central1-b"
    ) -> str:
        self.google.compute.reserve("week", node_type, count, zone)
        return "week"

    def left(self) -> list[str]:
        return sorted(self.google.left())

    def pools_created(self) -> int:
        return sum(one.endswith("nodePools.create") for one in self.google.server.methods())

    def names_of(self, resource: Resource) -> list[str]:
        kind = resource.kind.removeprefix("GKE ").removeprefix("node ")
        return [f"{kind} {resource.name.rpartition('/')[2]}"]
