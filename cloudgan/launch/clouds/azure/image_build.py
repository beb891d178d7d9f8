"""Image builds with ACR Tasks: requests as values, and the builder that sends them.

https://learn.microsoft.com/rest/api/containerregistry/ (read 2026-11-21); versions and fields of
azure-mgmt-containerregistry 15.0.0 and azure-mgmt-containerregistrytasks 1.0.0b1.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure.api import ArmApi, find_subscription
from cloudgan.launch.clouds.azure.requests import put
from cloudgan.launch.container_registry.transport import WebTransport
from cloudgan.schema.image_order import Build
from cloudgan.schema.plan import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.container_registry.transport import Transport
    from cloudgan.schema.image_order import ImageBuildRequest
    from cloudgan.schema.plan import Target


ARCHIVE: Final = "tar.gz"
TASKS_VERSION: Final = "2025-03-01-preview"
SOURCE: Final = "<source>"
"""Path of the context, returned by the registry with the upload URL."""
_REPOSITORY = "cloudgan"
_SECONDS: Final = 3600
_CORES: Final = 2


def image_name(order: ImageBuildRequest) -> str:
    """Returns the image name for `--image`."""
    return f"{ids.registry_name(order.target)}.azurecr.io/{_REPOSITORY}:{order.tag}"


def tasks_path(order: ImageBuildRequest, what: str) -> str:
    """Returns the path of an ACR Tasks resource."""
    return f"{ids.registry_id(order.target)}/{what}?api-version={TASKS_VERSION}"


def registry_steps(order: ImageBuildRequest) -> tuple[Step, ...]:
    """Returns the steps of resource group and private registry."""
    target = order.target
    group = {"location": target.region, "tags": {SHARED: "group"}}
    registry = {
        "location": target.region,
        "sku": {"name": "Basic"},
        "tags": {SHARED: "registry"},
        "properties": {"adminUserEnabled": False},
    }
    return (
        put(f"resource group {ids.group_name(target.region or '')}", ids.group_id(target), group),
        put(f"registry {ids.registry_name(target)}", ids.registry_id(target), registry),
    )


def upload_step(order: ImageBuildRequest) -> Step:
    """Returns the step that requests an upload URL."""
    return Step(
        ensure="upload URL for the build context",
        method="POST",
        path=tasks_path(order, "listBuildSourceUploadUrl"),
        at="cloud",
    )


def build_step(order: ImageBuildRequest, source: str = SOURCE) -> Step:
    """Returns the step that starts the build.

    Args:
        order: Build request.
        source: Path of the context, returned by the registry.
    """
    return Step(
        ensure=f"image {image_name(order)}",
        method="POST",
        path=tasks_path(order, "scheduleRun"),
        at="cloud",
        body={
            "type": "DockerBuildRequest",
            "sourceLocation": source,
            "dockerFilePath": "deploy/Dockerfile",
            "imageNames": [f"{_REPOSITORY}:{order.tag}"],
            "isPushEnabled": True,
            "arguments": [{"name": "KIND", "value": order.kind, "isSecret": False}],
            "platform": {"os": "Linux", "architecture": "amd64"},
            "agentConfiguration": {"cpu": _CORES},
            "timeout": _SECONDS,
        },
    )


def steps(order: ImageBuildRequest) -> tuple[Step, ...]:
    """Returns all steps in order."""
    return (*registry_steps(order), upload_step(order), build_step(order))


_RUNNING = frozenset({"Queued", "Started", "Running"})
_MADE_SECONDS = 600.0
_MOST_OK = 299


class AzureImageBuilder:
    """Implements `ImageBuilder`.

    Args:
        api: Of the Resource Manager.
        account: The subscription.
        transport: For the URLs returned by the registry.
        pause_seconds: Poll interval for the registry.
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
    def open(cls, target: Target) -> AzureImageBuilder:
        """Opens a subscription with the login found by azure-identity.

        Raises:
            ConfigError: Several subscriptions.
            CredentialsError: No login.
        """
        api = ArmApi.open()
        return cls(api, str(find_subscription(api, target.account)["subscriptionId"]))

    def prepare(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the resource group and the registry; ACR Tasks needs no more."""
        yield from self.prepare_registry(order)

    def prepare_registry(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the resource group and the registry."""
        for step in registry_steps(order):
            if self._api.get(step.find or "") is None:
                self._api.send(step.method, step.path, step.body)
                self._wait(step)
                yield step.ensure

    def start(self, order: ImageBuildRequest, archive: bytes) -> str:
        """Uploads the context and starts the build."""
        response = self._api.send("POST", upload_step(order).path)
        headers = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/gzip"}
        try:
            answer = self._transport.send("PUT", response["uploadUrl"], headers, archive)
        except OSError as error:
            raise LaunchError(f"the build context cannot be uploaded ({error})") from error
        if answer.status > _MOST_OK:
            raise LaunchError(f"the build context cannot be uploaded (HTTP {answer.status})")
        step = build_step(order, response["relativePath"])
        run = self._api.send(step.method, step.path, step.body)
        found: str = run["properties"]["runId"]
        return found

    def poll(self, order: ImageBuildRequest, build: str) -> Build:
        """Returns the state of a build."""
        response = self._api.send("GET", tasks_path(order, f"runs/{build}"))["properties"]
        status, log = response.get("status", "Queued"), self._log(order, build)
        if status in _RUNNING:
            return Build("running", log)
        if status != "Succeeded":
            why = response.get("runErrorMessage")
            return Build("failed", log, f"{status}: {why}" if why else status)
        images = response.get("outputImages") or [{}]
        return Build("done", log, digest=images[0].get("digest"))

    def _wait(self, step: Step) -> None:
        for _ in range(max(1, int(_MADE_SECONDS / max(self._pause_seconds, 1.0)))):
            found = self._api.get(step.find or "") or {}
            state = (found.get("properties") or {}).get("provisioningState", "Creating")
            if state == "Succeeded":
                return
            if state in ("Failed", "Canceled"):
                why = self._api.why_failed(step.path)
                raise LaunchError(f"{step.ensure} failed: {why or 'no reason reported'}")
            time.sleep(self._pause_seconds)
        raise LaunchError(f"{step.ensure} was requested and is not ready; try again")

    def _log(self, order: ImageBuildRequest, build: str) -> str:
        """The current log; empty if it cannot be read."""
        link = self._api.send("POST", tasks_path(order, f"runs/{build}/listLogSasUrl"))
        try:
            answer = self._transport.send("GET", link["logLink"], {})
        except (OSError, KeyError):
            return ""
        return answer.body.decode(errors="replace") if answer.status <= _MOST_OK else ""
