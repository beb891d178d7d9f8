"""What building an image asks of Google Cloud: Artifact Registry and Cloud Build, as values.

https://cloud.google.com/build/docs/api/reference/rest/v1/projects.builds and
https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories;
the tests hold the bodies against both APIs' discovery documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.plan import Step
from cloudgan.providers.gcp.addresses import BUILDS, REGISTRY

if TYPE_CHECKING:
    from cloudgan.core.image_order import ImageOrder

ARCHIVE: Final = "tar.gz"
REPOSITORY: Final = "cloudgan"
LOGS: Final = "images/logs"
_SECONDS: Final = 3600
_BUILDER: Final = "gcr.io/cloud-builders/docker"
_MACHINE: Final = "E2_HIGHCPU_8"


def image_name(order: ImageOrder) -> str:
    """Returns what is built, as `--image` takes it."""
    place = order.place
    host = f"{place.region}-docker.pkg.dev"
    return f"{host}/{place.account}/{REPOSITORY}/trainer:{order.tag}"


def repository_step(order: ImageOrder) -> Step:
    """Returns what makes the private registry."""
    parent = f"{REGISTRY}/projects/{order.place.account}/locations/{order.place.region}"
    return Step(
        ensure=f"registry {REPOSITORY}",
        method="POST",
        path=f"{parent}/repositories?repositoryId={REPOSITORY}",
        find=f"{parent}/repositories/{REPOSITORY}",
        at="cloud",
        body={
            "format": "DOCKER",
            "description": "images of cloudgan",
            "labels": {SHARED: "registry"},
        },
    )


def build_step(order: ImageOrder) -> Step:
    """Returns what starts the build, of the context in the store."""
    bucket = order.store.removeprefix("gs://").partition("/")[0]
    name = image_name(order)
    arguments = ["build", "--file=deploy/Dockerfile", f"--build-arg=KIND={order.kind}"]
    return Step(
        ensure=f"image {name}",
        method="POST",
        path=f"{BUILDS}/projects/{order.place.account}/locations/global/builds",
        at="cloud",
        body={
            "source": {"storageSource": {"bucket": bucket, "object": order.object_name("tar.gz")}},
            "steps": [{"name": _BUILDER, "args": [*arguments, f"--tag={name}", "."]}],
            "images": [name],
            "timeout": f"{_SECONDS}s",
            "logsBucket": f"gs://{bucket}/{LOGS}",
            "options": {"logging": "GCS_ONLY", "machineType": _MACHINE},
            "tags": ["cloudgan"],
        },
    )


def steps(order: ImageOrder) -> tuple[Step, ...]:
    """Returns everything that is sent, in its order."""
    context = Step(
        ensure="the context of the build",
        method="PUT",
        path=f"{order.store}/{order.object_name('tar.gz')}",
        at="store",
    )
    return (repository_step(order), context, build_step(order))
