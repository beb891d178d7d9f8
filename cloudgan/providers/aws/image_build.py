"""Builds an image by CodeBuild into ECR."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cloudgan.core.image_order import Build
from cloudgan.providers.aws.account import Account, session_of
from cloudgan.providers.aws.image_requests import (
    PROJECT,
    REPOSITORY,
    build_step,
    builder_steps,
    repository_step,
)
from cloudgan.providers.aws.refusal import RefusedError
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.image_order import ImageOrder
    from cloudgan.core.plan import Place, Step
    from cloudgan.stores import Store

_THERE = frozenset(
    {
        "EntityAlreadyExists",
        "RepositoryAlreadyExistsException",
        "ResourceAlreadyExistsException",
    }
)
_MISSING = frozenset({"ImageNotFoundException", "ResourceNotFoundException"})
_ROLE_SECONDS, _ROLE_TRIES = 5.0, 12
"""A role that was made just now is not known everywhere at once."""


class AwsImageBuilder:
    """Fulfils `launching.image_building.ImageBuilder`.

    Args:
        aws: Sends requests.
        account: Its number.
        store: Opens the bucket of a URL.
        role_seconds: Between two tries while a new role is not known yet.
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
    def open(cls, place: Place) -> AwsImageBuilder:
        """Opens the account of a login.

        Raises:
            CredentialsError: There is none.
        """
        aws = Account(session_of(place.profile, place.region))
        who = aws.ask("sts", place.region or "us-east-1", "GetCallerIdentity")
        return cls(aws, who["Account"])

    def make(self, order: ImageOrder) -> Iterator[str]:
        """Ensures the repository, and the builder with its role and log."""
        for step in (repository_step(order), *builder_steps(order)):
            if self._send_unless_there(step):
                yield step.ensure

    def begin(self, order: ImageOrder, archive: bytes) -> str:
        """Uploads the context to the bucket and starts the build."""
        self._open(order.store).put(order.object_name("zip"), archive)
        self._log, self._token = "", ""
        build: str = self._send(build_step(order))["build"]["id"]
        return build

    def look(self, order: ImageOrder, build: str) -> Build:
        """Returns how a build is doing."""
        region = order.place.region or ""
        found = self._aws.ask("codebuild", region, "BatchGetBuilds", {"ids": [build]})["builds"][0]
        self._read_log(region, found.get("logs") or {})
        status = found["buildStatus"]
        if status == "IN_PROGRESS":
            return Build("running", self._log)
        if status != "SUCCEEDED":
            return Build("failed", self._log, f"{status} in {_where(found)}")
        return Build("done", self._log, digest=self._digest(order))

    def _send(self, step: Step) -> dict[str, Any]:
        service, _, region = step.path.partition("/")
        body = step.body if isinstance(step.body, dict) else {}
        return self._aws.ask(service, region, step.method, body)

    def _send_unless_there(self, step: Step) -> bool:
        for left in reversed(range(_ROLE_TRIES)):
            try:
                self._send(step)
            except RefusedError as error:
                if error.code in _THERE:
                    return False
                if left and error.code == "InvalidInputException" and "AssumeRole" in str(error):
                    time.sleep(self._role_seconds)
                    continue
                raise
            # A policy and how long logs are kept are said anew each time, and are no news.
            return step.method.startswith("Create")
        raise AssertionError("unreachable")

    def _read_log(self, region: str, where: dict[str, Any]) -> None:
        """Adds what the log has more than at the last look."""
        if not where.get("streamName"):
            return
        asked = {"logGroupName": where["groupName"], "logStreamName": where["streamName"]}
        while True:
            more = {"nextToken": self._token} if self._token else {"startFromHead": True}
            try:
                page = self._aws.ask("logs", region, "GetLogEvents", asked | more)
            except RefusedError as error:
                if error.code in _MISSING:
                    return
                raise
            lines = [one["message"].rstrip("\n") for one in page["events"]]
            self._log += "".join(f"{line}\n" for line in lines)
            before, self._token = self._token, page["nextForwardToken"]
            if not lines or self._token == before:
                return

    def _digest(self, order: ImageOrder) -> str | None:
        asked = {"repositoryName": REPOSITORY, "imageIds": [{"imageTag": order.tag}]}
        try:
            found = self._aws.ask("ecr", order.place.region or "", "DescribeImages", asked)
        except RefusedError as error:
            if error.code in _MISSING:
                return None
            raise
        digest: str = found["imageDetails"][0]["imageDigest"]
        return digest


def _where(build: dict[str, Any]) -> str:
    """The phase that failed, with what it said."""
    for phase in build.get("phases") or ():
        if phase.get("phaseStatus") not in (None, "SUCCEEDED"):
            said = "; ".join(one.get("message", "") for one in phase.get("contexts") or ())
            return f"phase {phase['phaseType']} of {PROJECT}{f' ({said})' if said else ''}"
    return PROJECT
