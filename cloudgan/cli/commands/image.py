"""`cloudgan image`: writes the build context of a container image, and prints how to build it."""

from __future__ import annotations

import shlex

from cloudgan import __version__
from cloudgan.cli.views.output import print_result
from cloudgan.core.command import command
from cloudgan.core.local_path import local_path
from cloudgan.launch.container_registry.image_reference import NODE_PLATFORM
from cloudgan.launch.ops.image_context import write_context
from cloudgan.schema.options.runs import ImageOptions

_ECR = "ACCOUNT.dkr.ecr.REGION.amazonaws.com"


@command
def image(options: ImageOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    path = local_path(options.folder or f"image-{options.kind}", source="FOLDER")
    write_context(path, options.kind)
    name = f"cloudgan:{__version__}-{options.kind}"
    print_result({"folder": str(path)} | _commands(shlex.quote(str(path)), name), as_json=as_json)


# Sources, read 2026-11-25: https://docs.docker.com/reference/cli/docker/buildx/build/,
# https://docs.podman.io/en/latest/markdown/podman-build.1.html,
# https://cloud.google.com/sdk/gcloud/reference/builds/submit,
# https://learn.microsoft.com/cli/azure/acr#az-acr-build and
# https://docs.aws.amazon.com/AmazonECR/latest/userguide/docker-push-ecr-image.html. CodeBuild has no
# command that builds a local folder.
def _commands(folder: str, name: str) -> dict[str, dict[str, str]]:
    """Returns the build command and the image flag of each builder."""
    own = f"REGISTRY/{name}"
    gcp = f"REGION-docker.pkg.dev/PROJECT/cloudgan/{name}"
    aws, azure = f"{_ECR}/{name}", f"REGISTRY.azurecr.io/{name}"
    # A machine with an Arm processor would build for its own platform.
    build = f"build --platform={NODE_PLATFORM}"
    login = (
        "aws ecr get-login-password --region REGION"
        f" | docker login --username AWS --password-stdin {_ECR}"
    )
    commands = {
        "docker": (f"docker {build} --tag={own} {folder} && docker push {own}", own),
        "podman": (f"podman {build} --tag={own} {folder} && podman push {own}", own),
        "gcp": (f"gcloud builds submit --region=REGION --timeout=1h --tag={gcp} {folder}", gcp),
        "aws": (f"{login} && docker buildx {build} --push --tag={aws} {folder}", aws),
        "azure": (
            f"az acr build --registry=REGISTRY --platform={NODE_PLATFORM} --image={name} {folder}",
            azure,
        ),
    }
    return {
        builder: {"build": command, "use": f"--image={image_name}"}
        for builder, (command, image_name) in commands.items()
    }
