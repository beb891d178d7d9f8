"""Store in a bucket of Amazon S3."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import boto3
import botocore.config
import botocore.exceptions as errors

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.user_text import check_text
from cloudgan.storage.aws_configuration import NO_LOGIN, checked_configuration
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

_EXAMPLE = "s3://BUCKET/prefix"
_DOWNLOADS = 3
_WRITE = "cloudganwrite"  # metadata key that identifies our own write
_CUT_SHORT = (errors.ResponseStreamingError, errors.IncompleteReadError, errors.ReadTimeoutError)
_CONFLICT = {"PreconditionFailed", "412"}
# Another write of this object runs: "On a 409 failure, retry the upload"
# (https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html, 2026-11-25).
_BUSY = "ConditionalRequestConflict"
_UPLOADS, _BUSY_SECONDS = 5, 1.0
_DENIED = {"401", "403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"}
_LOGIN_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is"
    " attached; it needs s3:ListBucket on the bucket, s3:GetObject, PutObject, DeleteObject in it"
)


def s3_client(endpoint_url: str | None = None, *, attempts: int = 4) -> Any:
    """Returns a client that retries one call for at most about a minute.

    Raises:
        StoreCredentialsError: The profile in AWS_PROFILE does not exist, or the service that gives a pod
            its credentials failed.
    """
    config = botocore.config.Config(
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "total_max_attempts": attempts},
        # Else uploads over HTTPS are sent in chunks with a checksum behind them, which servers other than
        # Amazon's refuse, or store with the object (https://github.com/boto/boto3/issues/4392, 2026-11-25).
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        with checked_configuration():
            client = boto3.Session().client("s3", endpoint_url=endpoint_url, config=config)
    except NO_LOGIN as error:
        raise StoreCredentialsError(f"AWS: {error}; {_LOGIN_HINT}") from error
    check_text("the endpoint URL of the AWS configuration", client.meta.endpoint_url)
    return client


class S3Store:
    """Objects of one bucket under one prefix."""

    def __init__(self, bucket: str, prefix: tuple[str, ...] = (), *, client: Any = None) -> None:
        self._bucket, self._prefix, self._given = bucket, prefix, client

    @classmethod
    def from_url(cls, url: str) -> S3Store:
        """Opens ``s3://bucket/prefix``."""
        address = BucketAddress.parse(url, _EXAMPLE)
        return cls(address.host, address.path)

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return "s3://" + object_key((self._bucket, *self._prefix), "").rstrip("/")

    def put(self, name: str, content: Path | bytes, *, if_absent: bool = False) -> None:
        """Puts an object in one request, at most 5 GiB; see `Store.put`."""
        mark = secrets.token_hex(8)
        options: dict[str, Any] = {"Metadata": {_WRITE: mark}} | (
            {"IfNoneMatch": "*"} if if_absent else {}
        )
        with self._translate_errors(name), open_content(content) as body:
            for left in reversed(range(_UPLOADS)):
                body.seek(0)
                try:
                    self._client.put_object(**self._at(name), Body=body, **options)
                except errors.ClientError as error:
                    code = error.response["Error"]["Code"]
                    if code == _BUSY and left:
                        time.sleep(_BUSY_SECONDS)
                        continue
                    if code not in _CONFLICT:
                        raise
                    # A retry after a lost response finds the object of the first try.
                    if self._mark(name) != mark:
                        raise ObjectExistsError(f"{self.url}/{name}: already exists") from error
                return

    def get(self, name: str, path: Path) -> None:
        """Downloads an object to `path` atomically; see `Store.get`."""
        with self._translate_errors(name), atomic_writer(path, error_class=StoreError) as file:
            self._download(name, file)

    def read(self, name: str) -> bytes:
        """Downloads an object; see `Store.read`."""
        with self._translate_errors(name):
            answer = self._client.get_object(**self._at(name))
            with contextlib.closing(answer["Body"]) as body:
                content: bytes = body.read()
        return content

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Lists the bucket under the prefix; see `Store.list`."""
        start = object_key(self._prefix, "")
        return tuple(sorted(entry["Key"].removeprefix(start) for entry in self._entries(prefix)))

    def size_bytes(self, prefix: str = "") -> int:
        """Sums the sizes in a listing; see `Store.size_bytes`."""
        return sum(entry["Size"] for entry in self._entries(prefix))

    def delete(self, name: str) -> None:
        """Deletes an object; see `Store.delete`."""
        with self._translate_errors(name):
            key = object_key(self._prefix, deletable_name(name))
            self._client.delete_object(Bucket=self._bucket, Key=key)

    @cached_property
    def _client(self) -> Any:
        return self._given or s3_client()

    def _entries(self, prefix: str) -> Iterator[dict[str, Any]]:
        with self._translate_errors(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=object_key(self._prefix, "") + prefix
            )
            for page in pages:
                yield from page.get("Contents", ())

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": object_key(self._prefix, check_object_name(name))}

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
    def _translate_errors(self, name: str) -> Iterator[None]:
        url = f"{self.url}/{name}"
        try:
            yield
        except CloudganError:
            raise
        except errors.ClientError as error:
            raise self._error(url, error) from error
        except NO_LOGIN as error:
            self.__dict__.pop("_client", None)  # it would not look for credentials again
            raise StoreCredentialsError(
                f"{url}: no AWS credentials were found ({error}); {_LOGIN_HINT}"
            ) from error
        except errors.ParamValidationError as error:
            raise ConfigError(
                f"{url}: not a valid S3 address ({error}); write {_EXAMPLE}"
            ) from error
        except (errors.BotoCoreError, OSError) as error:  # also of the pod's token, a file
            raise StoreError(f"{url}: S3 failed ({error})") from error

    def _error(self, url: str, error: errors.ClientError) -> CloudganError:
        code = error.response["Error"]["Code"]
        if code == "NoSuchBucket":
            return BucketMissingError(
                f"{url}: no bucket {self._bucket!r}; create it or correct the URL"
            )
        if code in ("NoSuchKey", "404"):
            return ObjectMissingError(f"{url}: no such object")
        if code in _DENIED or code.startswith("Signature"):
            return StoreCredentialsError(
                f"{url}: AWS rejected these credentials ({error}); {_LOGIN_HINT}"
            )
        return StoreError(f"{url}: {error}")
