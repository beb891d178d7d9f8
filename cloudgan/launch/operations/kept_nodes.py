"""Uses the nodes that an earlier run kept (`deploy --keep-nodes`), and ends their waiting in its record."""

from __future__ import annotations

from collections.abc import Callable

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.money.forecast import without_startup
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_document import read_plan
from cloudgan.schema.run_folder import RUNS, RunFolder


def use_kept_nodes(plan: Plan, backend: JobBackend, say: Callable[[str], None]) -> Plan:
    """Returns a resolved plan on nodes that wait for it; the same plan if there are none.

    Args:
        plan: Resolved; it is not changed unless its nodes may serve several runs.
        backend: Of its cloud and store.
        say: Progress callback.
    """
    if plan.node_pool is None or plan.node_pool.served_runs == 1:
        return plan
    from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend

    if not isinstance(backend, ProvisionedBackend):
        return plan
    found = backend.on_kept_nodes(plan)
    reused = found.node_pool.reused if found.node_pool else None
    if reused is None:
        return found
    say(f"the nodes that run {reused.previous} keeps are used: none are created")
    cost = without_startup(found.cost) if found.cost else None
    found = found.model_copy(update={"cost": cost})
    return found.model_copy(update={"steps": backend.steps(found)})


def end_waiting(plan: Plan, say: Callable[[str], None]) -> None:
    """Records that the nodes and the cluster of a plan no longer wait, in the folder of the run that kept them.

    Without that folder on this machine, its cost report counts the whole waiting time. Errors are
    reported only: the run has started.
    """
    _end_waiting_of_cluster(plan, say)
    reused = plan.node_pool.reused if plan.node_pool else None
    if reused is None:
        return
    folder = RunFolder(RUNS / reused.previous)
    try:
        if folder.launch_file.exists():
            previous = read_plan(folder.path / plans.FILE_NAME, reused.previous)
            log = LaunchLog(folder, previous, RunResults.from_plan(previous))
            log.record_kept_end(reused.since)
    except CloudganError as error:
        say(f"run {reused.previous}: the end of its waiting could not be recorded: {error}")


def _end_waiting_of_cluster(plan: Plan, say: Callable[[str], None]) -> None:
    """Ends the waiting of the plan's cluster in the runs of this machine that kept it."""
    if plan.node_pool is None or plan.target.cluster is None:
        return
    own = RunFolder(RUNS / plan.run).launch_file
    sent = launch.read(own).attempts[-1].requests if own.exists() else ()
    taken_at = min((one.sent_at for one in sent), default=utc_moment())
    for file in RUNS.glob(f"*/{RunFolder(RUNS).launch_file.name}"):
        folder = RunFolder(file.parent)
        try:
            attempts = launch.read(file).attempts[-1:]
            if any(
                one.cluster
                and one.cluster.name == plan.target.cluster
                and (one.provider, one.region) == (plan.target.provider, plan.target.region)
                and one.cluster.idle_since
                and file.parent.name != plan.run
                for one in attempts
            ):
                previous = read_plan(folder.path / plans.FILE_NAME, file.parent.name)
                log = LaunchLog(folder, previous, RunResults.from_plan(previous))
                log.record_cluster_end(taken_at)
        except CloudganError as error:
            say(f"run {file.parent.name}: the end of its waiting could not be recorded: {error}")
