"""`CloudClient`: the operations on one cloud account that launch, check and doctor use.

A client handles single resources, by the rows of its cloud. `clouds.engine` decides order and repetition.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.clouds.resource import Finding, Listing, Resource
from cloudgan.launch.clouds.rows import BusyError, Kind, Transport, resolve
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.schema.plan import Plan, Step, Target


class CloudClient(ABC):
    """One account of one cloud.

    All methods retry transient failures and throttling. They raise `CredentialsError` for a missing
    login or a missing permission, and `LaunchError` when the cloud does not respond.

    Args:
        references: What ``$ref`` markers stand for: by name, a function of the step.
        poll_seconds: Interval between two requests while the cloud is busy.
        busy_seconds: Limit for such repetitions.
    """

    def __init__(
        self,
        transport: Transport,
        kinds: Iterable[Kind],
        say: Callable[[str], None] = lambda _: None,
        *,
        references: Mapping[str, Callable[[Step], Any]] | None = None,
        poll_seconds: float = 5.0,
        busy_seconds: float = 900.0,
    ) -> None:
        self.transport, self.kinds = transport, {one.name: one for one in kinds}
        self._say, self._references = say, references or {}
        self._poll_seconds, self._busy_seconds = poll_seconds, busy_seconds

    @classmethod
    @abstractmethod
    def open(cls, target: Target, say: Callable[[str], None] = lambda _: None) -> CloudClient:
        """Opens the account of a target with the login that the cloud's SDK finds."""

    @abstractmethod
    def identify(self) -> Mapping[str, str]:
        """Returns the login, such as {"project": ..., "who": ...}.

        A key that names a placeholder, such as project for ``<project>``, holds its value.
        """

    @abstractmethod
    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        """Returns the plan's placeholders with their values, such as {"<project>": "lab-1"}."""

    @abstractmethod
    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        """Checks login, APIs, permissions and quota of a plan, or of an account in a region; creates nothing."""

    @abstractmethod
    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        """Lists the resources with cloudgan's labels, or with those of one run, in some regions or all.

        A place or service that does not answer is in `silent` of the result; the others are listed.
        """

    @abstractmethod
    def cluster_api(self, target: Target) -> ClusterApi | None:
        """Returns the Kubernetes API of a target's cluster, which renews its token; None: no ready cluster."""

    def job_backend(self, plan: Plan) -> JobBackend | None:
        """Returns the backend of a plan that runs outside Kubernetes; None: the plan is for a cluster."""
        del plan
        return None

    def find(self, step: Step) -> Resource | None:
        """Returns the resource of a step, even an unmanaged one; None if absent."""
        kind = self._kind(str(step.kind))
        if kind.find:
            return kind.find(self.transport, step)
        name = kind.name_of(step.ref)
        body = self.transport.get(kind, name)
        if body is None or not kind.accepts(self.transport, step, body):
            return None
        return kind.explain(self.transport, kind.resource(name, body), body)

    def create(self, step: Step) -> None:
        """Sends a step's request with its markers resolved; waits while another operation runs."""
        kind = self._kind(str(step.kind))
        send = kind.create or (lambda transport, *given: transport.create(kind, *given))
        limit = self._busy_seconds if kind.busy_seconds is None else kind.busy_seconds
        began, has_said = monotonic_seconds(), False
        while True:
            try:
                body = resolve(step.body, lambda name: self._value(name, step))
                send(self.transport, step, body)
            except BusyError as error:
                if monotonic_seconds() - began > limit:
                    raise LaunchError(
                        f"{step.ensure} was not accepted within {limit:.0f} s: {error}"
                    ) from error
                if not has_said:
                    self._say(f"{step.ensure} waits: {error}")
                has_said = True
                time.sleep(self._poll_seconds)
            else:
                return

    def delete(self, resource: Resource) -> None:
        """Requests deletion; an absent resource is no error."""
        kind = self._kind(resource.kind)
        if kind.is_deletable:
            kind.before_delete(self.transport, resource)
            self.transport.delete(kind, resource.name)

    def refresh(self, resource: Resource) -> Resource | None:
        """Returns the current state of a resource; None if it is gone."""
        return self.get(self._kind(resource.kind), resource.name)

    def get(self, kind: Kind, name: str) -> Resource | None:
        """Returns a resource by kind and full name, with the reason of a delay or failure."""
        body = self.transport.get(kind, name)
        return kind.explain(self.transport, kind.resource(name, body), body) if body else None

    def _kind(self, name: str) -> Kind:
        if name not in self.kinds:
            raise LaunchError(f"this cloud has no resources of the kind {name!r}")
        return self.kinds[name]

    def _value(self, name: str, step: Step) -> Any:
        if name not in self._references:
            raise LaunchError(f"{step.ensure}: this cloud has no value called {name!r}")
        return self._references[name](step)
