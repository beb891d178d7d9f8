"""Builds a container image with cloudgan in a cloud's build service."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan import __version__
from cloudgan.api.pod_software import open_registry
from cloudgan.core import clouds
from cloudgan.core.errors import CloudganError, ConfigError, shorten
from cloudgan.launch.clouds.image_builders import ImageBuilder, image_planner, open_image_builder
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.launch.container_registry.image_reference import TAG, resolve
from cloudgan.launch.ops.image_build import build_image
from cloudgan.launch.ops.metadata_server import disable_unless_reachable
from cloudgan.schema.image_order import ImageBuildRequest

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.launch.ops.image_build import ImageContext
    from cloudgan.schema.image_order import ImageKind


def image_request(
    files: ImageContext,
    kind: ImageKind,
    *,
    provider: str | None,
    region: str | None,
    tag: str | None = None,
    account: str | None = None,
    profile: str | None = None,
) -> ImageBuildRequest:
    """Returns the request of an image build; needs no login.

    Args:
        files: The build context.
        kind: Kind of accelerator.
        provider: Cloud whose build service and registry are used.
        region: Region of the registry.
        tag: Tag of the image. None: version, kind and a hash of the content.
        account: Google Cloud project or Azure subscription. None: of the login.
        profile: AWS profile.

    Raises:
        ConfigError: Provider or region is missing, or a name is not valid.
    """
    if provider is None:
        raise ConfigError(
            f"--provider is missing; give --provider={clouds.choices()}, or --output=FILE for"
            " another builder"
        )
    if region is None:
        raise ConfigError(
            "--region is missing; give that of your nodes, such as --region=us-central1: pulling"
            " from another region costs time and money"
        )
    if tag is not None and not TAG.fullmatch(tag):
        raise ConfigError(
            f"--tag={shorten(tag)}: a tag has at most 128 letters, digits, dots, hyphens and"
            " underscores, and begins with a letter, a digit or an underscore; or omit --tag"
        )
    planner = cloud_planner(provider)
    target = planner.target(account, region, None, None).model_copy(update={"profile": profile})
    tag = tag or f"{__version__}-{kind}-{files.sha256[:8]}"
    return ImageBuildRequest(target, planner.store_url(target), kind, tag, files.sha256)


class ImageBuild(NamedTuple):
    """An image build with an open build service.

    Attributes:
        request: The request, with the account of the login.
        files: The build context.
        builder: The build service.
    """

    request: ImageBuildRequest
    files: ImageContext
    builder: ImageBuilder

    @property
    def name(self) -> str:
        """Reference of the image, without digest."""
        return image_planner(self.request.target.provider).image_name(self.request)

    def run(self, progress: Progress) -> str:
        """Builds the image and returns its digest.

        Raises:
            LaunchError: The build failed.
        """
        is_zip = image_planner(self.request.target.provider).ARCHIVE == "zip"
        archive = self.files.zip() if is_zip else self.files.tar_gz()
        return build_image(self.builder, self.request, archive, progress.say, progress.say)


def open_build(request: ImageBuildRequest, files: ImageContext) -> ImageBuild:
    """Opens the build service with the login of this machine.

    Raises:
        ConfigError: The SDK is not installed.
        CredentialsError: No login was found.
    """
    disable_unless_reachable()
    builder = open_image_builder(request.target)
    target = request.target.model_copy(update={"account": builder.account})
    store = cloud_planner(target.provider).store_url(target)
    return ImageBuild(request._replace(target=target, store=store), files, builder)


def find_image(name: str) -> str | None:
    """Returns the digest of an image in its registry; None: missing, or the registry is unavailable."""
    try:
        return resolve(name, open_registry).image.rpartition("@")[2]
    except CloudganError:
        return None
