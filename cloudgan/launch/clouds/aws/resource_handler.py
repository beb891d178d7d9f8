"""Common base of the handlers of AWS resource kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from cloudgan.launch.clouds.aws.error_mapping import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Step
    from cloudgan.schema.resource import Resource

POOL_RANK, ORPHAN_RANK, PART_RANK = 10, 20, 55
CLUSTER_RANK, END_RANK, BUCKET_RANK, ROLE_RANK, BOUNDARY_RANK = 58, 59, 60, 70, 75

_EXISTS: Final = frozenset(
    {
        "BucketAlreadyOwnedByYou",
        "EntityAlreadyExists",
        "InvalidLaunchTemplateName.AlreadyExistsException",
        "ResourceInUseException",
    }
)
GONE: Final = frozenset(
    {
        "404",
        "InvalidCapacityReservationId.NotFound",
        "InvalidGroup.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidNetworkInterfaceID.NotFound",
        "InvalidVolume.NotFound",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "ResourceNotFoundException",
    }
)


class ResourceHandler(Protocol):
    """Finds, creates, refreshes and deletes the resources of one kind by name."""

    kind: str

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step, if it exists."""

    def create(self, step: Step) -> None:
        """Sends a step's request."""

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""

    def delete(self, name: str) -> None:
        """Requests deletion; an absent resource is no error."""


class PlannedHandler(ABC):
    """Handler of resources that plan steps create."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step, if it exists."""
        return self.refresh(str(step.find))

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        send(self._account, step)

    @abstractmethod
    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""


class UnplannedHandler:
    """Handler of resources that no plan step creates: lists and deletes them."""

    def find(self, step: Step) -> Resource | None:
        """Returns None."""
        del step
        return None

    def create(self, step: Step) -> None:
        """Does nothing."""
        del step


def send(account: Account, step: Step, body: Mapping[str, Any] | None = None) -> None:
    """Sends a step's request; an existing resource, as after a lost response, is no error."""
    service, _, region = step.path.partition("/")
    sent = body if body is not None else step.body
    try:
        account.request(service, region, step.method, sent if isinstance(sent, dict) else {})
    except RefusedError as error:
        if error.code not in _EXISTS or not step.method.startswith("Create"):
            raise


def request_if_exists(
    account: Account, service: str, region: str, operation: str, **body: Any
) -> dict[str, Any] | None:
    """Sends a request; returns None if its resource does not exist."""
    try:
        return account.request(service, region, operation, body)
    except RefusedError as error:
        if error.code in GONE:
            return None
        raise


def tags_of(listed: list[dict[str, str]] | None) -> dict[str, str]:
    """Converts a list of key-value pairs to a dict."""
    return {one["Key"]: one["Value"] for one in listed or ()}
