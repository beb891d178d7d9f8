"""CodeBuild as an image builder, and the resources that `cloudgan image` creates in each region.

A resource of that name without cloudgan's tag belongs to another user.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_TagResource.html (read
2026-11-21) has the ARN of a log group.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError
from cloudgan.launch.clouds.aws.account import Account
from cloudgan.launch.clouds.aws.error_mapping import RefusedError
from cloudgan.launch.clouds.aws.iam_roles import IamRoles
from cloudgan.launch.clouds.aws.image_requests import (
    PROJECT,
    build_step,
    builder_steps,
    repository_step,
)
from cloudgan.launch.clouds.aws.login import open_session
from cloudgan.launch.clouds.aws.naming import IMAGE_LOG, IMAGE_ROLE, REPOSITORY
from cloudgan.launch.clouds.aws.resource_handler import (
    BUILDER_RANK,
    IMAGE_RANK,
    UnplannedHandler,
    request_if_exists,
)
from cloudgan.schema.image_order import Build
from cloudgan.schema.resource import Resource
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from cloudgan.schema.image_order import ImageBuildRequest
    from cloudgan.schema.plan import Step, Target
    from cloudgan.storage.store import Store

_EXISTS = frozenset(
    {
        "RepositoryAlreadyExistsException",
        "ResourceAlreadyExistsException",
    }
)
_MISSING = frozenset({"ImageNotFoundException", "ResourceNotFoundException"})
_ROLE_SECONDS, _ROLE_TRIES = 5.0, 12
"""A new role takes a while to propagate."""


class AwsImageBuilder:
    """Builds images by CodeBuild into ECR; implements `ImageBuilder`.

    Args:
        aws: The AWS login.
        account: Account number.
        store: Opens the bucket of a URL.
        role_seconds: Interval between two attempts while a new role propagates.
    """

    def __init__(
        self,
        aws: Account,
        account: str,
        *,
        store: Callable[[str], Store] = open_store,
        role_seconds: float = _ROLE_SECONDS,
    ) -> None:
        self._aws, self.account = aws, account
        self._open, self._role_seconds = store, role_seconds
        self._log, self._token = "", ""

    @classmethod
    def open(cls, target: Target) -> AwsImageBuilder:
        """Opens the account of a login.

        Raises:
            CredentialsError: There is none.
        """
        aws = Account(open_session(target.profile, target.region))
        login = aws.request("sts", target.region or "us-east-1", "GetCallerIdentity")
        return cls(aws, login["Account"])

    def prepare_registry(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the repository."""
        step = repository_step(order)
        if self._send_unless_exists(step):
            yield step.ensure

    def prepare(self, order: ImageBuildRequest) -> Iterator[str]:
        """Ensures the repository, and the builder with its log group.

        Raises:
            ConfigError: The role of the builder, which `setup` creates, does not exist.
        """
        if IamRoles(self._aws).refresh(IMAGE_ROLE) is None:
            raise ConfigError(
                f"IAM role {IMAGE_ROLE} does not exist; an administrator runs once: cloudgan setup"
                f" --provider=aws --region={order.target.region}"
            )
        yield from self.prepare_registry(order)
        for step in builder_steps(order):
            if self._send_unless_exists(step):
                yield step.ensure

    def start(self, order: ImageBuildRequest, archive: bytes) -> str:
        """Uploads the context to the bucket and starts the build."""
        self._open(order.store).put(order.object_name("zip"), archive)
        self._log, self._token = "", ""
        build: str = self._send(build_step(order))["build"]["id"]
        return build

    def poll(self, order: ImageBuildRequest, build: str) -> Build:
        """Returns the state of a build."""
        region = order.target.region or ""
        found = self._aws.request("codebuild", region, "BatchGetBuilds", {"ids": [build]})[
            "builds"
        ][0]
        self._read_log(region, found.get("logs") or {})
        status = found["buildStatus"]
        if status == "IN_PROGRESS":
            return Build("running", self._log)
        if status != "SUCCEEDED":
            return Build("failed", self._log, f"{status} in {_failed_phase(found)}")
        return Build("done", self._log, digest=self._digest(order))

    def _send(self, step: Step) -> dict[str, Any]:
        service, _, region = step.path.partition("/")
        body = step.body if isinstance(step.body, dict) else {}
        return self._aws.request(service, region, step.method, body)

    def _send_unless_exists(self, step: Step) -> bool:
        for left in reversed(range(_ROLE_TRIES)):
            try:
                self._send(step)
            except RefusedError as error:
                if error.code in _EXISTS:
                    return False
                if left and error.code == "InvalidInputException" and "AssumeRole" in str(error):
                    time.sleep(self._role_seconds)
                    continue
                raise
            # Log retention is set each time, and is not reported.
            return step.method.startswith("Create")
        raise AssertionError("unreachable")

    def _read_log(self, region: str, log: dict[str, Any]) -> None:
        """Appends the new lines of the log."""
        if not log.get("streamName"):
            return
        query = {"logGroupName": log["groupName"], "logStreamName": log["streamName"]}
        while True:
            more = {"nextToken": self._token} if self._token else {"startFromHead": True}
            try:
                page = self._aws.request("logs", region, "GetLogEvents", query | more)
            except RefusedError as error:
                if error.code in _MISSING:
                    return
                raise
            lines = [one["message"].rstrip("\n") for one in page["events"]]
            self._log += "".join(f"{line}\n" for line in lines)
            before, self._token = self._token, page["nextForwardToken"]
            if not lines or self._token == before:
                return

    def _digest(self, order: ImageBuildRequest) -> str | None:
        query = {"repositoryName": REPOSITORY, "imageIds": [{"imageTag": order.tag}]}
        try:
            found = self._aws.request("ecr", order.target.region or "", "DescribeImages", query)
        except RefusedError as error:
            if error.code in _MISSING:
                return None
            raise
        digest: str = found["imageDetails"][0]["imageDigest"]
        return digest


