"""Follows a run to its end, and ends what would wait in vain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CapacityError, LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.plan import Plan
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.provider import Provider

IMAGE_SECONDS: Final = 30.0
"""How long an image may fail to be pulled; a registry that hiccups is forgiven that long."""
_LOOK_EVERY_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 30.0


@dataclass
class Follower:
    """Looks at one run until it is over.

    Attributes:
        provider: Where it is.
        plan: What was meant.
        say: Is told each change in one line.
        seen: Is given each state, to show or to note it.
        image_seconds: See `IMAGE_SECONDS`.
    """

    provider: Provider
    plan: Plan
    say: Callable[[str], None]
    seen: Callable[[RunState], None]
    image_seconds: float = IMAGE_SECONDS

    def __post_init__(self) -> None:
        self._began = monotonic_seconds()
        self._stuck_since: float | None = None
        self._failed_at: float | None = None
        self._were_all_up = False
        self._told: dict[str, str] = {}
        self._replaced: dict[int, int] = {}

    def follow(self) -> RunState:
        """Returns the state in which the run is over.

        Raises:
            LaunchError: It could never run, and was ended: image, memory, configuration.
            CapacityError: Not all workers came up in time, and it was ended.
        """
        while True:
            state = self.provider.state(self.plan.run)
            self._tell(state)
            self.seen(state)
            if state.is_over and not self._is_settling(state):
                return state
            if not state.is_over:
                self._were_all_up |= state.phase == "running"
                self._end_if_hopeless(state)
                self._end_if_late(state)
            self.provider.wait_for_change(self.plan.run, self._pause_seconds())

    def _is_settling(self, state: RunState) -> bool:
        """A Job is failed before its last pod is gone; when it ended is worth waiting for."""
        if state.phase != "failed" or state.ended:
            return False
        now = monotonic_seconds()
        self._failed_at = now if self._failed_at is None else self._failed_at
        return now - self._failed_at < self.plan.workers.grace_seconds + _SETTLE_SECONDS

    def _pause_seconds(self) -> float:
        """Until the next look, unless something changes before: no limit is overslept."""
        now, ends = monotonic_seconds(), []
        if not self._were_all_up:
            ends.append(self._began + self.plan.limits.gang_timeout_seconds)
        if self._stuck_since is not None:
            ends.append(self._stuck_since + self.image_seconds)
        left = [end - now for end in ends if end > now]
        return min([_LOOK_EVERY_SECONDS, *left])

    def _tell(self, state: RunState) -> None:
        wanted = self.plan.workers.nodes
        up = state.count("running", "done")
        lines = {"phase": f"{state.phase}: {up} of {wanted} workers up"}
        if state.why:
            lines["why"] = state.why
        for key, line in lines.items():
            if self._told.get(key) != line:
                self._told[key] = line
                self.say(line)
        for worker in state.workers:
            if worker.replaced > self._replaced.get(worker.index, 0):
                self._replaced[worker.index] = worker.replaced
                why = f" ({worker.why})" if worker.why else ""
                self.say(f"worker {worker.index} was replaced{why}")

    def _end_if_hopeless(self, state: RunState) -> None:
        if state.cause == "memory":
            memory = self.plan.workers.memory_gib
            self._end(
                f"{state.why}; its limit is {memory:g} GiB. Give --memory_gib={2 * memory:g}, or a"
                " smaller --batch"
            )
        if state.cause not in ("image", "configuration"):
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = monotonic_seconds()
        if monotonic_seconds() - self._stuck_since >= self.image_seconds:
            hint = (
                "correct --image, or name a pull secret of its registry on the service account"
                if state.cause == "image"
                else "a secret that --secrets names may be missing"
            )
            self._end(f"{state.why}; {hint}")

    def _end_if_late(self, state: RunState) -> None:
        if self.plan.place.queue and state.phase == "waiting" and not state.workers:
            self._began = monotonic_seconds()  # in a queue nothing bills, and it may take a day
        limit = self.plan.limits.gang_timeout_seconds
        late = monotonic_seconds() - self._began >= limit
        if self._were_all_up or not late or state.phase == "running":
            return
        up = state.count("running", "done")
        self.provider.stop(self.plan.run)
        raise CapacityError(
            f"only {up} of {self.plan.workers.nodes} workers came up within {limit:.0f} s"
            f" ({state.why or 'nobody says why'}), so all were ended: none bills any more. Try"
            f" again later, with fewer --nodes, or elsewhere; `cloudgan down {self.plan.run}`"
            " removes the rest"
        )

    def _end(self, why: str) -> None:
        self.provider.stop(self.plan.run)
        raise LaunchError(
            f"{why}. The job was ended; `cloudgan down {self.plan.run}` removes the rest"
        )
