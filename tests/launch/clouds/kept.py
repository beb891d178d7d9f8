"""Runs with --keep-nodes, for the tests of each cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.launch.lifecycle.apply import apply, deprovision
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.run_folder import RunFolder
from crashing import moments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
    from cloudgan.schema.launch import Attempt
    from cloudgan.schema.plan import Plan


def keeping(plan: Plan, seconds: float = 1800.0) -> Plan:
    """Returns a plan whose nodes wait for the next run."""
    assert plan.node_pool is not None
    pool = plan.node_pool.model_copy(update={"keep_seconds": seconds, "served_runs": 2})
    plan = plan.model_copy(update={"node_pool": pool})
    return plan.model_copy(update={"steps": all_steps(plan)})


def started(plan: Plan, provider: ProvisionedBackend, folder: Path) -> tuple[Plan, LaunchLog]:
    """Starts a run on nodes that wait for it, or on its own."""
    plan = provider.on_kept_nodes(plan)
    plan = plan.model_copy(update={"steps": provider.steps(plan)})
    log = LaunchLog(RunFolder(folder / "runs" / plan.run), plan)
    apply(plan, provider, log, lambda _: None)
    return plan, log


def finished(plan: Plan, provider: ProvisionedBackend, log: LaunchLog) -> Attempt:
    """Ends a run as `deploy` does; returns its newest attempt."""
    deprovision(provider, log, "finished", lambda _: None)
    return log.read().attempts[-1]


def crash_moments(calls: Sequence[str], *, at_each: bool) -> list[tuple[int, str]]:
    """Returns when to kill a run on waiting nodes: after its last change, which makes them wait again.

    With `at_each` at first too, and after each change of the cloud and each Job. The other objects of a
    run are created in the same way on new nodes, where the tests kill it at each of them.
    """
    objects = ("/api/", "/apis/")
    found = [
        (number, when)
        for number, when in moments(calls, at_each=False)
        if number == 0
        or calls[number].endswith(("/jobs", "/configmaps"))
        or not any(part in calls[number] for part in objects)
    ]
    return found if at_each else found[-1:]
