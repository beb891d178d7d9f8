"""What the kinds of things in AWS have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from cloudgan.providers.aws.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Step
    from cloudgan.core.thing import Thing
    from cloudgan.providers.aws.account import Account

POOL_RANK, LEFTOVER_RANK, PART_RANK = 10, 20, 55
CLUSTER_RANK, BUCKET_RANK, BUILDER_RANK, IMAGE_RANK, ROLE_RANK = 58, 60, 62, 65, 70

_THERE: Final = frozenset(
    {"ResourceInUseException", "BucketAlreadyOwnedByYou", "EntityAlreadyExists"}
)
GONE: Final = frozenset(
    {
        "404",
        "InvalidGroup.NotFound",
        "InvalidNetworkInterfaceID.NotFound",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "RepositoryNotFoundException",
        "ResourceNotFoundException",
    }
)


class Kind(Protocol):
    """One kind of thing: found, made, looked at and deleted by its name."""

    kind: str

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where it is there."""

    def create(self, step: Step) -> None:
        """Sends a step's request."""

    def look(self, name: str) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""

    def delete(self, name: str) -> None:
        """Asks for deletion; what is gone already is no error."""


class PlannedKind(ABC):
    """What steps of plans make, each under the name that the step finds it by."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where it is there."""
        return self.look(str(step.find))

    def create(self, step: Step) -> None:
        """Sends a step's request."""
        send(self._account, step)

    @abstractmethod
    def look(self, name: str) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""


class UnplannedKind:
    """What no step of a plan makes: it is only listed and deleted."""

    def find(self, step: Step) -> Thing | None:
        """Returns none."""
        del step
        return None

    def create(self, step: Step) -> None:
        """Does nothing."""
        del step


def send(account: Account, step: Step, body: Mapping[str, Any] | None = None) -> None:
    """Sends a step's request; what is there already, as after a lost answer, is no error."""
    service, _, region = step.path.partition("/")
    sent = body if body is not None else step.body
    try:
        account.ask(service, region, step.method, sent if isinstance(sent, dict) else {})
    except RefusedError as error:
        if error.code not in _THERE or not step.method.startswith("Create"):
            raise


def ask_if_there(
    account: Account, service: str, region: str, operation: str, **body: Any
) -> dict[str, Any] | None:
    """Sends a request; None where what it asks about, or for the end of, is not there."""
    try:
        return account.ask(service, region, operation, body)
    except RefusedError as error:
        if error.code in GONE:
            return None
        raise


def tags_of(listed: list[dict[str, str]] | None) -> dict[str, str]:
    """Returns tags that a service lists as pairs."""
    return {one["Key"]: one["Value"] for one in listed or ()}
