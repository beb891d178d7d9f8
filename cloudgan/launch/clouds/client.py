"""`CloudClient`: the operations on one cloud account that launch, check and doctor use.

A client handles single resources. `clouds.engine` decides order and repetition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.schema.plan import Plan, Step, Target
from cloudgan.schema.resource import Finding, Listing, Resource


class Cloud(Protocol):
    """Single resources of one account. All methods retry transient failures and throttling."""

    def find(self, step: Step) -> Resource | None:
        """Returns the resource with the name in a step, even an unmanaged one; None if absent."""

    def create(self, step: Step) -> None:
        """Sends a step's request; returns when the cloud has accepted it. An existing resource is no error."""

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists the resources with cloudgan's labels, or with those of one run.

        A place or service that does not answer is in `silent` of the result; the others are listed.

        Args:
            run: Name of a run; None: of all, and what no run owns.
            regions: The regions of interest; None: all.
        """

    def delete(self, resource: Resource) -> None:
        """Requests deletion; an absent resource is no error. The engine repeats what is refused."""

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""


class CloudClient(Cloud, Protocol):
    """One account of one cloud.

    All methods retry transient failures and throttling. They raise `CredentialsError` for a missing
    login or a missing permission, and `LaunchError` when the cloud does not respond.
    """

    def identify(self) -> Mapping[str, str]:
        """Returns the login, such as {"project": ..., "who": ...}.

        A key that names a placeholder, such as project for ``<project>``, holds its value.
        """

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns the plan's placeholders with their values, such as {"<project>": "lab-1"}."""

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, APIs, permissions and, for a plan, quota; creates nothing.

        Args:
            plan: The plan to check; None: the account in general.
            region: The region to check without a plan.
        """

    def cluster_api(self, target: Target) -> ClusterApi | None:
        """Returns the Kubernetes API of a target's cluster, or None without a cluster.

        The API renews its own token.
        """

    def job_backend(self, plan: Plan) -> JobBackend | None:
        """Returns the backend of a plan that runs outside Kubernetes, or None for a cluster plan."""
