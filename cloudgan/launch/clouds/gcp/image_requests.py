"""Requests of an image build to Artifact Registry and Cloud Build. Pure, needs no SDK.

https://cloud.google.com/build/docs/api/reference/rest/v1/projects.builds and
https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories;
the tests check the bodies against both APIs' discovery documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.gcp.addresses import BUILDS, REGISTRY
from cloudgan.launch.clouds.image_builders import CHECK_CONTEXT
from cloudgan.schema.plan import Step

if TYPE_CHECKING:
    from cloudgan.schema.image_order import ImageBuildRequest

ARCHIVE: Final = "tar.gz"
REPOSITORY: Final = "cloudgan"
LOGS: Final = "images/logs"
_SECONDS: Final = 3600
_BUILDER: Final = "gcr.io/cloud-builders/docker"
_MACHINE: Final = "E2_HIGHCPU_8"


def image_name(order: ImageBuildRequest) -> str:
    """Returns the image reference for `--image`, without digest."""
    target = order.target
    host = f"{target.region}-docker.pkg.dev"
    return f"{host}/{target.account}/{REPOSITORY}/trainer:{order.tag}"


def repository_step(order: ImageBuildRequest) -> Step:
    """Returns the request that creates the private repository."""
    parent = f"{REGISTRY}/projects/{order.target.account}/locations/{order.target.region}"
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


def build_step(order: ImageBuildRequest) -> Step:
    """Returns the request that builds the context in the store."""
    bucket = order.store.removeprefix("gs://").partition("/")[0]
    name = image_name(order)
    check = CHECK_CONTEXT.replace("$", "$$")  # one $ is a substitution of Cloud Build
    arguments = ["build", "--file=deploy/Dockerfile", f"--build-arg=KIND={order.kind}"]
    return Step(
        ensure=f"image {name}",
        method="POST",
        path=f"{BUILDS}/projects/{order.target.account}/locations/global/builds",
        at="cloud",
        body={
            "source": {"storageSource": {"bucket": bucket, "object": order.object_name("tar.gz")}},
            "steps": [
                {
                    "name": _BUILDER,
                    "entrypoint": "bash",
                    "args": ["-c", check],
                    "env": [f"CONTEXT_SHA256={order.context_hash}"],
                },
                {"name": _BUILDER, "args": [*arguments, f"--tag={name}", "."]},
            ],
            "images": [name],
            "timeout": f"{_SECONDS}s",
            "logsBucket": f"gs://{bucket}/{LOGS}",
            "options": {"logging": "GCS_ONLY", "machineType": _MACHINE},
            "tags": ["cloudgan"],
        },
    )


def steps(order: ImageBuildRequest) -> tuple[Step, ...]:
    """Returns all requests in order."""
    context = Step(
        ensure="build context",
        method="PUT",
        path=f"{order.store}/{order.object_name('tar.gz')}",
        at="store",
    )
    return (repository_step(order), context, build_step(order))
