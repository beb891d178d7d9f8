"""A job backend in memory: it records the calls, and a test can interrupt it at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cloudgan.schema.launch import Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState


class PlaceDouble:
    """Implements `launch.backends.job_backend.JobBackend`.

    Attributes:
        made: Applied steps, in their order.
        calls: All calls except those of `state`.
        states: What `state` returns, one after the other, the last one for ever; empty: what follows
            from `made`.
        interrupt: Gets "before" or "after", and a step; a test raises Ctrl-C in it.
        passes: Gets the seconds of each wait.
    """

    def __init__(self, states: Iterable[RunState] = ()) -> None:
        self.made: list[Step] = []
        self.calls: list[tuple[str, ...]] = []
        self.states = list(states)
        self.sources: dict[str, Callable[[bool], Iterator[LogLine]]] = {}
        self.meant: Plan | None = None
        self.over = ""
        self.interrupt: Callable[[str, Step], None] = lambda when, step: None
        self.passes: Callable[[float], None] = lambda seconds: None

    def check(self, plan: Plan) -> tuple[str, ...]:
        self.calls.append(("check", plan.run))
        return ()

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        return plan.steps

    def on_kept_nodes(self, plan: Plan) -> Plan:
        return plan

    def desired_state(self, run: str) -> Plan | None:
        return self.meant

    def ensure(self, step: Step, plan: Plan) -> bool:
        self.interrupt("before", step)
        if step in self.made:
            return False
        self.made.append(step)
        self.meant = plan
        self.interrupt("after", step)
        return True

    def annotate(self, run: str, state: str) -> None:
        self.calls.append(("mark", run, state))

    def state(self, run: str) -> RunState:
        if self.states:
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if self.over:
            return RunState(self.over)
        if self.meant is None:
            return RunState("absent")
        return RunState("running" if self.meant.steps[-1] in self.made else "stopped")

    def wait_for_change(self, run: str, seconds: float) -> None:
        self.passes(seconds)

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        return self.sources

    def clear(self, run: str) -> None:
        self.stop(run)

    def stop(self, run: str) -> None:
        self.calls.append(("stop", run))
        self.over = ""
        if self.meant:
            self.made = [step for step in self.made if step != self.meant.steps[-1]]

    def destroy(self, run: str) -> Iterator[str]:
        self.calls.append(("remove", run))
        self.made, self.meant = [], None
        yield run

    def deprovision(self, run: str, state: str) -> Iterator[str]:
        self.calls.append(("release", run, state))
        yield from ()

    def nodes(self, run: str) -> tuple[Node, ...]:
        return ()

    def cluster(self, run: str) -> None:
        return None

    def deleted(self, run: str) -> dict[str, object]:
        return {}

    def list_runs(self) -> tuple[str, ...]:
        return (self.meant.run,) if self.meant else ()
