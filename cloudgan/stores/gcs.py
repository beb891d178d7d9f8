"""A store in a bucket of Google Cloud Storage."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any

import requests.exceptions
from google.api_core import exceptions as found
from google.auth import exceptions as login
from google.cloud import storage
from google.cloud.storage import exceptions as transfer
from google.cloud.storage.retry import DEFAULT_RETRY

from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.stores.address import Address, key
from cloudgan.stores.content import opened
from cloudgan.stores.store import (
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    StoreError,
    checked,
)
from cloudgan.stores.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EXAMPLE = "gs://BUCKET/prefix"
_WRITE = "cloudganwrite"  # metadata that tells our own write from another's
_TIMEOUT_SECONDS = (5, 30)  # to connect, to be answered
_HOW = (
    "type: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
    " file, or run where a service account is attached; it needs the role"
    " roles/storage.objectUser on the bucket"
)


class GcsStore:
    """Objects of one bucket under one prefix."""

    def __init__(
        self,
        bucket: str,
        prefix: tuple[str, ...] = (),
        *,
        client: Any = None,
        patience_seconds: float = 60,
    ) -> None:
        self._name, self._prefix = bucket, prefix
        self._client = client or _client()
        self._bucket = self._client.bucket(bucket)
        retry = DEFAULT_RETRY.with_timeout(patience_seconds)
        self._how: dict[str, Any] = {"timeout": _TIMEOUT_SECONDS, "retry": retry}

    @classmethod
    def from_url(cls, url: str) -> GcsStore:
        """Takes ``gs://bucket/prefix``.

        Raises:
            ConfigError: The URL is not of this form.
            CredentialsError: No login was found.
        """
        address = Address.of(url, _EXAMPLE)
        return cls(address.host, address.path)

    @property
    def url(self) -> str:
        """``gs://bucket/prefix``."""
        return "gs://" + key((self._name, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Uploads an object, which appears when all of it is there; see `Store.put`."""
        how = self._how | ({"if_generation_match": 0} if if_absent else {})
        with self._told(name), opened(content) as body:
            blob = self._blob(name)
            blob.metadata = {_WRITE: secrets.token_hex(8)}
            try:
                blob.upload_from_file(body, rewind=True, size=body.seek(0, os.SEEK_END), **how)
            except found.PreconditionFailed as error:
                # A retry after a lost answer finds the object that the first try created.
                there = self._bucket.get_blob(blob.name, **self._how)
                if not there or (there.metadata or {}).get(_WRITE) != blob.metadata[_WRITE]:
                    raise ObjectExistsError(f"{self.url}/{name}: exists already") from error

    def get(self, name: str, path: Path) -> None:
        """Downloads an object beside `path` and renames it; see `Store.get`."""
        with self._told(name), whole_file(path) as file:
            self._blob(name).download_to_file(file, **self._how)

    def read(self, name: str) -> bytes:
        """Downloads an object; see `Store.read`."""
        with self._told(name):
            content: bytes = self._blob(name).download_as_bytes(**self._how)
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the bucket under the prefix, page by page; see `Store.list`."""
        start = key(self._prefix, "")
        with self._told(prefix):
            blobs = self._client.list_blobs(self._name, prefix=start + prefix, **self._how)
            return tuple(sorted(blob.name.removeprefix(start) for blob in blobs))

    def size_bytes(self, prefix: str = "") -> int:
        """Adds up what a listing tells; see `Store.size_bytes`."""
        start = key(self._prefix, "")
        with self._told(prefix):
            blobs = self._client.list_blobs(self._name, prefix=start + prefix, **self._how)
            return sum(blob.size or 0 for blob in blobs)

    def delete(self, name: str) -> None:
        """Deletes an object; see `Store.delete`."""
        with self._told(name), contextlib.suppress(found.NotFound):
            self._blob(name).delete(**self._how)

    def _blob(self, name: str) -> Any:
        return self._bucket.blob(key(self._prefix, checked(name)))

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        where = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except found.NotFound as error:
            raise self._missing(where) from error
        except (found.Forbidden, found.Unauthorized, login.GoogleAuthError) as error:
            raise CredentialsError(
                f"{where}: Google refused this login ({error}); {_HOW}"
            ) from error
        except (
            found.GoogleAPIError,
            requests.exceptions.RequestException,
            transfer.InvalidResponse,
            transfer.DataCorruption,
        ) as error:
            raise StoreError(
                f"{where}: Cloud Storage did not answer as it should ({error})"
            ) from error

    def _missing(self, where: str) -> CloudganError:
        """Both a missing bucket and a missing object are a 404; a listing tells them apart."""
        try:
            list(self._client.list_blobs(self._name, max_results=1, **self._how))
        except found.NotFound:
            return BucketMissingError(
                f"{where}: there is no bucket {self._name!r}; create it or correct it"
            )
        except (found.GoogleAPIError, requests.exceptions.RequestException):
            pass
        return ObjectMissingError(f"{where}: no such object")


def _client() -> Any:
    try:
        return storage.Client()
    except (login.GoogleAuthError, OSError) as error:  # OSError: a login, but no project
        raise CredentialsError(f"Google Cloud: {error}; {_HOW}") from error
