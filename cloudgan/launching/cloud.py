"""What every cloud can do; launching, check and doctor know no other thing about one.

A cloud finds, makes, lists and deletes single things. When, in which order and how often is decided
once for all of them, in `making` and `removing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cloudgan.core.thing import Finding, Thing, ThingCause, ThingState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Plan, Step
    from cloudgan.kubernetes.api import ClusterApi


class Cloud(Protocol):
    """One account of one cloud.

    All methods raise `CredentialsError` where the login is missing or may not do this, and
    `LaunchError` where the cloud stays away; they try again on passing failures and throttling.
    """

    def identify(self) -> Mapping[str, str]:
        """Returns who is logged in, for people, such as {"project": ..., "who": ...}.

        A key that is a placeholder's name, such as project of ``<project>``, has its value.
        """

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


__all__ = ["Cloud", "Finding", "Thing", "ThingCause", "ThingState"]
