"""The clouds by name: each as pure rules, which need no SDK, and as a client, which does."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.plan import CLOUDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.plan import Place, Plan, Rental, Step, Workers
    from cloudgan.core.price_row import Market


@dataclass(frozen=True)
class Wanted:
    """What is to be rented, before it is known what that means in a cloud.

    Attributes:
        run: Name of the run.
        spec: Digits of what was asked.
        node_type: As the price list calls it.
        market: Of the nodes.
        nodes: How many.
        flex_start: Whether the nodes may be waited for at a lower price.
        keep_cluster: Whether a cluster that was made stays.
        has_own_image: Whether `--image` was given.
    """

    run: str
    spec: str
    node_type: str
    market: Market
    nodes: int
    flex_start: bool = False
    keep_cluster: bool = False
    has_own_image: bool = False


class CloudRules(Protocol):
    """What is true of a cloud without asking it: the functions of ``providers/NAME/requests.py``."""

    def place(
        self, account: str | None, region: str, zone: str | None, cluster: str | None
    ) -> Place:
        """Returns a place in this cloud, with ``<...>`` for what only the cloud knows."""

    def rental(self, wanted: Wanted) -> Rental:
        """Returns what is rented.

        Raises:
            PlanError: This cloud, or TensorFlow on it, cannot serve it: one sentence why, and what
                can.
        """

    def workers(self, workers: Workers, rental: Rental) -> Workers:
        """Returns the workers as nodes of this kind take them: accelerators, taints, labels, grace."""

    def store(self, place: Place) -> str:
        """Returns the URL of the account's own bucket in the place's region."""

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns what is ensured before the cluster's own objects; pure.

        In this order: the bucket, the intent (at the store), the cluster, the pool, and what the
        cluster needs for its accelerators.
        """

    def setup_steps(self, place: Place) -> tuple[Step, ...]:
        """Returns what an account needs once in a region, whichever run comes; pure.

        Bucket, identities and their rights, in the order in which they are made. No run owns them:
        they carry the label ``cloudgan-shared``, or the prefix ``cloudgan-`` where they can carry
        none. `Cloud.things` lists them with a rank of 60 at least, `Cloud.delete` removes them.
        """


HOME_REGIONS: Mapping[str, str] = {"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}
"""A region for questions that are the same in all of them, such as what exists."""

_ZONES = {"aws": r"(?<=[0-9])[a-z]$", "azure": r"-[0-9]$", "gcp": r"-[a-z]$"}
"""What a zone's name has after that of its region, such as a in us-east-1a."""


def region_of(provider: str, where: str) -> str:
    """Returns the region of a zone; a region as it is."""
    return re.sub(_ZONES[provider], "", where)


def of_login(place: Place, who: Mapping[str, str]) -> Place:
    """Returns a place with what a login told of itself for its placeholders.

    Args:
        place: Such as one of project ``<project>``.
        who: As `Cloud.identify` tells it, such as {"project": "lab-1"}.
    """
    told = {
        key: next((who[name] for name in who if value == f"<{name}>"), value)
        for key, value in place.model_dump().items()
    }
    return place.model_validate(told)


_MODULES = {name: f"cloudgan.providers.{name}.requests" for name in CLOUDS}
_CLIENTS = {"aws": "AwsCloud", "azure": "AzureCloud", "gcp": "GcpCloud"}


def rules(name: str) -> CloudRules:
    """Returns what is true of a cloud without asking it.

    Raises:
        UnknownNameError: There is no such cloud.
    """
    if name not in _MODULES:
        raise UnknownNameError("cloud", name, _MODULES)
    return cast("CloudRules", importlib.import_module(_MODULES[name]))


def open_cloud(place: Place, say: Callable[[str], None] = lambda _: None) -> Any:
    """Opens the cloud of a place with the login that its SDK finds.

    Returns:
        A `launching.cloud.Cloud`.

    Raises:
        ConfigError: Its SDK is not installed.
        CredentialsError: No login was found; says which to make.
    """
    try:
        module = importlib.import_module(f"cloudgan.providers.{place.provider}.cloud")
    except ImportError as error:
        raise ConfigError(
            f"--provider={place.provider} needs this cloud's SDK, which is not installed ({error});"
            f" type: pip install 'cloudgan[{place.provider}]'"
        ) from error
    return getattr(module, _CLIENTS[place.provider]).open(place, say)


@dataclass(frozen=True)
class Clouds:
    """The clouds that a command knows: those that are built in, or others in their place.

    Attributes:
        rules: Returns what is true of a cloud, by its name.
        open: Opens the cloud of a place, which tells what it waits for.
        poll_seconds: Between two looks at what is made or removed.
    """

    rules: Callable[[str], CloudRules] = rules
    open: Callable[..., Any] = open_cloud
    poll_seconds: float = 5.0


BUILT_IN = Clouds()


def built_in() -> Clouds:
    """Returns the clouds that commands know unless they are given others."""
    return BUILT_IN
