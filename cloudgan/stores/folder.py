"""A store in a folder of this machine, or of a disk that several machines share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from cloudgan.core.errors import ConfigError
from cloudgan.stores.content import opened
from cloudgan.stores.store import ObjectExistsError, ObjectMissingError, StoreError, checked
from cloudgan.stores.whole_file import UNFINISHED, whole_file


class FolderStore:
    """Objects as files; creating one needs hard links where it must fail if there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def from_url(cls, url: str) -> FolderStore:
        """Takes a path, or a ``file:///`` URL.

        Raises:
            ConfigError: The URL names another machine, or no path.
        """
        if not url.startswith("file:"):
            return cls(Path(url).expanduser())
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(f"{url!r} names no folder of this machine; write file:///folder")
        return cls(Path(unquote(parts.path)))

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Writes a file beside and renames it; see `Store.put`."""
        path = self._folder / checked(name)
        try:
            with opened(content) as source, whole_file(path, if_absent=if_absent) as file:
                shutil.copyfileobj(source, file)
        except FileExistsError as error:
            raise ObjectExistsError(f"{path}: exists already") from error

    def get(self, name: str, path: Path) -> None:
        """Copies a file beside `path` and renames it; see `Store.get`."""
        with self._open(name) as source, whole_file(path) as file:
            shutil.copyfileobj(source, file)

    def read(self, name: str) -> bytes:
        """Reads a file; see `Store.read`."""
        with self._open(name) as source:
            return source.read()

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Looks through the folder and those below it; see `Store.list`."""
        start = self._folder / prefix.rpartition("/")[0]
        found = (path for path in start.rglob("*") if path.is_file())
        names = (path.relative_to(self._folder).as_posix() for path in found)
        return tuple(
            sorted(n for n in names if n.startswith(prefix) and not n.endswith(UNFINISHED))
        )

    def size_bytes(self, prefix: str = "") -> int:
        """Adds up the files; see `Store.size_bytes`."""
        return sum((self._folder / name).stat().st_size for name in self.list(prefix))

    def delete(self, name: str) -> None:
        """Removes a file; see `Store.delete`."""
        path = self._folder / checked(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be deleted ({error.strerror})") from error

    def _open(self, name: str) -> BinaryIO:
        path = self._folder / checked(name)
        try:
            return path.open("rb")
        except FileNotFoundError as error:
            raise ObjectMissingError(f"{path}: no such file") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
