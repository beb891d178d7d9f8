"""What `cloudgan image` made in each region: the repository, the builder and its log.

Each is asked for its tags by its own name; one of that name without our tag is somebody else's.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_TagResource.html (read
2026-11-21) writes the full name of a log group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudgan.core.errors import CredentialsError
from cloudgan.core.thing import Thing
from cloudgan.providers.aws.image_requests import LOG_GROUP, PROJECT, REPOSITORY
from cloudgan.providers.aws.kind import BUILDER_RANK, IMAGE_RANK, UnplannedKind, ask_if_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from cloudgan.providers.aws.account import Account


class Part(NamedTuple):
    """One kind of them.

    Attributes:
        kind: In AWS' words.
        service: Whose it is.
        resource: How its full name ends; it also keeps ours apart from the cluster's.
        deletion: The operation.
        body: Of that one.
        rank: Of the thing.
        fee: What the fee list would call it; None: it costs nothing, or next to it.
    """

    kind: str
    service: str
    resource: str
    deletion: str
    body: dict[str, Any]
    rank: int = IMAGE_RANK
    fee: str | None = None


_STORED: Final = Part(
    "ECR repository",
    "ecr",
    f"repository/{REPOSITORY}",
    "DeleteRepository",
    {"repositoryName": REPOSITORY, "force": True},  # with all images that are in it
    fee="ECR",
)
_LOG: Final = Part(
    "CloudWatch log group",
    "logs",
    f"log-group:{LOG_GROUP}",
    "DeleteLogGroup",
    {"logGroupName": LOG_GROUP},
)
_BUILDER: Final = Part(
    "CodeBuild project",
    "codebuild",
    f"project/{PROJECT}",
    "DeleteProject",
    {"name": PROJECT},
    BUILDER_RANK,
)
PARTS: Final = (_STORED, _LOG, _BUILDER)
"""As they are listed: CodeBuild is not in all regions, and made after the others."""


class ImagePart(UnplannedKind):
    """One kind of them in an account.

    Args:
        account: That is asked.
        owner: Its number.
        part: The kind.
    """

    def __init__(self, account: Account, owner: str, part: Part) -> None:
        self._account, self._owner, self._part = account, owner, part
        self.kind = part.kind

    def look(self, name: str) -> Thing | None:
        """Returns that of a region as it is now."""
        region, part = name.partition("/")[0], self._part
        labels = self._labels(region)
        if labels is None:
            return None
        return Thing(
            kind=part.kind,
            name=f"{region}/{part.resource}",
            state="ready",
            labels=labels,
            region=region,
            rank=part.rank,
            fee=part.fee,
            is_free=part.fee is None,
        )

    def delete(self, name: str) -> None:
        """Deletes that of a region."""
        region, part = name.partition("/")[0], self._part
        ask_if_there(self._account, part.service, region, part.deletion, **part.body)

    def _labels(self, region: str) -> dict[str, str] | None:
        """Its tags, which each service writes in its own way; None where there is none."""
        service = self._part.service
        if self._part is _BUILDER:
            asked = {"names": [PROJECT]}
            found = self._account.ask(service, region, "BatchGetProjects", asked)["projects"]
            tags = found[0].get("tags", []) if found else None
        else:
            arn = f"arn:aws:{service}:{region}:{self._owner}:{self._part.resource}"
            which = {"resourceArn": arn}
            told = ask_if_there(self._account, service, region, "ListTagsForResource", **which)
            tags = told.get("tags", []) if told is not None else None
        if tags is None or isinstance(tags, dict):
            return tags
        pairs = ({name.lower(): value for name, value in one.items()} for one in tags)
        return {one["key"]: one["value"] for one in pairs}


def image_things(
    parts: Iterable[ImagePart],
    regions: Iterable[str],
    pool: Executor,
    say: Callable[[str], None],
) -> list[Thing]:
    """Lists what has these names, whosever it is, in all regions.

    Who never built an image may lack the rights: no reason to hide the rest.
    """
    parts, refused = tuple(parts), {}

    def listed(region: str) -> list[Thing]:
        try:
            return list(_listed_in(region, parts))
        except CredentialsError as error:
            refused[region] = error
            return []

    found = [one for many in pool.map(listed, regions) for one in many]
    if refused:
        first = min(refused)
        say(f"images in {', '.join(sorted(refused))} were not looked at: {refused[first]}")
    return found


def _listed_in(region: str, parts: Iterable[ImagePart]) -> Iterator[Thing]:
    there = False
    for part in parts:
        if part.kind == _BUILDER.kind and not there:
            return
        found = part.look(f"{region}/")
        if found:
            there = True
            yield found
