"""Managed image builders by cloud: `ImagePlanner` (pure, no SDK) and the builder client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from cloudgan.core import clouds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.schema.image_order import Build, ImageBuildRequest
    from cloudgan.schema.plan import Step, Target


CHECK_CONTEXT: Final = (
    "found=$(find . ! -type d | LC_ALL=C sort | while IFS= read -r file; do"
    ' echo "${file#./} $(sha256sum < "$file" | cut -c 1-64)"; done | sha256sum | cut -c 1-64);'
    ' if [ "$found" != "$CONTEXT_SHA256" ]; then'
    ' echo "the build context has SHA-256 $found, not $CONTEXT_SHA256: another writer of the bucket'
    ' replaced it; run cloudgan image again"; exit 1; fi'
)
"""Shell command of a builder, before the build: compares all files with `ImageContext.sha256`.

A bucket may have other writers; the request of the build has none.
"""


class ImagePlanner(Protocol):
    """The pure functions of ``clouds/NAME/image_requests.py``."""

    ARCHIVE: Literal["tar.gz", "zip"]

    def image_name(self, order: ImageBuildRequest) -> str:
        """Returns the image reference for `--image`, without digest."""

    def steps(self, order: ImageBuildRequest) -> tuple[Step, ...]:
        """Returns all requests of a build in order."""


class ImageBuilder(Protocol):
    """The image builder of one cloud account.

    All methods raise `CredentialsError` for a missing login or permission, and `LaunchError` when
    the cloud refuses or does not respond.
    """

    account: str

    def prepare_registry(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the registry; yields what it created."""

    def prepare(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the registry and its prerequisites; yields what it created."""

    def start(self, order: ImageBuildRequest, archive: bytes) -> str:
        """Uploads the context and starts a build; returns the cloud's name of the build."""

    def poll(self, order: ImageBuildRequest, build: str) -> Build:
        """Returns the state of a build."""


def image_planner(cloud: str) -> ImagePlanner:
    """Returns the image planner of a cloud."""
    return cast("ImagePlanner", clouds.load(cloud, clouds.find(cloud).image_planner))


def open_image_builder(target: Target) -> ImageBuilder:
    """Opens the image builder of a target's cloud with the login that its SDK finds.

    Raises:
        ConfigError: The SDK is not installed.
        CredentialsError: No login was found.
    """
    client = clouds.load(target.provider, clouds.find(target.provider).image_builder)
    opened: ImageBuilder = client.open(target)
    return opened
