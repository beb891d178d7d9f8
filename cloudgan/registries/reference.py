"""The name of an image, taken apart as Docker, containerd and Kubernetes do it.

The grammar is that of https://github.com/distribution/reference (read 2026-11-21): the first part is
a host only where it has a dot or a port, or is localhost; else the image is Docker Hub's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cloudgan.core.errors import ConfigError

DOCKER_HUB = "docker.io"
_DOCKER_HUB_NAMES = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
_OFFICIAL = "library/"
_NAME = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_EXAMPLE = "such as europe-docker.pkg.dev/lab/cloudgan/trainer:1.0"


@dataclass(frozen=True, slots=True)
class Reference:
    """An image that somebody named.

    Attributes:
        host: Of its registry; docker.io where none was named.
        repository: Its name there, such as library/python.
        tag: ``latest`` where neither tag nor digest was given.
        digest: ``sha256:...``; None: the tag decides.
        name: Registry and repository as they were written.
    """

    host: str
    repository: str
    tag: str | None
    digest: str | None
    name: str

    def with_digest(self, digest: str) -> str:
        """Returns the image as Kubernetes takes it: the digest decides, the tag is for people."""
        return f"{self.name}:{self.tag}@{digest}" if self.tag else f"{self.name}@{digest}"


def parse(text: str) -> Reference:
    """Takes an image's name apart.

    Raises:
        ConfigError: It is none.
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ConfigError(f"image {text}: behind @ stands sha256: and 64 hexadecimal digits")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # the colon of a port
        name, tag = rest, ""
    if (colon and name != rest and not _TAG.fullmatch(tag)) or "//" in text:
        raise ConfigError(f"image {text}: {tag!r} can be no tag; write HOST/NAME:TAG, {_EXAMPLE}")
    host, slash, path = name.partition("/")
    if not (slash and ("." in host or ":" in host or host == "localhost")):
        host, path = DOCKER_HUB, name
    if host in _DOCKER_HUB_NAMES:
        host, path = DOCKER_HUB, path if "/" in path else _OFFICIAL + path
    if not _NAME.fullmatch(path):
        raise ConfigError(
            f"image {text}: {path!r} can be no name of an image, which has lower case letters, digits,"
            f" dots, hyphens and slashes; write HOST/NAME:TAG, {_EXAMPLE}"
        )
    return Reference(host, path, tag or (None if digest else "latest"), digest or None, name)
