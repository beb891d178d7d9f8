"""Store in a bucket of Amazon S3."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO

import boto3
import botocore.config
import botocore.exceptions as errors

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.user_text import check_text
from cloudgan.storage.aws_configuration import NO_LOGIN, checked_configuration
from cloudgan.storage.store import (
    BucketAddress,
    ObjectMissingError,
    Store,
    StoreCredentialsError,
    StoreError,
    object_key,
)

_EXAMPLE = "s3://BUCKET/prefix"
_DOWNLOADS = 3
_CUT_SHORT = (errors.ResponseStreamingError, errors.IncompleteReadError, errors.ReadTimeoutError)
# Of If-Match for an object that was deleted: 404, for another one: 412
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html, 2026-12-01).
_CONFLICT = {"PreconditionFailed", "412", "NoSuchKey"}
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


class S3Store(Store):
    """Objects of one bucket under one prefix."""

    owner = "AWS"
    login_hint = _LOGIN_HINT
    failures = (
        errors.ClientError,
        errors.BotoCoreError,
        OSError,  # also of the pod's token, a file
        *NO_LOGIN,
    )

    def __init__(self, bucket: str, prefix: tuple[str, ...] = (), *, client: Any = None) -> None:
        super().__init__(bucket, prefix)
        self._given = client

    @classmethod
    def from_url(cls, url: str) -> S3Store:
        """Opens ``s3://bucket/prefix``."""
        address = BucketAddress.parse(url, _EXAMPLE)
        return cls(address.host, address.path)

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return "s3://" + object_key((self._name, *self._prefix), "").rstrip("/")

    def _upload(
        self, key: str, body: BinaryIO, metadata: dict[str, str], expected: str | None
    ) -> bool:
        """Puts an object in one request, at most 5 GiB."""
        options: dict[str, Any] = {}
        if expected is not None:
            options = {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}
        left = _UPLOADS
        while True:
            body.seek(0)
            left -= 1
            try:
                self._client.put_object(**self._at(key), Body=body, Metadata=metadata, **options)
            except errors.ClientError as error:
                code = error.response["Error"]["Code"]
                if code == _BUSY and left:
                    time.sleep(_BUSY_SECONDS)
                    continue
                if code not in _CONFLICT:
                    raise
                return False
            else:
                return True

    def _version(self, key: str) -> tuple[str, Mapping[str, str]]:
        found = self._client.head_object(**self._at(key))
        return found["ETag"], found["Metadata"]

    def _download(self, key: str, file: BinaryIO) -> None:
        for left in reversed(range(_DOWNLOADS)):
            file.seek(0)
            file.truncate()
            answer = self._client.get_object(**self._at(key))
            try:
                with contextlib.closing(answer["Body"]) as body:
                    shutil.copyfileobj(body, file)
            except _CUT_SHORT:  # botocore retries requests, but not their bodies
                if not left:
                    raise
            else:
                return

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._name, Prefix=prefix
        )
        for page in pages:
            yield from ((entry["Key"], entry["Size"]) for entry in page.get("Contents", ()))

    def _remove(self, key: str) -> None:
        self._client.delete_object(**self._at(key))

    @cached_property
    def _client(self) -> Any:
        return self._given or s3_client()

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._name, "Key": key}

    def _error(self, url: str, error: Exception) -> CloudganError:
        if isinstance(error, NO_LOGIN):
            self.__dict__.pop("_client", None)  # it would not look for credentials again
            return StoreCredentialsError(
                f"{url}: no AWS credentials were found ({error}); {_LOGIN_HINT}"
            )
        if isinstance(error, errors.ParamValidationError):
            return ConfigError(f"{url}: not a valid S3 address ({error}); write {_EXAMPLE}")
        if isinstance(error, errors.ClientError):
            return self._refusal(url, error)
        return StoreError(f"{url}: S3 failed ({error})")

    def _refusal(self, url: str, error: errors.ClientError) -> CloudganError:
        code = error.response["Error"]["Code"]
        if code == "NoSuchBucket":
            return self._no_bucket(url)
        if code in ("NoSuchKey", "404"):
            return ObjectMissingError(f"{url}: no such object")
        if code in _DENIED or code.startswith("Signature"):
            return self._rejected(url, error)
        return StoreError(f"{url}: {error}")
