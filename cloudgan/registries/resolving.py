"""From the tag that somebody typed to the digest that pods get."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import CloudganError, ConfigError, UnknownNameError
from cloudgan.registries.failure import MissingError, RegistryError
from cloudgan.registries.reference import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.registries.client import Registry
    from cloudgan.registries.reference import Reference

_NOT_AN_IMAGE = frozenset({"", "unknown"})
"""What attestations beside the images of an index call their system."""


class Resolved(NamedTuple):
    """What a tag meant when it was asked for.

    Attributes:
        image: With its digest, as pods take it.
        platforms: Such as linux/amd64; none: nobody knows.
    """

    image: str
    platforms: tuple[str, ...]


def is_pinned(image: str) -> bool:
    """Whether an image is named by its digest.

    Raises:
        ConfigError: It is no image's name.
    """
    return parse(image).digest is not None


def resolve(image: str, open_registry: Callable[[str], Registry]) -> Resolved:
    """Asks an image's registry what its tag means now. One that has a digest is left alone.

    Args:
        image: As it was typed.
        open_registry: Opens the registry of a host, with the login that is known for it.

    Raises:
        ConfigError: It is no image's name, or there is none of this name; a wrong tag is answered
            with the nearest ones.
        CredentialsError: The registry lets us not in.
        RegistryError: It stays away, or contradicts itself.
    """
    asked = parse(image)
    if asked.digest or not asked.tag:
        return Resolved(image, ())
    registry = open_registry(asked.host)
    try:
        digest = registry.digest(asked.repository, asked.tag)
    except MissingError as error:
        raise _unknown(asked, image, registry) from error
    try:
        manifest = registry.manifest(asked.repository, digest or asked.tag)
    except MissingError as error:
        raise RegistryError(f"registry {asked.host} names {image} and then has it not") from error
    found = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if digest not in (None, found):
        raise RegistryError(
            f"registry {asked.host} says that {image} is {digest}, and what it sends is {found}"
        )
    return Resolved(asked.with_digest(found), _platforms(asked, manifest, registry))


def _unknown(asked: Reference, image: str, registry: Registry) -> ConfigError:
    try:
        tags = registry.tags(asked.repository)
    except CloudganError:
        return ConfigError(
            f"--image={image}: registry {asked.host} has no {asked.repository}:{asked.tag}, and lists"
            " no tags of it; is the name right?"
        )
    return UnknownNameError(f"tag of {asked.name}", asked.tag or "", tags)


def _platforms(asked: Reference, manifest: bytes, registry: Registry) -> tuple[str, ...]:
    """For people, and to refuse what nodes cannot run; what is not told is unknown."""
    try:
        told = json.loads(manifest)
        if "manifests" in told:
            named = [one.get("platform") or {} for one in told["manifests"]]
        else:
            digest = told["config"]["digest"]
            named = [json.loads(registry.blob(asked.repository, digest))]
    except (CloudganError, ValueError, LookupError, TypeError, AttributeError):
        return ()
    return tuple(sorted({_platform(one) for one in named} - {""}))


def _platform(told: dict[str, Any]) -> str:
    system, machine = told.get("os", ""), told.get("architecture", "")
    return "" if {system, machine} & _NOT_AN_IMAGE else f"{system}/{machine}"
