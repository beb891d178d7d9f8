"""What building an image asks of Azure: a registry and one run of ACR Tasks, as values.

https://learn.microsoft.com/rest/api/containerregistry/ (read 2026-11-21); versions and fields are
those of azure-mgmt-containerregistry 15.0.0 and azure-mgmt-containerregistrytasks 1.0.0b1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.plan import Step
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.aks import put

if TYPE_CHECKING:
    from cloudgan.core.image_order import ImageOrder

ARCHIVE: Final = "tar.gz"
TASKS_VERSION: Final = "2025-03-01-preview"
SOURCE: Final = "<source>"
"""Where the context lies, which the registry itself says when it is asked where to upload it."""
_REPOSITORY = "cloudgan"
_SECONDS: Final = 3600
_CORES: Final = 2


def image_name(order: ImageOrder) -> str:
    """Returns what is built, as `--image` takes it."""
    return f"{ids.registry_name(order.place)}.azurecr.io/{_REPOSITORY}:{order.tag}"


def tasks_path(order: ImageOrder, what: str) -> str:
    """Returns the address of something that ACR Tasks does."""
    return f"{ids.registry_id(order.place)}/{what}?api-version={TASKS_VERSION}"


def registry_steps(order: ImageOrder) -> tuple[Step, ...]:
    """Returns what makes the resource group and the private registry."""
    place = order.place
    group = {"location": place.region, "tags": {SHARED: "group"}}
    registry = {
        "location": place.region,
        "sku": {"name": "Basic"},
        "tags": {SHARED: "registry"},
        "properties": {"adminUserEnabled": False},
    }
    return (
        put(f"resource group {ids.group_name(place.region or '')}", ids.group_id(place), group),
        put(f"registry {ids.registry_name(place)}", ids.registry_id(place), registry),
    )


def upload_step(order: ImageOrder) -> Step:
    """Returns the question where the context is to be put."""
    return Step(
        ensure="a place for the context of the build",
        method="POST",
        path=tasks_path(order, "listBuildSourceUploadUrl"),
        at="cloud",
    )


def build_step(order: ImageOrder, source: str = SOURCE) -> Step:
    """Returns what starts the build.

    Args:
        order: What.
        source: Path of the context, as the registry told it.
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


def steps(order: ImageOrder) -> tuple[Step, ...]:
    """Returns everything that is sent, in its order."""
    return (*registry_steps(order), upload_step(order), build_step(order))
