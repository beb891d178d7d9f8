"""A store in a bucket of Amazon S3."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from typing import TYPE_CHECKING, Any, BinaryIO

import boto3
import botocore.config
import botocore.exceptions as found

from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError
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

_EXAMPLE = "s3://BUCKET/prefix"
_DOWNLOADS = 3
_WRITE = "cloudganwrite"  # metadata that tells our own write from another's
_NO_LOGIN = (found.NoCredentialsError, found.PartialCredentialsError, found.ProfileNotFound)
_CUT_SHORT = (found.ResponseStreamingError, found.IncompleteReadError, found.ReadTimeoutError)
_CONFLICT = {"PreconditionFailed", "412"}
_DENIED = {"401", "403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"}
_HOW = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is"
    " attached; it needs s3:ListBucket on the bucket, s3:GetObject, PutObject, DeleteObject in it"
)


def s3_client(endpoint_url: str | None = None, *, attempts: int = 4) -> Any:
    """Makes a client with bounded patience: at most about a minute for one call.

    Raises:
        CredentialsError: AWS_PROFILE names no profile.
    """
    config = botocore.config.Config(
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    try:
        return boto3.Session().client("s3", endpoint_url=endpoint_url, config=config)
    except _NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {_HOW}") from error


class S3Store:
    """Objects of one bucket under one prefix."""

    def __init__(self, bucket: str, prefix: tuple[str, ...] = (), *, client: Any = None) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._client = client or s3_client()

    @classmethod
    def from_url(cls, url: str) -> S3Store:
        """Takes ``s3://bucket/prefix``.

        Raises:
            ConfigError: The URL is not of this form.
            CredentialsError: AWS_PROFILE names no profile.
        """
        address = Address.of(url, _EXAMPLE)
        return cls(address.host, address.path)

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return "s3://" + key((self._bucket, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Puts an object in one request, at most 5 GiB; see `Store.put`."""
        mark = secrets.token_hex(8)
        how: dict[str, Any] = {"Metadata": {_WRITE: mark}} | (
            {"IfNoneMatch": "*"} if if_absent else {}
        )
        with self._told(name), opened(content) as body:
            try:
                self._client.put_object(**self._at(name), Body=body, **how)
            except found.ClientError as error:
                if error.response["Error"]["Code"] not in _CONFLICT:
                    raise
                # A retry after a lost answer finds the object that the first try created.
                if self._mark(name) != mark:
                    raise ObjectExistsError(f"{self.url}/{name}: exists already") from error

    def get(self, name: str, path: Path) -> None:
        """Downloads an object beside `path` and renames it; see `Store.get`."""
        with self._told(name), whole_file(path) as file:
            self._download(name, file)

    def read(self, name: str) -> bytes:
        """Downloads an object; see `Store.read`."""
        with self._told(name):
            answer = self._client.get_object(**self._at(name))
            with contextlib.closing(answer["Body"]) as body:
                content: bytes = body.read()
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the bucket under the prefix, page by page; see `Store.list`."""
        start = key(self._prefix, "")
        keys = [entry["Key"] for entry in self._entries(prefix)]
        return tuple(sorted(found_key.removeprefix(start) for found_key in keys))

    def size_bytes(self, prefix: str = "") -> int:
        """Adds up what a listing tells; see `Store.size_bytes`."""
        return sum(entry["Size"] for entry in self._entries(prefix))

    def delete(self, name: str) -> None:
        """Deletes an object; see `Store.delete`."""
        with self._told(name):
            self._client.delete_object(**self._at(name))

    def _entries(self, prefix: str) -> Iterator[dict[str, Any]]:
        with self._told(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=key(self._prefix, "") + prefix
            )
            for page in pages:
                yield from page.get("Contents", ())

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": key(self._prefix, checked(name))}

    def _mark(self, name: str) -> str | None:
        metadata: dict[str, str] = self._client.head_object(**self._at(name))["Metadata"]
        return metadata.get(_WRITE)

    def _download(self, name: str, file: BinaryIO) -> None:
        for left in reversed(range(_DOWNLOADS)):
            file.seek(0)
            file.truncate()
            answer = self._client.get_object(**self._at(name))
            try:
                with contextlib.closing(answer["Body"]) as body:
                    shutil.copyfileobj(body, file)
            except _CUT_SHORT:  # botocore retries requests, but not their bodies
                if not left:
                    raise
            else:
                return

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        where = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except found.ClientError as error:
            raise self._translated(where, error) from error
        except _NO_LOGIN as error:
            raise CredentialsError(
                f"{where}: no login for AWS was found ({error}); {_HOW}"
            ) from error
        except found.ParamValidationError as error:
            raise ConfigError(f"{where}: not a place in S3 ({error}); write {_EXAMPLE}") from error
        except found.BotoCoreError as error:
            raise StoreError(f"{where}: S3 did not answer as it should ({error})") from error

    def _translated(self, where: str, error: found.ClientError) -> CloudganError:
        code = error.response["Error"]["Code"]
        if code == "NoSuchBucket":
            return BucketMissingError(
                f"{where}: there is no bucket {self._bucket!r}; create it or correct it"
            )
        if code in ("NoSuchKey", "404"):
            return ObjectMissingError(f"{where}: no such object")
        if code in _DENIED or code.startswith("Signature"):
            return CredentialsError(f"{where}: AWS refused this login ({error}); {_HOW}")
        return StoreError(f"{where}: {error}")
