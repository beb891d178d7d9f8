"""Copies one image from a registry into another, blob by blob, for the platform of the nodes.

Pushing: https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md, "Push" (read 2026-11-22).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError
from cloudgan.launch.container_registry.client import MissingError, RegistryError
from cloudgan.launch.container_registry.image_reference import NODE_PLATFORM, parse, platform_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.launch.container_registry.client import Registry
    from cloudgan.launch.container_registry.image_reference import ImageReference

_DEFAULT_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
_MOST_BLOB_BYTES: Final = 2 << 30


class PlatformImage(NamedTuple):
    """The image of one platform.

    Attributes:
        source: Reference of the image.
        digest: Digest of its manifest.
        manifest: Content of the manifest.
    """

    source: ImageReference
    digest: str
    manifest: bytes

    def blobs(self) -> Iterator[tuple[str, int]]:
        """Yields digest and size in bytes of the configuration and of each layer.

        Raises:
            RegistryError: The manifest is not one of an image.
        """
        try:
            found = parse_json(self.manifest, self.source.name)
            for blob in (found["config"], *found["layers"]):
                yield str(blob["digest"]), int(blob["size"])
        except (LookupError, TypeError, ValueError) as error:
            raise RegistryError(f"{self.source.name}@{self.digest} is no image") from error

    def media_type(self) -> str:
        """Returns the type of the manifest."""
        return str(parse_json(self.manifest, self.source.name).get("mediaType") or _DEFAULT_TYPE)


def platform_image(image: str, open_registry: Callable[[str], Registry]) -> PlatformImage:
    """Returns the linux/amd64 image of a reference.

    Args:
        image: Reference, with a tag or a digest.
        open_registry: Opens the registry of a host with its login.

    Raises:
        ConfigError: The image does not exist, or not for linux/amd64.
        RegistryError: The registry does not respond, or a digest is not that of its content.
    """
    source = parse(image)
    registry, wanted = open_registry(source.host), source.digest or source.tag or "latest"
    try:
        content = registry.manifest(source.repository, wanted)
        found: dict[str, Any] = parse_json(content, image)
        if "manifests" in found:
            wanted = _of_platform(image, found["manifests"])
            content = registry.manifest(source.repository, wanted)
    except MissingError as error:
        raise ConfigError(f"{error}; the image {image} cannot be copied") from error
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if wanted.startswith("sha256:") and wanted != digest:
        raise RegistryError(f"registry {source.host} sends {digest} as {wanted}")
    return PlatformImage(source, digest, content)


def _of_platform(image: str, manifests: list[dict[str, Any]]) -> str:
    for one in manifests:
        if platform_name(one.get("platform") or {}) == NODE_PLATFORM:
            return str(one["digest"])
    raise ConfigError(f"{image} does not exist for {NODE_PLATFORM}, the platform of the nodes")


def copy_image(
    found: PlatformImage,
    target: ImageReference,
    open_registry: Callable[[str], Registry],
    copied: Callable[[int], None] = lambda _: None,
) -> bool:
    """Copies an image unless the target registry has it; returns whether it copied.

    The manifest is written last, so an interrupted copy is no image, and is continued by the next.

    Args:
        found: The image.
        target: Reference in the registry of the cloud, with a tag.
        open_registry: Opens the registry of a host with its login.
        copied: Receives the number of bytes of each blob that was copied.

    Raises:
        CredentialsError: The login may not write to the registry.
        RegistryError: A registry does not respond, or a blob is damaged.
    """
    source, own = open_registry(found.source.host), open_registry(target.host)
    repository = target.repository
    if own.has_manifest(repository, found.digest):
        return False
    for digest, size in found.blobs():
        if size > _MOST_BLOB_BYTES:
            raise RegistryError(f"layer {digest} of {found.source.name} has {size} bytes")
        if own.has_blob(repository, digest):
            continue
        content = source.blob(found.source.repository, digest, most_bytes=size + 1)
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise RegistryError(
                f"registry {found.source.host} sends a damaged layer {digest}; rerun the command"
            )
        own.put_blob(repository, digest, content)
        copied(size)
    own.put_manifest(repository, target.tag or found.digest, found.manifest, found.media_type())
    return True
