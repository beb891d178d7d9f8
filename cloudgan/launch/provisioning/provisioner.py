"""Creates and deletes cloud resources and polls until they are ready or gone. Idempotent."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

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
from cloudgan.schema.resource import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from cloudgan.launch.clouds.client import CloudClient
    from cloudgan.schema.plan import Plan, Step
    from cloudgan.schema.resource import Resource


_FIRST: Final = 1 / 16


def backoff(poll_seconds: float) -> Iterator[float]:
    """Yields poll intervals in seconds: 1/16 of `poll_seconds` at first, doubled up to the full interval."""
    pause = poll_seconds * _FIRST
    while True:
        yield pause
        pause = min(2 * pause, poll_seconds)


_LISTED_SECONDS = 60.0
"""A new resource may be missing from the cloud's API for this long."""


@dataclass(frozen=True)
class Provisioner:
    """Ensures the steps of a plan.

    Attributes:
        cloud: Cloud client.
        say: Progress callback.
        poll_seconds: Longest poll interval.
        timeout_seconds: For resources other than node pools, such as a cluster.
        became_ready: Called with each resource that was not ready before `ensure`.
    """

    cloud: CloudClient
    say: Callable[[str], None]
    poll_seconds: float = 5.0
    timeout_seconds: float = 2400.0
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
            self._wait_until_gone(found)
            found = None
        if found is None:
            self.cloud.create(step)
            self._wait_until_ready(step, plan, None)
            return True
        _refuse_foreign(found, plan)
        self._wait_until_ready(step, plan, found)
        return False

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
        limit = plan.limits.gang_timeout_seconds if plan and is_pool else self.timeout_seconds
        if waited <= limit:
            return
        why = f": {found.reason}" if found.reason else ""
        if is_pool:
            raise StockOutError(f"{step.ensure} was not ready within {limit:.0f} s{why}")
        raise LaunchError(
            f"{step.ensure} was not ready within {limit:.0f} s{why}; delete it: {_undo(plan)}"
        )

    def _wait_until_gone(self, resource: Resource) -> None:
        self.say(f"{resource.kind} {resource.name} is still being deleted")
        wait_until_gone(self.cloud, resource, self.poll_seconds, self.timeout_seconds)


def wait_until_gone(
    cloud: CloudClient, resource: Resource, poll_seconds: float, timeout_seconds: float
) -> None:
    """Waits until a resource that is being deleted is gone.

    Raises:
        LaunchError: It still exists after `timeout_seconds`.
    """
    began, waits = monotonic_seconds(), backoff(poll_seconds)
    while cloud.refresh(resource) is not None:
        if monotonic_seconds() - began > timeout_seconds:
            raise LaunchError(
                f"{resource.kind} {resource.name} is still being deleted after {timeout_seconds:.0f} s;"
                " check it in the cloud's console, then run: cloudgan doctor"
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
    if found.deletion_order >= UNMANAGED_FROM:
        return  # an existing cluster or bucket: used, never deleted
    raise ConfigError(
        f"{found.kind} {found.name} exists but is not managed by cloudgan; it is unchanged. Give"
        " another --name"
    )


UNMANAGED_FROM = 50
"""Deletion order from which resources may be unmanaged: clusters, buckets, groups."""


def _failed(found: Resource, plan: Plan | None) -> LaunchError:
    kind = {"capacity": StockOutError, "quota": CapacityError}.get(found.cause, LaunchError)
    return kind(
        f"{found.kind} {found.name} failed: {found.reason or 'no reason reported'}; delete the rest:"
        f" {_undo(plan)}"
    )


def _undo(plan: Plan | None) -> str:
    return f"cloudgan down {plan.run}" if plan else "cloudgan setup --teardown"


@dataclass(frozen=True)
class Destroyer:
    """Deletes resources and polls until they are gone.

    Attributes:
        cloud: Cloud client.
        say: Progress callback.
        poll_seconds: Longest poll interval.
        timeout_seconds: For one resource, rejected requests included.
    """

    cloud: CloudClient
    say: Callable[[str], None]
    poll_seconds: float = 5.0
    timeout_seconds: float = 1800.0

    def destroy(self, resources: Iterable[Resource]) -> Iterator[str]:
        """Deletes resources in deletion order, equal orders concurrently; yields each when gone.

        Raises:
            ResourcesLeftError: At least one resource remains; the others are deleted.
        """
        left: list[str] = []
        yield from self.attempt(resources, left)
        if left:
            raise ResourcesLeftError("; ".join(left))

    def attempt(self, resources: Iterable[Resource], left: list[str]) -> Iterator[str]:
        """Deletes resources like `destroy`; adds those that remain to `left`, with the reason."""
        ordered = sorted(
            resources, key=lambda resource: (resource.deletion_order, resource.kind, resource.name)
        )
        for _, same in groupby(ordered, key=lambda resource: resource.deletion_order):
            batch = list(same)
            for resource in batch:
                with suppress(Exception):  # retried below
                    self.cloud.delete(resource)
            for resource in batch:
                what = f"{resource.kind} {resource.name}"
                try:
                    self._until_gone(resource)
                except Exception as error:  # noqa: BLE001  of any class: the others may be billed
                    why = str(error)
                    left.append(why if resource.name in why else f"{what}: {why}")
                    continue
                yield what

    def _until_gone(self, resource: Resource) -> None:
        """Retries while the deletion is rejected, such as during another operation."""
        began, reported, waits = monotonic_seconds(), False, backoff(self.poll_seconds)
        while True:
            now = self.cloud.refresh(resource)
            if now is None:
                return
            if now.state == "deleting":
                wait_until_gone(self.cloud, resource, self.poll_seconds, self.timeout_seconds)
                return
            try:
                self.cloud.delete(resource)
            except LaunchError as error:
                if monotonic_seconds() - began > self.timeout_seconds:
                    raise
                if not reported:
                    reported = True
                    self.say(f"{resource.kind} {resource.name} cannot be deleted yet: {error}")
            if monotonic_seconds() - began > self.timeout_seconds:
                raise LaunchError(
                    f"{resource.kind} {resource.name} is not deleted after {self.timeout_seconds:.0f} s"
                )
            time.sleep(next(waits))


def list_known(cloud: CloudClient, run: str | None, regions: Collection[str] | None) -> Listing:
    """Returns the resources that a cloud lists; they are unknown if it does not answer this login."""
    try:
        return cloud.list_resources(run, regions)
    except (CredentialsError, LaunchError) as error:
        return Listing(silent=(str(error),))


def check_gone(run: str, left: Sequence[str], silent: Sequence[str]) -> None:
    """Checks that all resources of a run are known to be gone.

    Raises:
        ResourcesLeftError: Some are left, or may be where the cloud did not answer.
    """
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
