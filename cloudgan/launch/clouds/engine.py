"""The engine of the clouds: brings resources to their state and deletes them in order. Knows no cloud.

It polls until a resource is ready or gone; `client` has the single operations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    ResourcesLeftError,
    StockOutError,
)
from cloudgan.core.labels import RUN, SHARED, SPEC
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.resource import Listing, Resource
from cloudgan.schema.plan import Plan, Step

_LISTED_SECONDS: Final = 60.0
"""A new resource may be missing from the cloud's API for this long."""
_FIRST_PAUSE: Final = 1 / 16


def backoff(poll_seconds: float) -> Iterator[float]:
    """Yields poll intervals in seconds: 1/16 of `poll_seconds` at first, doubled up to the full interval."""
    pause = poll_seconds * _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, poll_seconds)


@dataclass(frozen=True)
class Engine:
    """Creates and deletes the resources of one account. Idempotent.

    Attributes:
        poll_seconds: Longest poll interval.
        gone_seconds: Limit for the deletion of one resource, rejected requests included.
        ready_seconds: Limit for the creation of others than node pools, such as a cluster.
        became_ready: Called with each resource that was not ready before `ensure`.
    """

    cloud: CloudClient
    say: Callable[[str], None] = lambda _: None
    poll_seconds: float = 5.0
    gone_seconds: float = 1800.0
    ready_seconds: float = 2400.0
    became_ready: Callable[[Resource], None] = lambda _: None

    def ensure(self, step: Step, plan: Plan | None) -> bool:
        """Creates the resource of a step unless it exists; returns whether a request was sent.

        Args:
            step: Of the plan, or of an account's setup.
            plan: None: the resource belongs to no run.

        Raises:
            CapacityError: No capacity or quota within the plan's gang timeout.
            ConfigError: A resource of this name belongs to neither this run nor all runs.
            LaunchError: The resource failed or timed out.
        """
        found = self.cloud.find(step)
        if found is not None and found.state == "deleting":
            self.say(f"{found.kind} {found.name} is still being deleted")
            self._wait_until_gone(found)
            found = None
        is_new = found is None
        if found is None:
            self.cloud.create(step)
        else:
            _refuse_foreign(found, plan)
        self._wait_until_ready(step, plan, found)
        return is_new

    def destroy(
        self,
        resources: Iterable[Resource],
        left: list[str] | None = None,
        gone: Callable[[Resource], None] = lambda _: None,
    ) -> Iterator[str]:
        """Deletes resources in deletion order, equal orders concurrently; yields kind and name of each that is gone.

        No failure, an expired login included, keeps the next ones from being deleted.

        Args:
            left: Gets the problems of the others.
            gone: Called with each resource that is gone.

        Raises:
            ResourcesLeftError: At the end, if there are others and no `left`.
        """
        problems: list[str] = [] if left is None else left
        ordered = sorted(resources, key=lambda one: (one.deletion_order, one.kind, one.name))
        for _, same in groupby(ordered, key=lambda one: one.deletion_order):
            batch = list(same)
            for resource in batch:
                with suppress(Exception):  # repeated below
                    self.cloud.delete(resource)
            for resource in batch:
                try:
                    self._delete(resource)
                except Exception as error:  # noqa: BLE001  of any class: the others may be billed
                    why = str(error)
                    what = "" if resource.name in why else f"{resource.kind} {resource.name}: "
                    problems.append(f"{what}{why}")
                else:
                    gone(resource)
                    yield f"{resource.kind} {resource.name}"
        if problems and left is None:
            raise ResourcesLeftError("; ".join(problems))

    def list(self, run: str | None = None, regions: Collection[str] | None = None) -> Listing:
        """Returns the resources that the cloud lists; `silent` if it does not answer this login."""
        try:
            return self.cloud.list_resources(run, regions)
        except (CredentialsError, LaunchError) as error:
            return Listing(silent=(str(error),))

    def _wait_until_ready(self, step: Step, plan: Plan | None, found: Resource | None) -> None:
        began, reported = monotonic_seconds(), ""
        is_pool, waits = False, backoff(self.poll_seconds)
        was_ready = found is not None and found.state == "ready"
        while found is None or found.state != "ready":
            if found is not None:
                is_pool |= found.node_type is not None  # a waiting pool has no nodes yet
                if found.state == "failed":
                    raise _failed(found, plan)
                if found.state == "deleting":
                    raise LaunchError(
                        f"{found.kind} {step.ensure} is being deleted by another client; rerun the"
                        f" command, or {_undo(plan)}"
                    )
                if found.reason and found.reason != reported:
                    reported = found.reason
                    self.say(f"{step.ensure}: {reported}")
            waited = monotonic_seconds() - began
            self._check_patience(step, plan, found, waited, is_pool=is_pool)
            time.sleep(next(waits))
            found = self.cloud.find(step)
        _refuse_foreign(found, plan)
        if not was_ready:
            self.became_ready(found)

    def _check_patience(
        self, step: Step, plan: Plan | None, found: Resource | None, waited: float, *, is_pool: bool
    ) -> None:
        if found is None:
            if waited > max(_LISTED_SECONDS, 2 * self.poll_seconds):
                raise LaunchError(
                    f"{step.ensure} was requested and does not appear; delete what may exist:"
                    f" {_undo(plan)}"
                )
            return
        limit = plan.limits.gang_timeout_seconds if plan and is_pool else self.ready_seconds
        if waited <= limit:
            return
        why = f": {found.reason}" if found.reason else ""
        if is_pool:
            raise StockOutError(f"{step.ensure} was not ready within {limit:.0f} s{why}")
        raise LaunchError(
            f"{step.ensure} was not ready within {limit:.0f} s{why}; delete it: {_undo(plan)}"
        )

    def _delete(self, resource: Resource) -> None:
        """Repeats the request while it is refused, such as during another operation."""
        began, reported, waits = monotonic_seconds(), False, backoff(self.poll_seconds)
        while (now := self.cloud.refresh(resource)) is not None:
            if now.state == "deleting":
                self._wait_until_gone(resource)
                return
            is_late = monotonic_seconds() - began > self.gone_seconds
            try:
                self.cloud.delete(resource)
            except LaunchError as error:
                if is_late:
                    raise
                if not reported:
                    reported = True
                    self.say(f"{resource.kind} {resource.name} cannot be deleted yet: {error}")
            if is_late:
                raise LaunchError(
                    f"{resource.kind} {resource.name} is not deleted after {self.gone_seconds:.0f} s"
                )
            time.sleep(next(waits))

    def _wait_until_gone(self, resource: Resource) -> None:
        began, waits = monotonic_seconds(), backoff(self.poll_seconds)
        while self.cloud.refresh(resource) is not None:
            if monotonic_seconds() - began > self.gone_seconds:
                raise LaunchError(
                    f"{resource.kind} {resource.name} is still being deleted after"
                    f" {self.gone_seconds:.0f} s; check it in the cloud's console, then run: cloudgan"
                    " doctor"
                )
            time.sleep(next(waits))


