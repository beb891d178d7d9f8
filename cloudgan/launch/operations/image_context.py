"""Build context of the pods' container image: a folder that any image builder takes."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field

from cloudgan import __version__
from cloudgan.core import assets
from cloudgan.core.atomic_file import atomic_folder
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.lock import locked
from cloudgan.launch.kubernetes.image import NODE_PLATFORM
from cloudgan.launch.lifecycle.wheels import own_wheel
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.runs import ImageOptions

ImageKind = Literal["cpu", "gpu", "tpu"]
_EXTRAS: Final[Mapping[ImageKind, str]] = {"cpu": "train", "gpu": "gpu", "tpu": "tpu"}
_SUMS: Final = "SHA256SUMS"
_ECR = "ACCOUNT.dkr.ecr.REGION.amazonaws.com"


class Build(BaseModel):
    """How a builder makes the image."""

    build: str = Field(description="its command line")
    use: str = Field(description="flag of `deploy` for the result")


class ImageContext(Result):
    """A build context, and the command of each builder."""

    folder: str
    builders: dict[str, Build] = Field(description="by name")

    def view(self) -> View:
        """Returns one command for each builder."""
        return View(
            f"{self.folder}: the build context; build it with one of",
            commands=tuple((one.build, f"then {one.use}") for one in self.builders.values()),
            done=True,
        )


@command
def image(options: ImageOptions) -> ImageContext:
    """Writes the build context of a container image.

    Raises:
        ConfigError: The folder holds something else or cannot be written.
    """
    path = local_path(options.folder or f"image-{options.kind}", source="FOLDER")
    write_context(path, options.kind)
    name = f"cloudgan:{__version__}-{options.kind}"
    return ImageContext(folder=str(path), builders=_builders(shlex.quote(str(path)), name))


# Sources, read 2026-11-25: https://docs.docker.com/reference/cli/docker/buildx/build/,
# https://docs.podman.io/en/latest/markdown/podman-build.1.html,
# https://cloud.google.com/sdk/gcloud/reference/builds/submit,
# https://learn.microsoft.com/cli/azure/acr#az-acr-build and
# https://docs.aws.amazon.com/AmazonECR/latest/userguide/docker-push-ecr-image.html. CodeBuild has no
# command that builds a local folder.
def _builders(folder: str, name: str) -> dict[str, Build]:
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
        builder: Build(build=line, use=f"--image={image_name}")
        for builder, (line, image_name) in commands.items()
    }


def write_context(folder: Path, kind: ImageKind) -> None:
    """Writes deploy/Dockerfile, the requirement file of an image kind and the cloudgan wheel.

    A folder is replaced if it holds exactly what an earlier call wrote.

    Nothing in the Dockerfile depends on the kind: `gcloud builds submit --tag` takes no build arguments
    (https://cloud.google.com/sdk/gcloud/reference/builds/submit, read 2026-11-25).
    """
    folder = Path(os.path.realpath(folder))  # resolve() raises RuntimeError for a loop of links
    if folder.exists() and not _may_be_replaced(folder):
        raise ConfigError(
            f"{folder} exists and is not an unchanged build context of `cloudgan image`; give another"
            " folder, or remove it"
        )
    with atomic_folder(folder, error_class=ConfigError) as beside:
        (beside / "requirements.txt").write_text(
            locked(_EXTRAS[kind], "pod", "search"), encoding="utf-8"
        )
        (beside / "Dockerfile").write_bytes(assets.read_bytes("deploy/Dockerfile"))
        own_wheel(beside / "dist")
        (beside / _SUMS).write_text(_sums(beside), encoding="utf-8")


def _may_be_replaced(folder: Path) -> bool:
    try:
        if not any(folder.iterdir()):
            return True
        return (folder / _SUMS).read_text(encoding="utf-8") == _sums(folder)
    except (OSError, UnicodeDecodeError):  # a file, or a folder with what cannot be read
        return False


def _sums(folder: Path) -> str:
    """Returns the hashes of a folder's files, as sha256sum prints them."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir() and path.name != _SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
