"""`BucketStore`: what the stores of the clouds share; each adds its requests and what its errors mean."""

from __future__ import annotations

import io
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import CloudganError
from cloudgan.storage.store import (
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    StoreCredentialsError,
    StoreError,
    check_object_name,
    deletable_name,
    object_key,
    open_content,
)

_WRITE: Final = "cloudganwrite"
"""Metadata key that identifies our own write."""


class BucketStore(ABC):
    """`Store` of the objects of one bucket under one prefix. Requests get the keys in the bucket."""

    owner: ClassVar[str]
    """Whose credentials it takes, in messages."""
    noun: ClassVar[str] = "bucket"
    login_hint: ClassVar[str]
    failures: ClassVar[tuple[type[Exception], ...]]
    """What its SDK raises, for `_error`."""

    def __init__(self, bucket: str, prefix: tuple[str, ...]) -> None:
        self._name, self._prefix = bucket, prefix

    @property
    @abstractmethod
    def url(self) -> str:
        """See `Store.url`."""

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Uploads an object; see `Store.put`."""
        mark = secrets.token_hex(8)
        with self._translate_errors(name), open_content(content) as body:
            key = self._key(name)
            is_new = self._upload(key, body, {_WRITE: mark}, if_absent=if_absent)
            # A retry after a lost response finds the object of the first try.
            if not is_new and self._mark(name) != mark:
                raise ObjectExistsError(f"{self.url}/{name}: already exists")

    def get(self, name: str, path: Path) -> None:
        """Downloads an object to `path` atomically; see `Store.get`."""
        with self._translate_errors(name), atomic_writer(path, error_class=StoreError) as file:
            self._download(self._key(name), file)

    def read(self, name: str) -> bytes:
        """Downloads an object; see `Store.read`."""
        content = io.BytesIO()
        with self._translate_errors(name):
            self._download(self._key(name), content)
        return content.getvalue()

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the bucket under the prefix; see `Store.list`."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            return tuple(sorted(key.removeprefix(start) for key, _ in self._list(start + prefix)))

    def size_bytes(self, prefix: str = "") -> int:
        """Sums the sizes in a listing; see `Store.size_bytes`."""
        with self._translate_errors(prefix):
            return sum(size for _, size in self._list(object_key(self._prefix, prefix)))

    def delete(self, name: str) -> None:
        """Deletes an object; see `Store.delete`."""
        with suppress(ObjectMissingError), self._translate_errors(name):
            self._remove(object_key(self._prefix, deletable_name(name)))

    @abstractmethod
    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], *, if_absent: bool
    ) -> bool:
        """Writes an object; False: it was to be created and exists."""

    @abstractmethod
    def _metadata(self, key: str) -> Mapping[str, str]:
        """Returns the metadata of an object."""

    @abstractmethod
    def _download(self, key: str, file: BinaryIO) -> None:
        """Writes the content of an object to an empty file."""

    @abstractmethod
    def _list(self, prefix: str) -> Iterable[tuple[str, int]]:
        """Yields key and size of each object whose key starts with `prefix`."""

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Deletes an object."""

    @abstractmethod
    def _error(self, url: str, error: Exception) -> CloudganError:
        """Returns the error of an object for one of `failures`."""

    def _mark(self, name: str) -> str | None:
        """Returns the mark of the write that made an object; None if that had none, or it is gone."""
        with suppress(ObjectMissingError), self._translate_errors(name):
            return self._metadata(self._key(name)).get(_WRITE)
        return None

    def _key(self, name: str) -> str:
        return object_key(self._prefix, check_object_name(name))

    def _no_bucket(self, url: str) -> BucketMissingError:
        return BucketMissingError(
            f"{url}: no {self.noun} {self._name!r}; create it or correct the URL"
        )

    def _rejected(self, url: str, why: object) -> StoreCredentialsError:
        return StoreCredentialsError(
            f"{url}: {self.owner} rejected these credentials ({why}); {self.login_hint}"
        )

    @contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except CloudganError:  # some are OSErrors too
            raise
        except self.failures as error:
            raise self._error(f"{self.url}/{name}", error) from error
