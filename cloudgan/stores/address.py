"""Which bucket a URL names, and under which prefix in it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from cloudgan.core.errors import ConfigError


class Address(NamedTuple):
    """A place in a bucket.

    Attributes:
        host: What stands between ``//`` and the next ``/``.
        path: The parts after it, without empty ones.
    """

    host: str
    path: tuple[str, ...]

    @classmethod
    def of(cls, url: str, example: str) -> Address:
        """Takes a URL apart.

        Args:
            url: The URL.
            example: How it should look like, for the message.

        Raises:
            ConfigError: It has no host, or carries a login or a query, which would end up in logs.
        """
        parts = urlsplit(url)
        if not parts.hostname:
            raise ConfigError(f"store {url!r} names no bucket; write it like {example}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
            raise ConfigError(
                f"store {shown!r} came with a login, a ? or a #; leave them out: credentials are"
                f" read from the environment. Write it like {example}"
            )
        path = tuple(part for part in unquote(parts.path).split("/") if part)
        if ".." in path:
            raise ConfigError(f"store {url!r} has '..' in its path; write it like {example}")
        return cls(parts.netloc, path)


def key(prefix: tuple[str, ...], name: str) -> str:
    """Returns the full name in a bucket of what is `name` in a store under `prefix`."""
    return "/".join((*prefix, name))
