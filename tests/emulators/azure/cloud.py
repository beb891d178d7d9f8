"""Starts and stops all parts of the emulator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from azure.core.pipeline.transport import RequestsTransport

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.client import AzureClient
from cloudgan.schema.plan import Target
from emulators.azure.aks import Aks
from emulators.azure.arm import Arm
from emulators.azure.entra import Entra, Login
from emulators.azure.faults import Faults
from emulators.azure.lists import Lists
from emulators.azure.server import Server
from emulators.certificates import write_certificates
from emulators.kubernetes import Cluster

SUBSCRIPTION = "00000000-0000-0000-0000-0000000000bb"


class Blobs:
    """Blob Storage of the subscription, for its permissions only.

    Attributes:
        refusals: How many requests a new role assignment has no effect on: "up to 10 minutes"
            (https://learn.microsoft.com/azure/role-based-access-control/troubleshooting, read 2026-11-25).
    """

    refusals = 0

    def open(self, url: str) -> Blobs:
        """Opens the container of a URL."""
        del url
        return self

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists nothing; refuses like Blob Storage, as the product's store reports it."""
        del prefix
        if self.refusals:
            self.refusals -= 1
            raise CredentialsError(
                "Azure rejected these credentials (AuthorizationPermissionMismatch)"
            )
        return ()


class SmallAzure:
    """One subscription, its machines and the logged-in user."""

    def __init__(self, root: Path) -> None:
        self.faults, self.blobs = Faults(), Blobs()
        self.aks = Aks()
        self.arm = Arm(SUBSCRIPTION, self.aks, self.faults)
        names = {"subscriptionId": SUBSCRIPTION, "displayName": "Physics"}
        self.lists = Lists(self.arm, subscriptions=[names])
        self.entra = Entra(aks_token=self.aks.token)
        self.files = write_certificates(root)
        self.server = Server(self.arm, self.lists, self.entra, self.files)
        self.login = Login(aks_token=self.aks.token)

    def api(self, **options: Any) -> ArmApi:
        """The product's client, logged in; it polls without pauses."""
        transport = RequestsTransport(connection_verify=str(self.files.authority))
        given: dict[str, Any] = {"transport": transport, "pause_seconds": 0.0}
        given["base_url"] = f"https://127.0.0.1:{self.server.port}"
        return ArmApi(options.pop("credential", self.login), **given | options)

    def cloud(self, place: Target, say: Any = lambda _: None) -> AzureClient:
        """The product's cloud."""
        return AzureClient(self.api(), place, say, store=self.blobs.open, poll_seconds=0.001)

    def tie(self, cluster: Cluster) -> None:
        """Uses a test cluster for all AKS clusters."""
        self.aks.nodes.cluster = cluster

    def close(self) -> None:
        self.server.close()


@contextlib.contextmanager
def small_azure(root: Path) -> Iterator[SmallAzure]:
    """Runs it; `root` holds its files."""
    made = SmallAzure(root)
    try:
        yield made
    finally:
        made.close()