def _refuse_foreign(found: Resource, plan: Plan | None) -> None:
    if SHARED in found.labels:
        return
    if plan and plan.node_run != plan.run and found.labels.get(RUN) == plan.node_run:
        return  # nodes that an earlier run kept for this one
    if plan and found.labels.get(RUN) == plan.run:
        spec = found.labels.get(SPEC)
        if spec and spec != plan.spec_hash:
            raise ConfigError(
                f"run {plan.run} was started with other settings; give another --name, or delete"
                f" it first: cloudgan down {plan.run}"
            )
        return
    if found.may_be_foreign:
        return  # an existing cluster or bucket: used, never deleted
    raise ConfigError(
        f"{found.kind} {found.name} exists but is not managed by cloudgan; it is unchanged. Give"
        " another --name"
    )


def _failed(found: Resource, plan: Plan | None) -> LaunchError:
    kind = {"capacity": StockOutError, "quota": CapacityError}.get(found.cause, LaunchError)
    return kind(
        f"{found.kind} {found.name} failed: {found.reason or 'no reason reported'}",
        hint=f"delete the rest: {_undo(plan)}",
    )


def _undo(plan: Plan | None) -> str:
    if plan is None:
        return "cloudgan setup --teardown with the same flags"
    return f"cloudgan down {plan.run}"


def check_gone(run: str, left: Sequence[str], silent: Sequence[str]) -> None:
    """Checks that all resources of a run are known to be gone."""
    if not left and not silent:
        return
    what = [*left, *((no_answer(silent),) if silent else ())]
    raise ResourcesLeftError(
        f"{'; '.join(what)}. Resources of run {run} are left there, or may be, and bill: run `cloudgan"
        f" down {run}` again, then `cloudgan doctor`"
    )


def no_answer(silent: Iterable[str]) -> str:
    """Returns the sentence about what a cloud could not list."""
    return f"no answer from {', '.join(dict.fromkeys(silent))}"
