"""Buckets of S3: private, by TLS only, and ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.core.thing import Thing
from cloudgan.providers.aws.kind import BUCKET_RANK, ask_if_there, send, tags_of
from cloudgan.providers.aws.naming import PREFIX
from cloudgan.providers.aws.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.plan import Step
    from cloudgan.providers.aws.account import Account

_ANY_REGION: Final = "us-east-1"


class Buckets:
    """Buckets; each request names the account that must own the bucket."""

    kind = "S3 bucket"

    def __init__(self, account: Account, owner: str) -> None:
        self._account, self._owner = account, owner

    def find(self, step: Step) -> Thing | None:
        """Returns the bucket, where it is as the step wants it.

        Raises:
            ConfigError: The bucket of this name is another account's.
        """
        name = str(step.find)
        if step.method == "CreateBucket":
            return self.look(name)
        return _bucket(name) if self._is_so(step) else None

    def create(self, step: Step) -> None:
        """Makes a bucket, or closes one."""
        send(self._account, step)

    def look(self, name: str) -> Thing | None:
        """Returns a bucket as it is now."""
        region, _, bucket = name.partition("/")
        try:
            found = self._ask(region, "HeadBucket", bucket)
        except CredentialsError as error:
            raise ConfigError(
                f"s3://{bucket} is not this account's, or closed to this login; give --store=s3://"
                f"BUCKET with one of your own ({error})"
            ) from error
        if found is None:
            return None
        tags = self._ask(region, "GetBucketTagging", bucket) or {}
        return replace(_bucket(name), labels=tags_of(tags.get("TagSet")))

    def delete(self, name: str) -> None:
        """Deletes a bucket that holds nothing any more."""
        region, _, bucket = name.partition("/")
        try:
            self._ask(region, "DeleteBucket", bucket)
        except RefusedError as error:
            if error.code != "BucketNotEmpty":
                raise
            raise LaunchError(
                f"s3://{bucket} still holds what runs left; empty it with `cloudgan down RUN"
                " --purge` for each, or in the console"
            ) from error

    def names(self) -> Iterator[str]:
        """Yields the names of the account's buckets that could be ours."""
        start = f"{PREFIX}{self._owner}-"
        listed = self._account.all("s3", _ANY_REGION, "ListBuckets", of="Buckets", Prefix=start)
        for found in listed:
            yield f"{found['Name'].removeprefix(start)}/{found['Name']}"

    def _is_so(self, step: Step) -> bool:
        body: Any = step.body
        region = step.path.partition("/")[2]
        if step.method == "PutBucketPolicy":
            there = self._ask(region, "GetBucketPolicy", body["Bucket"])
            return there is not None and json.loads(there["Policy"]) == json.loads(body["Policy"])
        there = self._ask(region, "GetPublicAccessBlock", body["Bucket"])
        wanted = body["PublicAccessBlockConfiguration"]
        return there is not None and there["PublicAccessBlockConfiguration"] == wanted

    def _ask(self, region: str, operation: str, bucket: str) -> dict[str, Any] | None:
        whose = {"Bucket": bucket, "ExpectedBucketOwner": self._owner}
        return ask_if_there(self._account, "s3", region, operation, **whose)


def _bucket(name: str) -> Thing:
    region = name.partition("/")[0]
    return Thing(Buckets.kind, name, "ready", region=region, rank=BUCKET_RANK)