def _failed_phase(build: dict[str, Any]) -> str:
    """Returns the failed phase with its messages."""
    for phase in build.get("phases") or ():
        if phase.get("phaseStatus") not in (None, "SUCCEEDED"):
            messages = "; ".join(one.get("message", "") for one in phase.get("contexts") or ())
            return f"phase {phase['phaseType']} of {PROJECT}{f' ({messages})' if messages else ''}"
    return PROJECT


class ImageResourceKind(NamedTuple):
    """A kind of resource that an image build needs.

    Attributes:
        kind: Name of the kind.
        service: AWS service.
        resource: Last part of the ARN.
        deletion: Operation that deletes it.
        body: Arguments of that operation.
        rank: Deletion order.
        fee: Name in the fee table; None: free or nearly so.
    """

    kind: str
    service: str
    resource: str
    deletion: str
    body: dict[str, Any]
    rank: int = IMAGE_RANK
    fee: str | None = None


_STORED: Final = ImageResourceKind(
    "ECR repository",
    "ecr",
    f"repository/{REPOSITORY}",
    "DeleteRepository",
    {"repositoryName": REPOSITORY, "force": True},  # with all its images
    fee="ECR",
)
_LOG: Final = ImageResourceKind(
    "CloudWatch log group",
    "logs",
    f"log-group:{IMAGE_LOG}",
    "DeleteLogGroup",
    {"logGroupName": IMAGE_LOG},
)
_BUILDER: Final = ImageResourceKind(
    "CodeBuild project",
    "codebuild",
    f"project/{PROJECT}",
    "DeleteProject",
    {"name": PROJECT},
    BUILDER_RANK,
)
IMAGE_RESOURCES: Final = (_STORED, _LOG, _BUILDER)
"""In the order of listing: CodeBuild is not in all regions, and its project is created last."""


class ImageResources(UnplannedHandler):
    """Handler of one kind of image resource.

    Args:
        account: The AWS login.
        owner: Account number.
        kind: The kind.
    """

    def __init__(self, account: Account, owner: str, kind: ImageResourceKind) -> None:
        self._account, self._owner, self._kind = account, owner, kind
        self.kind = kind.kind

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of the resource in a region."""
        region, kind = name.partition("/")[0], self._kind
        labels = self._labels(region)
        if labels is None:
            return None
        return Resource(
            kind=kind.kind,
            name=f"{region}/{kind.resource}",
            state="ready",
            labels=labels,
            region=region,
            deletion_order=kind.rank,
            fee=kind.fee,
            is_free=kind.fee is None,
        )

    def delete(self, name: str) -> None:
        """Deletes the resource in a region."""
        region, kind = name.partition("/")[0], self._kind
        request_if_exists(self._account, kind.service, region, kind.deletion, **kind.body)

    def _labels(self, region: str) -> dict[str, str] | None:
        """Returns its tags, which each service formats differently; None if absent."""
        service = self._kind.service
        if self._kind is _BUILDER:
            query = {"names": [PROJECT]}
            found = self._account.request(service, region, "BatchGetProjects", query)["projects"]
            tags = found[0].get("tags", []) if found else None
        else:
            arn = f"arn:aws:{service}:{region}:{self._owner}:{self._kind.resource}"
            which = {"resourceArn": arn}
            answer = request_if_exists(
                self._account, service, region, "ListTagsForResource", **which
            )
            tags = answer.get("tags", []) if answer is not None else None
        if tags is None or isinstance(tags, dict):
            return tags
        pairs = ({name.lower(): value for name, value in one.items()} for one in tags)
        return {one["key"]: one["value"] for one in pairs}


def list_image_resources(
    handlers: Iterable[ImageResources],
    regions: Iterable[str],
    pool: Executor,
    say: Callable[[str], None],
    silent: list[str],
) -> list[Resource]:
    """Lists the resources with these names in regions; missing permissions yield none.

    A region that does not answer is added to `silent`.
    """
    handlers, refused = tuple(handlers), {}

    def listed(region: str) -> list[Resource]:
        try:
            return list(_listed_in(region, handlers))
        except CredentialsError as error:
            refused[region] = error
        except LaunchError as error:
            silent.append(f"{region} ({error})")
        return []

    found = [one for many in pool.map(listed, regions) for one in many]
    if refused:
        first = min(refused)
        say(f"cannot list images in {', '.join(sorted(refused))}: {refused[first]}")
    return found


def _listed_in(region: str, handlers: Iterable[ImageResources]) -> Iterator[Resource]:
    has_any = False
    for handler in handlers:
        if handler.kind == _BUILDER.kind and not has_any:
            return
        found = handler.refresh(f"{region}/")
        if found:
            has_any = True
            yield found
