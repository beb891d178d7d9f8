"""Store in a folder of this machine or of a shared file system."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from cloudgan.core.atomic_file import TEMPORARY_SUFFIX, atomic_writer
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import awaited_target
from cloudgan.core.local_path import local_path
from cloudgan.storage.store import ObjectMissingError, Store, StoreError


class FolderStore(Store):
    """Objects as files; `if_absent` needs hard links, `if_version` locks of files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
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

    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], expected: str | None
    ) -> bool:
        del metadata  # no request is repeated
        path = self._folder / key
        self._refuse_link(path)
        try:
            with awaited_target(path) if expected else nullcontext():
                if expected and self._version(key)[0] != expected:
                    return False
                is_new = expected == ""
                with atomic_writer(path, if_absent=is_new, error_class=StoreError) as file:
                    shutil.copyfileobj(body, file)
        except (FileExistsError, ObjectMissingError):
            return False
        return True

    def _version(self, key: str) -> tuple[str, Mapping[str, str]]:
        self._download(key, content := io.BytesIO())
        return hashlib.sha256(content.getvalue()).hexdigest(), {}

    def _download(self, key: str, file: BinaryIO) -> None:
        path = self._folder / key
        self._refuse_link(path)
        try:
            if path.exists() and not path.is_file():
                raise StoreError(f"{path}: not a regular file")
            source = path.open("rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissingError(f"{path}: no such file") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
        with source:
            shutil.copyfileobj(source, file)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        root = self._folder / prefix.rpartition("/")[0]
        self._refuse_link(root)
        for path in root.rglob("*"):
            name = path.relative_to(self._folder).as_posix()
            if name.startswith(prefix) and not name.endswith(TEMPORARY_SUFFIX) and path.is_file():
                with suppress(FileNotFoundError):  # it was deleted since then
                    yield name, path.stat().st_size

    def _remove(self, key: str) -> None:
        """Removes a file, or a link instead of what it points to."""
        path = self._folder / key
        self._refuse_link(path.parent)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be deleted ({error.strerror})") from error

    def _refuse_link(self, path: Path) -> None:
        """Refuses a path to another place, by a symbolic link inside the store."""
        # Not Path.resolve, which raises RuntimeError for a loop of links.
        found, folder = Path(os.path.realpath(path)), Path(os.path.realpath(self._folder))
        if found != folder / path.relative_to(self._folder):
            raise StoreError(
                f"{path}: leads by a symbolic link to {found}, and a store follows no links; replace"
                " the link by what it points to"
            )
