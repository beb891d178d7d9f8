"""Store in a bucket of Google Cloud Storage."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests.exceptions
from google.api_core import exceptions as errors
from google.auth import exceptions as login
from google.cloud import storage
from google.cloud.storage import exceptions as transfer
from google.cloud.storage.retry import DEFAULT_RETRY

from cloudgan.core import settings
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.documents import check_login_file
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.storage.store import (
    BucketAddress,
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

_EXAMPLE = "gs://BUCKET/prefix"
_WRITE = "cloudganwrite"  # metadata key that identifies our own write
_TIMEOUT_SECONDS = (5, 30)  # connect, read
_LOGIN_HINT = (
    "run: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
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
        self._name, self._prefix, self._given = bucket, prefix, client
        retry = DEFAULT_RETRY.with_timeout(patience_seconds)
        self._options: dict[str, Any] = {"timeout": _TIMEOUT_SECONDS, "retry": retry}

    @classmethod
    def from_url(cls, url: str) -> GcsStore:
        """Opens ``gs://bucket/prefix``."""
        address = BucketAddress.parse(url, _EXAMPLE)
        _check_emulator()
        return cls(address.host, address.path)

    @property
    def url(self) -> str:
        """``gs://bucket/prefix``."""
        return "gs://" + object_key((self._name, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Uploads an object; see `Store.put`."""
        options = self._options | ({"if_generation_match": 0} if if_absent else {})
        with self._translate_errors(name), open_content(content) as body:
            blob = self._blob(name)
            blob.metadata = {_WRITE: secrets.token_hex(8)}
            try:
                blob.upload_from_file(body, rewind=True, size=body.seek(0, os.SEEK_END), **options)
            except errors.PreconditionFailed as error:
                # A retry after a lost response finds the object of the first try.
                there = self._bucket.get_blob(blob.name, **self._options)
                if not there or (there.metadata or {}).get(_WRITE) != blob.metadata[_WRITE]:
                    raise ObjectExistsError(f"{self.url}/{name}: already exists") from error

    def get(self, name: str, path: Path) -> None:
        """Downloads an object to `path` atomically; see `Store.get`."""
        with self._translate_errors(name), atomic_writer(path, error_class=StoreError) as file:
            self._blob(name).download_to_file(file, **self._options)

    def read(self, name: str) -> bytes:
        """Downloads an object; see `Store.read`."""
        with self._translate_errors(name):
            content: bytes = self._blob(name).download_as_bytes(**self._options)
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the bucket under the prefix; see `Store.list`."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            blobs = self._client.list_blobs(self._name, prefix=start + prefix, **self._options)
            return tuple(sorted(blob.name.removeprefix(start) for blob in blobs))

    def size_bytes(self, prefix: str = "") -> int:
        """Sums the sizes in a listing; see `Store.size_bytes`."""
        start = object_key(self._prefix, "")
        with self._translate_errors(prefix):
            blobs = self._client.list_blobs(self._name, prefix=start + prefix, **self._options)
            return sum(blob.size or 0 for blob in blobs)

    def delete(self, name: str) -> None:
        """Deletes an object; see `Store.delete`."""
        with self._translate_errors(name), contextlib.suppress(errors.NotFound):
            key = object_key(self._prefix, deletable_name(name))
            self._bucket.blob(key).delete(**self._options)

    @cached_property
    def _client(self) -> Any:
        return self._given or _client()  # asks the metadata server of a node

    @property
    def _bucket(self) -> Any:
        return self._client.bucket(self._name)

    def _blob(self, name: str) -> Any:
        return self._bucket.blob(object_key(self._prefix, check_object_name(name)))

    @contextlib.contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        url = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except errors.NotFound as error:
            raise self._missing(url) from error
        except (errors.Forbidden, errors.Unauthorized, login.GoogleAuthError) as error:
            raise StoreCredentialsError(
                f"{url}: Google rejected these credentials ({error}); {_LOGIN_HINT}"
            ) from error
        except (
            errors.GoogleAPIError,
            requests.exceptions.RequestException,
            transfer.InvalidResponse,
            transfer.DataCorruption,
        ) as error:
            raise StoreError(f"{url}: Cloud Storage failed ({error})") from error

    def _missing(self, url: str) -> CloudganError:
        """Lists the bucket to find which of bucket and object a 404 means."""
        try:
            list(self._client.list_blobs(self._name, max_results=1, **self._options))
        except errors.NotFound:
            return BucketMissingError(
                f"{url}: no bucket {self._name!r}; create it or correct the URL"
            )
        except (errors.GoogleAPIError, login.GoogleAuthError, requests.exceptions.RequestException):
            pass
        return ObjectMissingError(f"{url}: no such object")


def _client() -> Any:
    check_login_file("GOOGLE_APPLICATION_CREDENTIALS")
    try:
        return storage.Client()
    except (login.GoogleAuthError, OSError) as error:  # OSError: no project
        raise StoreCredentialsError(f"Google Cloud: {error}; {_LOGIN_HINT}") from error


def _check_emulator() -> None:
    """Checks the address that Google's client uses instead of Cloud Storage."""
    address = settings.address("STORAGE_EMULATOR_HOST")
    try:
        is_valid = not address or bool(urlsplit(address).hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"STORAGE_EMULATOR_HOST is {address!r}; write http://HOST:PORT, or unset it"
        )
