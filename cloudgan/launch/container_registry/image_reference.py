"""Image references: parsing, and resolution of a tag to the digest that pods use.

Grammar: https://github.com/distribution/reference (read 2026-11-21). The first part is a host only if
it has a dot or a port, or is localhost; otherwise the image is on Docker Hub.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError, UnknownNameError
from cloudgan.launch.container_registry.client import MissingError, RegistryError
from cloudgan.launch.container_registry.login import DOCKER_HUB

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.launch.container_registry.client import Registry

_DOCKER_HUB_NAMES = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
_OFFICIAL = "library/"
_NAME = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_EXAMPLE = "such as europe-docker.pkg.dev/lab/cloudgan/trainer:1.0"
_NOT_AN_IMAGE = frozenset({"", "unknown"})
"""Platform values of the attestations in an image index."""
NODE_PLATFORM = "linux/amd64"
"""Platform of the nodes of every cloud."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A parsed image reference.

    Attributes:
        host: Host of the registry; default docker.io.
        repository: Such as library/python.
        tag: ``latest`` if the reference has neither tag nor digest.
        digest: ``sha256:...``; None: the tag decides.
        name: Registry and repository as given.
    """

    host: str
    repository: str
    tag: str | None
    digest: str | None
    name: str

    def with_digest(self, digest: str) -> str:
        """Returns the reference with a digest, which takes precedence over the tag."""
        return f"{self.name}:{self.tag}@{digest}" if self.tag else f"{self.name}@{digest}"


def parse(text: str) -> ImageReference:
    """Parses an image reference.

    Raises:
        ConfigError: It is invalid.
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ConfigError(f"image {text}: expected sha256: and 64 hexadecimal digits after @")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # the colon of a port
        name, tag = rest, ""
    if (colon and name != rest and not _TAG.fullmatch(tag)) or "//" in text:
        raise ConfigError(
            f"image {text}: {tag!r} is not a valid tag; write HOST/NAME:TAG, {_EXAMPLE}"
        )
    host, slash, path = name.partition("/")
    if not (slash and ("." in host or ":" in host or host == "localhost")):
        host, path = DOCKER_HUB, name
    if host in _DOCKER_HUB_NAMES:
        host, path = DOCKER_HUB, path if "/" in path else _OFFICIAL + path
    if not _NAME.fullmatch(path):
        raise ConfigError(
            f"image {text}: {path!r} is not a valid image name (lower case letters, digits, dots, hyphens"
            f" and slashes); write HOST/NAME:TAG, {_EXAMPLE}"
        )
    return ImageReference(host, path, tag or (None if digest else "latest"), digest or None, name)


class ResolvedImage(NamedTuple):
    """An image with the digest of its tag.

    Attributes:
        image: Reference with the digest.
        platforms: Such as linux/amd64; empty: unknown.
    """

    image: str
    platforms: tuple[str, ...]


def is_pinned(image: str) -> bool:
    """Returns whether an image reference has a digest.

    Raises:
        ConfigError: It is invalid.
    """
    return parse(image).digest is not None


def resolve(image: str, open_registry: Callable[[str], Registry]) -> ResolvedImage:
    """Resolves an image's tag at its registry; returns a reference with a digest unchanged.

    Args:
        image: An image reference.
        open_registry: Opens the registry of a host with its login.

    Raises:
        ConfigError: The reference is invalid or does not exist; suggests the nearest tags.
        CredentialsError: The registry requires a login or refuses it.
        RegistryError: The registry does not respond, or its digests disagree.
    """
    reference = parse(image)
    if reference.digest or not reference.tag:
        return ResolvedImage(image, ())
    registry = open_registry(reference.host)
    try:
        digest = registry.digest(reference.repository, reference.tag)
    except MissingError as error:
        raise _unknown(reference, image, registry) from error
    try:
        manifest = registry.manifest(reference.repository, digest or reference.tag)
    except MissingError as error:
        raise RegistryError(
            f"registry {reference.host} lists {image} but does not have it"
        ) from error
    found = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if digest not in (None, found):
        raise RegistryError(
            f"registry {reference.host}: the digest of {image} is {digest}, but the content has {found}"
        )
    return ResolvedImage(reference.with_digest(found), _platforms(reference, manifest, registry))


def _unknown(reference: ImageReference, image: str, registry: Registry) -> ConfigError:
    try:
        tags = registry.tags(reference.repository)
    except CloudganError:
        return ConfigError(
            f"--image={image}: registry {reference.host} has no {reference.repository}:{reference.tag}, and lists"
            " no tags of it; check the name"
        )
    return UnknownNameError(f"tag of {reference.name}", reference.tag or "", tags)


def _platforms(reference: ImageReference, manifest: bytes, registry: Registry) -> tuple[str, ...]:
    """Returns the platforms of a manifest; empty if unknown."""
    try:
        found = parse_json(manifest, reference.name)
        if "manifests" in found:
            named = [one.get("platform") or {} for one in found["manifests"]]
        else:
            digest = found["config"]["digest"]
            named = [parse_json(registry.blob(reference.repository, digest), digest)]
    except (CloudganError, ValueError, LookupError, TypeError, AttributeError):
        return ()
    return tuple(sorted({_platform_name(one) for one in named} - {""}))


def _platform_name(found: dict[str, Any]) -> str:
    """Returns a platform such as linux/amd64; empty if it is that of no image."""
    system, machine = found.get("os", ""), found.get("architecture", "")
    return "" if {system, machine} & _NOT_AN_IMAGE else f"{system}/{machine}"
