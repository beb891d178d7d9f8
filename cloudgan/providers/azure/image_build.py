"""Builds an image by ACR Tasks, into the registry that runs them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from azure.identity import DefaultAzureCredential

from cloudgan.core import settings
from cloudgan.core.errors import LaunchError
from cloudgan.core.image_order import Build
from cloudgan.providers.azure.api import PUBLIC, ArmApi
from cloudgan.providers.azure.image_requests import (
    build_step,
    registry_steps,
    tasks_path,
    upload_step,
)
from cloudgan.providers.azure.subscription import find_subscription
from cloudgan.registries.transport import WebTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.image_order import ImageOrder
    from cloudgan.core.plan import Place, Step
    from cloudgan.registries.transport import Transport

_RUNNING = frozenset({"Queued", "Started", "Running"})
_MADE_SECONDS = 600.0
_MOST_OK = 299


class AzureImageBuilder:
    """Fulfils `launching.image_building.ImageBuilder`.

    Args:
        api: Of the Resource Manager.
        account: The subscription.
        transport: To and from the addresses that the registry gives out.
        pause_seconds: Between two looks whether the registry is there.
    """

    def __init__(
        self,
        api: ArmApi,
        account: str,
        *,
        transport: Transport | None = None,
        pause_seconds: float = 3.0,
    ) -> None:
        self._api, self.account = api, account
        self._transport, self._pause_seconds = transport or WebTransport(), pause_seconds

    @classmethod
    def open(cls, place: Place) -> AzureImageBuilder:
        """Opens a subscription with the login that azure-identity finds.

        Raises:
            ConfigError: There are several subscriptions.
            CredentialsError: There is no login.
        """
        here = settings.variable("CLOUDGAN_AZURE_ENDPOINT") or PUBLIC
        api = ArmApi(DefaultAzureCredential(), base_url=here)
        return cls(api, str(find_subscription(api, place.account)["subscriptionId"]))

    def make(self, order: ImageOrder) -> Iterator[str]:
        """Ensures the resource group and the registry."""
        for step in registry_steps(order):
            if self._api.get(step.find or "") is None:
                self._api.send(step.method, step.path, step.body)
                self._wait(step)
                yield step.ensure

    def begin(self, order: ImageOrder, archive: bytes) -> str:
        """Uploads the context where the registry says, and starts the build."""
        told = self._api.send("POST", upload_step(order).path)
        headers = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/gzip"}
        try:
            answer = self._transport.send("PUT", told["uploadUrl"], headers, archive)
        except OSError as error:
            raise LaunchError(f"the context of the build cannot be uploaded ({error})") from error
        if answer.status > _MOST_OK:
            raise LaunchError(f"the context of the build cannot be uploaded (HTTP {answer.status})")
        step = build_step(order, told["relativePath"])
        run = self._api.send(step.method, step.path, step.body)
        found: str = run["properties"]["runId"]
        return found

    def look(self, order: ImageOrder, build: str) -> Build:
        """Returns how a build is doing."""
        told = self._api.send("GET", tasks_path(order, f"runs/{build}"))["properties"]
        status, log = told.get("status", "Queued"), self._log(order, build)
        if status in _RUNNING:
            return Build("running", log)
        if status != "Succeeded":
            why = told.get("runErrorMessage")
            return Build("failed", log, f"{status}: {why}" if why else status)
        images = told.get("outputImages") or [{}]
        return Build("done", log, digest=images[0].get("digest"))

    def _wait(self, step: Step) -> None:
        for _ in range(max(1, int(_MADE_SECONDS / max(self._pause_seconds, 1.0)))):
            found = self._api.get(step.find or "") or {}
            state = (found.get("properties") or {}).get("provisioningState", "Creating")
            if state == "Succeeded":
                return
            if state in ("Failed", "Canceled"):
                why = self._api.why_failed(step.path)
                raise LaunchError(f"{step.ensure} failed: {why or 'Azure does not say why'}")
            time.sleep(self._pause_seconds)
        raise LaunchError(f"{step.ensure} was asked for and is not ready; try again")

    def _log(self, order: ImageOrder, build: str) -> str:
        """The log as far as it is; none where it cannot be read just now."""
        link = self._api.send("POST", tasks_path(order, f"runs/{build}/listLogSasUrl"))
        try:
            answer = self._transport.send("GET", link["logLink"], {})
        except (OSError, KeyError):
            return ""
        return answer.body.decode(errors="replace") if answer.status <= _MOST_OK else ""
