"""Store in a bucket of Google Cloud Storage."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import requests.exceptions
from google.api_core import exceptions as errors
from google.auth import exceptions as login
from google.cloud import storage
from google.cloud.storage import exceptions as transfer
from google.cloud.storage.retry import DEFAULT_RETRY

from cloudgan.core import settings
from cloudgan.core.documents import check_login_file
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.storage.store import (
    BucketAddress,
    ObjectMissingError,
    Store,
    StoreCredentialsError,
    StoreError,
    object_key,
)

_EXAMPLE = "gs://BUCKET/prefix"
_TIMEOUT_SECONDS = (5, 30)  # connect, read
_LOGIN_HINT = (
    "run: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
    " file, or run where a service account is attached; it needs the role"
    " roles/storage.objectUser on the bucket"
)


class GcsStore(Store):
    """Objects of one bucket under one prefix."""

    owner = "Google"
    login_hint = _LOGIN_HINT
    failures = (
        errors.GoogleAPIError,
        login.GoogleAuthError,
        requests.exceptions.RequestException,
        transfer.InvalidResponse,
        transfer.DataCorruption,
    )

    def __init__(
        self,
        bucket: str,
        prefix: tuple[str, ...] = (),
        *,
        client: Any = None,
        patience_seconds: float = 60,
    ) -> None:
        super().__init__(bucket, prefix)
        self._given = client
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

    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], expected: str | None
    ) -> bool:
        options = dict(self._options)
        if expected is not None:
            # Another generation is a 412; 0 is no object
            # (https://cloud.google.com/storage/docs/request-preconditions, 2026-12-01).
            options["if_generation_match"] = int(expected or 0)
        blob = self._bucket.blob(key)
        blob.metadata = metadata
        try:
            blob.upload_from_file(body, rewind=True, size=body.seek(0, os.SEEK_END), **options)
        except errors.PreconditionFailed:
            return False
        return True

    def _version(self, key: str) -> tuple[str, Mapping[str, str]]:
        there = self._bucket.get_blob(key, **self._options)
        return (str(there.generation), there.metadata or {}) if there else ("", {})

    def _download(self, key: str, file: BinaryIO) -> None:
        self._bucket.blob(key).download_to_file(file, **self._options)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        for blob in self._client.list_blobs(self._name, prefix=prefix, **self._options):
            yield blob.name, blob.size or 0

    def _remove(self, key: str) -> None:
        with contextlib.suppress(errors.NotFound):
            self._bucket.blob(key).delete(**self._options)

    @cached_property
    def _client(self) -> Any:
        return self._given or _client()  # asks the metadata server of a node

    @property
    def _bucket(self) -> Any:
        return self._client.bucket(self._name)

    def _error(self, url: str, error: Exception) -> CloudganError:
        if isinstance(error, errors.NotFound):
            return self._missing(url)
        if isinstance(error, errors.Forbidden | errors.Unauthorized | login.GoogleAuthError):
            return self._rejected(url, error)
        return StoreError(f"{url}: Cloud Storage failed ({error})")

    def _missing(self, url: str) -> CloudganError:
        """Lists the bucket to find which of bucket and object a 404 means."""
        try:
            list(self._client.list_blobs(self._name, max_results=1, **self._options))
        except errors.NotFound:
            return self._no_bucket(url)
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
