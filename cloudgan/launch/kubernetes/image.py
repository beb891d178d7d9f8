"""References of container images: their syntax, and the digest that identifies one.

Grammar: https://github.com/distribution/reference (read 2026-11-21). The first part is a host only if
it has a dot or a port, or is localhost; otherwise the image is on Docker Hub.
"""

from __future__ import annotations

import re
from typing import Final

from cloudgan.core.errors import ConfigError

NODE_PLATFORM: Final = "linux/amd64"
"""Platform of the nodes of every cloud."""
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?P<tag>:\w[\w.-]{{0,127}})?"
    r"(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_PULLED = re.compile(r"[^@]+(@sha256:[0-9a-f]{64})", re.ASCII)


def parse_image(shown: str, text: str) -> str:
    """Returns a valid reference."""
    if _REFERENCE.fullmatch(text):
        return text
    raise ConfigError(
        f"{shown}={text}: not the name of an image; write HOST/NAME:TAG, such as"
        " europe-docker.pkg.dev/lab/cloudgan/trainer:1.0 (name in lower case), or"
        " NAME@sha256: and 64 hexadecimal digits"
    )


def tagged(image: str) -> str:
    """Returns a reference without its digest."""
    return image.partition("@")[0]


def pinned(image: str, image_id: str) -> str | None:
    """Returns an image with the digest by which a node pulled it; None: unknown.

    Args:
        image: Reference in the pod.
        image_id: imageID of the pod's status, such as docker.io/lab/gan@sha256:...; a node that was
            given the image, and did not pull it, reports only the hash of its configuration.
    """
    pulled = _PULLED.fullmatch(image_id)
    return f"{tagged(image)}{pulled[1]}" if pulled else None
