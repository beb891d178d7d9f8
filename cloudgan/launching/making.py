"""Makes one thing in a cloud and waits until it is there; again is safe at every point."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CapacityError, ConfigError, LaunchError
from cloudgan.core.labels import RUN, SHARED, SPEC
from cloudgan.launching.pauses import pauses

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan, Step
    from cloudgan.launching.cloud import Cloud, Thing

_LISTED_SECONDS = 60.0
"""A cloud may not show for a while what it has just taken."""


@dataclass(frozen=True)
class Maker:
    """Ensures single steps of plans.

    Attributes:
        cloud: That is asked.
        say: Is told what is waited for, once each.
        poll_seconds: Between two looks; the first ones follow sooner.
        most_seconds: For what is no pool of nodes, such as a cluster.
    """

    cloud: Cloud
    say: Callable[[str], None]
    poll_seconds: float = 5.0
    most_seconds: float = 2400.0

    def ensure(self, step: Step, plan: Plan | None) -> bool:
        """Makes what a step wants unless it is there; whether a request was sent.

        Args:
            step: Of the plan, or of an account's setup.
            plan: None: no run's, as of a setup.

        Raises:
            CapacityError: No machine of this kind, or no quota, within the plan's gang timeout.
            ConfigError: There is something of this name that is neither this run's nor shared.
            LaunchError: The cloud gave up, or took too long.
        """
        found = self.cloud.find(step)
        if found is not None and found.state == "leaving":
            self._wait_until_gone(found)
            found = None
        if found is None:
            self.cloud.create(step)
            self._wait_until_ready(step, plan, None)
            return True
        _refuse_foreign(found, plan)
        self._wait_until_ready(step, plan, found)
        return False

    def _wait_until_ready(self, step: Step, plan: Plan | None, found: Thing | None) -> None:
        began, told = monotonic_seconds(), ""
        is_pool, waits = False, pauses(self.poll_seconds)
        while found is None or found.state != "ready":
            if found is not None:
                is_pool |= (
                    found.node_type is not None
                )  # it has no nodes yet while it waits for them
                if found.state == "failed":
                    raise _failed(found, plan)
                if found.state == "leaving":
                    raise LaunchError(
                        f"{found.kind} {step.ensure} is being deleted by somebody else while it is"
                        f" made; again: the same command, or {_undo(plan)}"
                    )
                if found.why and found.why != told:
                    told = found.why
                    self.say(f"{step.ensure}: {told}")
            waited = monotonic_seconds() - began
            self._check_patience(step, plan, found, waited, is_pool=is_pool)
            time.sleep(next(waits))
            found = self.cloud.find(step)
        _refuse_foreign(found, plan)

    def _check_patience(
        self, step: Step, plan: Plan | None, found: Thing | None, waited: float, *, is_pool: bool
    ) -> None:
        if found is None:
            if waited > max(_LISTED_SECONDS, 2 * self.poll_seconds):
                raise LaunchError(
                    f"{step.ensure} was asked for and does not appear; remove what may be there:"
                    f" {_undo(plan)}"
                )
            return
        limit = plan.limits.gang_timeout_seconds if plan and is_pool else self.most_seconds
        if waited <= limit:
            return
        why = f": {found.why}" if found.why else ""
        if is_pool:
            raise CapacityError(f"{step.ensure} was not there within {limit:.0f} s{why}")
        raise LaunchError(
            f"{step.ensure} was not ready within {limit:.0f} s{why}; remove it: {_undo(plan)}"
        )

    def _wait_until_gone(self, thing: Thing) -> None:
        self.say(f"{thing.kind} {thing.name} is still being deleted")
        wait_until_gone(self.cloud, thing, self.poll_seconds, self.most_seconds)


def wait_until_gone(cloud: Cloud, thing: Thing, poll_seconds: float, most_seconds: float) -> None:
    """Returns when a thing that is being deleted is gone.

    Raises:
        LaunchError: It does not go away.
    """
    began, waits = monotonic_seconds(), pauses(poll_seconds)
    while cloud.look(thing) is not None:
        if monotonic_seconds() - began > most_seconds:
            raise LaunchError(
                f"{thing.kind} {thing.name} is being deleted and does not go away; look at it in"
                " the cloud's console, then: cloudgan doctor"
            )
        time.sleep(next(waits))


def _refuse_foreign(found: Thing, plan: Plan | None) -> None:
    if SHARED in found.labels:
        return
    if plan and found.labels.get(RUN) == plan.run:
        spec = found.labels.get(SPEC)
        if spec and spec != plan.spec:
            raise ConfigError(
                f"run {plan.run} was started with other settings; take another --name, or remove"
                f" it first: cloudgan down {plan.run}"
            )
        return
    if found.rank >= _FOUND_RANK:
        return  # a cluster or bucket that was named: used, never deleted
    raise ConfigError(
        f"there is a {found.kind} {found.name} that is no run's of cloudgan; it is left as it is."
        " Take another --name"
    )


_FOUND_RANK = 50
"""Things of this rank and above may belong to somebody else: clusters, buckets, groups."""


def _failed(found: Thing, plan: Plan | None) -> LaunchError:
    kind = CapacityError if found.cause else LaunchError
    return kind(
        f"{found.kind} {found.name} failed: {found.why or 'nobody says why'}; remove the rest:"
        f" {_undo(plan)}"
    )


def _undo(plan: Plan | None) -> str:
    return f"cloudgan down {plan.run}" if plan else "cloudgan setup --teardown"
