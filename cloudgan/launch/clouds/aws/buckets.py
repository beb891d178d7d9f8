"""S3 buckets: private, TLS only, owned by this account."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.launch.clouds.aws.error_mapping import RefusedError
from cloudgan.launch.clouds.aws.naming import PREFIX
from cloudgan.launch.clouds.aws.resource_handler import (
    BUCKET_RANK,
    request_if_exists,
    send,
    tags_of,
)
from cloudgan.schema.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Step

_ANY_REGION: Final = "us-east-1"


class Buckets:
    """Handler of buckets; each request names the account that must own the bucket."""

    kind = "S3 bucket"

    def __init__(self, account: Account, owner: str) -> None:
        self._account, self._owner = account, owner

    def find(self, step: Step) -> Resource | None:
        """Returns the bucket, if it has the configuration of the step.

        Raises:
            ConfigError: Another account owns the bucket.
        """
        name = str(step.find)
        if step.method == "CreateBucket":
            return self.refresh(name)
        return _bucket(name) if self._is_configured(step) else None

    def create(self, step: Step) -> None:
        """Creates or configures a bucket."""
        send(self._account, step)

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a bucket."""
        region, _, bucket = name.partition("/")
        try:
            found = self._request(region, "HeadBucket", bucket)
        except CredentialsError as error:
            raise ConfigError(
                f"s3://{bucket} belongs to another account, or this login has no access; pass your own"
                f" bucket by --store=s3://BUCKET ({error})"
            ) from error
        if found is None:
            return None
        tags = self._request(region, "GetBucketTagging", bucket) or {}
        return replace(_bucket(name), labels=tags_of(tags.get("TagSet")))

    def delete(self, name: str) -> None:
        """Deletes an empty bucket."""
        region, _, bucket = name.partition("/")
        try:
            self._request(region, "DeleteBucket", bucket)
        except RefusedError as error:
            if error.code != "BucketNotEmpty":
                raise
            raise LaunchError(
                f"s3://{bucket} still holds objects of runs; empty it with `cloudgan down RUN"
                " --purge` for each run, or in the console"
            ) from error

    def names(self) -> Iterator[str]:
        """Yields the names of the account's buckets with cloudgan's prefix."""
        start = f"{PREFIX}{self._owner}-"
        listed = self._account.list_all("s3", _ANY_REGION, "ListBuckets", "Buckets", Prefix=start)
        for found in listed:
            yield f"{found['Name'].removeprefix(start)}/{found['Name']}"

    def _is_configured(self, step: Step) -> bool:
        body: Any = step.body
        region = step.path.partition("/")[2]
        if step.method == "PutBucketPolicy":
            found = self._request(region, "GetBucketPolicy", body["Bucket"])
            policies = (found or {}).get("Policy", "null"), body["Policy"]
            has, wanted = (parse_json(text, "bucket policy", LaunchError) for text in policies)
            return bool(has == wanted)
        found = self._request(region, "GetPublicAccessBlock", body["Bucket"])
        wanted = body["PublicAccessBlockConfiguration"]
        return found is not None and found["PublicAccessBlockConfiguration"] == wanted

    def _request(self, region: str, operation: str, bucket: str) -> dict[str, Any] | None:
        body = {"Bucket": bucket, "ExpectedBucketOwner": self._owner}
        return request_if_exists(self._account, "s3", region, operation, **body)


def _bucket(name: str) -> Resource:
    region = name.partition("/")[0]
    return Resource(Buckets.kind, name, "ready", region=region, deletion_order=BUCKET_RANK)
