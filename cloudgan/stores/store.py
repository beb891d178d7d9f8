"""What every store can do, however it keeps its objects, and how it says that it could not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cloudgan.core.errors import CloudganError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class StoreError(CloudganError):
    """A store could not do what was asked; the message names it, the object and the reason."""


class BucketMissingError(ConfigError):
    """There is no bucket, or container, of this name, so nothing was ever put into it."""


class ObjectMissingError(StoreError):
    """There is no object of this name."""


class ObjectExistsError(StoreError):
    """An object was to be created and there is one of this name already."""


class Store(Protocol):
    """Objects under names such as ``checkpoints/step-000000100.npz``; names are relative to `url`.

    All methods raise `BucketMissingError` where the bucket does not exist, `CredentialsError` where the
    login is missing or may not do this, and `StoreError` for anything else that fails; they try
    again on passing failures, but not for longer than about a minute.
    """

    @property
    def url(self) -> str:
        """Where this store is, as `open_store` takes it."""

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Writes an object, whole or not at all: readers see the old one or the new one.

        Args:
            name: Under which name.
            content: A file's path, or the bytes themselves.
            if_absent: Create it, and let exactly one of several writers succeed.

        Raises:
            ObjectExistsError: `if_absent`, and it exists; it is as it was.
        """

    def get(self, name: str, path: Path) -> None:
        """Fetches an object into a file, which is replaced only when everything has arrived.

        Raises:
            ObjectMissingError: There is none of this name.
        """

    def read(self, name: str) -> bytes:
        """Returns a small object.

        Raises:
            ObjectMissingError: There is none of this name.
        """

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Returns all names that begin with `prefix`, sorted."""

    def size_bytes(self, prefix: str = "") -> int:
        """Returns how much all objects together have whose names begin with `prefix`."""

    def delete(self, name: str) -> None:
        """Removes an object; it is no error when there is none."""


def checked(name: str) -> str:
    """Returns `name` if every store can hold it.

    Raises:
        ValueError: It is empty, absolute, climbs with ``..``, or ends like an unfinished file.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or not name.isprintable() or "\\" in name:
        raise ValueError(f"{name!r} is no name of an object; take one such as folder/file.npz")
    if name.endswith(".tmp"):
        raise ValueError(f"{name!r} ends in .tmp, which is what unfinished files are called")
    return name
