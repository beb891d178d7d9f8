"""Store in a folder of this machine or of a shared file system."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from cloudgan.core.atomic_file import TEMPORARY_SUFFIX, atomic_writer
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.storage.store import (
    ObjectExistsError,
    ObjectMissingError,
    StoreError,
    check_object_name,
    deletable_name,
    open_content,
)

_writer = partial(atomic_writer, error_class=StoreError)


class FolderStore:
    """Objects as files; `if_absent` needs hard links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def from_url(cls, url: str) -> FolderStore:
        """Opens a path or a ``file:///`` URL."""
        if not url.startswith("file:"):
            return cls(local_path(url))
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(
                f"{url!r} names no folder of this machine; write it like file:///folder"
            )
        return cls(Path(unquote(parts.path)))

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Writes a file; see `Store.put`."""
        path = self._path(name)
        try:
            with open_content(content) as source, _writer(path, if_absent=if_absent) as file:
                shutil.copyfileobj(source, file)
        except FileExistsError as error:
            raise ObjectExistsError(f"{path}: already exists") from error

    def get(self, name: str, path: Path) -> None:
        """Copies a file; see `Store.get`."""
        with self._open(name) as source, _writer(path) as file:
            shutil.copyfileobj(source, file)

    def read(self, name: str) -> bytes:
        """Reads a file; see `Store.read`."""
        with self._open(name) as source:
            return source.read()

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the files recursively; see `Store.list`."""
        root = self._folder / prefix.rpartition("/")[0]
        self._refuse_link(root)
        files = (path for path in root.rglob("*") if path.is_file())
        names = (path.relative_to(self._folder).as_posix() for path in files)
        return tuple(
            sorted(n for n in names if n.startswith(prefix) and not n.endswith(TEMPORARY_SUFFIX))
        )

    def size_bytes(self, prefix: str = "") -> int:
        """Sums the file sizes; see `Store.size_bytes`."""
        return sum((self._folder / name).stat().st_size for name in self.list(prefix))

    def delete(self, name: str) -> None:
        """Removes a file, or a link instead of what it points to; see `Store.delete`."""
        path = self._folder / deletable_name(name)
        self._refuse_link(path.parent)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be deleted ({error.strerror})") from error

    def _path(self, name: str) -> Path:
        """The file of an object.

        Raises:
            StoreError: A symbolic link inside the store leads to another place.
        """
        path = self._folder / check_object_name(name)
        self._refuse_link(path)
        return path

    def _refuse_link(self, path: Path) -> None:
        # Not Path.resolve, which raises RuntimeError for a loop of links.
        found, folder = Path(os.path.realpath(path)), Path(os.path.realpath(self._folder))
        if found != folder / path.relative_to(self._folder):
            raise StoreError(
                f"{path}: leads by a symbolic link to {found}, and a store follows no links; replace"
                " the link by what it points to"
            )

    def _open(self, name: str) -> BinaryIO:
        path = self._path(name)
        try:
            if path.exists() and not path.is_file():
                raise StoreError(f"{path}: not a regular file")
            return path.open("rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissingError(f"{path}: no such file") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
