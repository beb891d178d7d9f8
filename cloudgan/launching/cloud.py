"""What every cloud can do; launching, check and doctor know no other thing about one.

A cloud finds, makes, lists and deletes single things. When, in which order and how often is decided
once for all of them, in `making` and `removing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from cloudgan.core.labels import RUN, SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Plan, Step
    from cloudgan.core.price_row import Market
    from cloudgan.kubernetes.api import ClusterApi

ThingState = Literal["making", "ready", "leaving", "failed"]
ThingCause = Literal["", "capacity", "quota"]


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that exists in a cloud, as the cloud tells it.

    Attributes:
        kind: In the cloud's words, such as ``GKE node pool``.
        name: Full and unique, as the cloud's `delete` needs it; what follows its last slash is what
            plans and people call it.
        state: How far it is; failed: it never will be.
        labels: Its own, as they are there.
        region: Where; a zone for what is in one.
        why: The cloud's sentence on why it failed, or what it waits for.
        cause: The kind of `why`.
        rank: What has a lower one is deleted first, such as a pool before its cluster.
        made: When, ISO 8601; None is unknown.
        node_type: Of nodes, as the price list calls it.
        nodes: How many there are now; 0 for what is no machine.
        market: Of nodes.
        fee: What the fee list calls it, such as ``GKE standard``; None: it costs nothing by itself.
        parent: Name of the thing that it is in, such as a pool's cluster.
        is_free: Whether it costs nothing whatever the price list says, such as a subnet.
    """

    kind: str
    name: str
    state: ThingState
    labels: Mapping[str, str] = field(default_factory=dict)
    region: str = ""
    why: str = ""
    cause: ThingCause = ""
    rank: int = 0
    made: str | None = None
    node_type: str | None = None
    nodes: int = 0
    market: Market | None = None
    fee: str | None = None
    parent: str = ""
    is_free: bool = False

    @property
    def run(self) -> str | None:
        """Whose it is; None for what no run owns."""
        return self.labels.get(RUN)

    @property
    def shared(self) -> str | None:
        """What it is, where cloudgan made it for all runs, such as ``cluster``; else None."""
        return self.labels.get(SHARED)


class Finding(NamedTuple):
    """An answer of `check`.

    Attributes:
        subject: What was looked at, such as ``quota NVIDIA_V100_GPUS in us-central1``.
        verdict: unknown: nobody could say.
        says: What was found and, unless ok, what to type or whom to ask for what.
    """

    subject: str
    verdict: Literal["ok", "missing", "unknown"]
    says: str


class Cloud(Protocol):
    """One account of one cloud.

    All methods raise `CredentialsError` where the login is missing or may not do this, and
    `LaunchError` where the cloud stays away; they try again on passing failures and throttling.
    """

    def identify(self) -> Mapping[str, str]:
        """Returns who is logged in, for people, such as {"project": ..., "who": ...}."""

    def known(self, plan: Plan) -> Mapping[str, str]:
        """Returns what only the cloud knows, by placeholder, such as {"<project>": "lab-1"}.

        Raises:
            PlanError: This cloud cannot serve it, such as a region without this machine type.
        """

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Looks at login, APIs, rights and, for a plan, quota; makes nothing.

        Args:
            plan: For which; None: in general.
            region: Where, when there is no plan.
        """

    def find(self, step: Step) -> Thing | None:
        """Returns what a step wants, where there is something of that name, whosever it is."""

    def create(self, step: Step) -> None:
        """Sends a step's request; returns when the cloud took it, not when it is done.

        What is there already, as after a lost answer, is no error.

        Raises:
            CapacityError: No machine of this kind, or no quota; one sentence why.
            LaunchError: Refused for another reason.
        """

    def things(self, run: str | None = None) -> tuple[Thing, ...]:
        """Lists what carries cloudgan's labels, or those of one run, in all regions."""

    def delete(self, thing: Thing) -> None:
        """Asks for deletion; what is gone already is no error.

        Raises:
            LaunchError: Refused, such as while another operation runs; the caller asks again.
        """

    def look(self, thing: Thing) -> Thing | None:
        """Returns a thing as it is now; None when it is gone."""

    def cluster(self, plan: Plan) -> ClusterApi | None:
        """Returns the API of the plan's cluster, whose login renews itself; None: there is none."""
