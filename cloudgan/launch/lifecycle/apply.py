"""Applies the steps of a plan and deprovisions the nodes when the run is over.

The desired state is written first: no resource exists without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from cloudgan.core.clock import monotonic_seconds, utc_moment, utc_now
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfigError,
    Interrupted,
    LaunchError,
    PlanError,
    ResourcesLeftError,
)
from cloudgan.core.labels import SPEC
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.plan.build import specification
from cloudgan.schema.config import differences
from cloudgan.schema.launch import Cluster
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import RunState

_STOP_SECONDS, _LOOK_SECONDS = 300.0, 5.0
_MAX_DIFFERENCES = 4
"""Beyond the grace period of the workers; and between two looks at a run that is being stopped."""


def apply(
    plan: Plan,
    backend: JobBackend,
    launch_log: LaunchLog,
    say: Callable[[str], None],
    make_ready: Callable[[], None] = lambda: None,
    *,
    may_start: bool = True,
) -> bool:
    """Creates the missing resources of a plan; returns whether an attempt started.

    A job that ended is deleted first, so that the new job resumes from its checkpoints. A running
    job is kept.

    Args:
        make_ready: Uploads data; called after the desired state is written to the store, otherwise
            before the first step, so that no billed resource waits for it.
        may_start: Whether a job that has ended is started again; False for one that ran a moment ago.

    Raises:
        LaunchError: A step failed, or, after another error, the nodes could not be deleted.
        Interrupted: Ctrl-C; the message names the commands to resume and to clean up.
        Exception: Of a step. Before any error of this function the created nodes are deleted, except
            after Ctrl-C.
    """
    state = _settled_state(plan, backend, say)
    # After the state: a job that runs has a desired state, also if another launcher began in between.
    check_same_run(plan, backend)
    if not (state.is_over and may_start):
        return False
    launch_log.record_state(state)  # before the job and its times are deleted
    begun: list[Step] = []
    try:
        if state.phase != "absent":
            backend.clear(plan.run)
        is_new = _ensure(plan, backend, launch_log, say, make_ready=make_ready, begun=begun)
    except Interrupted:
        raise
    except Exception as error:
        # Invalid input and missing quota are found before the request is sent.
        if isinstance(error, ConfigError | PlanError):
            begun = begun[:-1]
        if isinstance(error, LaunchError) or _may_have_nodes(plan, begun):
            release_after(error, backend, launch_log, say)
        raise
    try:
        backend.annotate(plan.run, "started")
    except CloudganError as error:  # the job runs
        say(f"the start of run {plan.run} could not be noted: {error}")
    return is_new


def _settled_state(plan: Plan, backend: JobBackend, say: Callable[[str], None]) -> RunState:
    """Returns the state of the run, once a job that is being stopped has ended."""
    deadline = monotonic_seconds() + plan.workers.grace_seconds + _STOP_SECONDS
    said = False
    while (state := backend.state(plan.run)).phase == "stopping":
        if monotonic_seconds() > deadline:
            raise LaunchError(
                f"run {plan.run} is being stopped and does not end; see `cloudgan status {plan.run}`"
            )
        if not said:
            say(f"run {plan.run} is being stopped; it starts again when its workers have ended")
            said = True
        backend.wait_for_change(plan.run, _LOOK_SECONDS)
    return state


def _ensure(
    plan: Plan,
    backend: JobBackend,
    launch_log: LaunchLog,
    say: Callable[[str], None],
    *,
    make_ready: Callable[[], None],
    begun: list[Step],
) -> bool:
    """Ensures the steps in order and adds each to `begun`; records the requests, and returns whether there were any."""
    desired_state = next((step for step in plan.steps if step.at == "store"), None)
    sent: list[tuple[str, Step]] = []
    try:
        if desired_state is None:
            make_ready()
        for step in plan.steps:
            begun.append(step)
            if backend.ensure(step, plan):
                sent.append((utc_now(), step))
                say(f"created {step.ensure}")
            if step is desired_state:
                make_ready()
    except KeyboardInterrupt as error:
        if begun and begun[-1] not in [step for _, step in sent]:
            sent.append((utc_now(), begun[-1]))  # it may have been created and billed
        raise Interrupted(
            f"interrupted while starting run {plan.run}. Rerun the command to resume, or run"
            f" `cloudgan down {plan.run}` to delete what was created"
        ) from error
    finally:
        if sent:
            launch_log.record_attempt(sent)
    return bool(sent)


def _may_have_nodes(plan: Plan, begun: list[Step]) -> bool:
    """Whether a resource of the cloud was ensured after the desired state of the run was written.

    Or nodes that waited: with the desired state they are those of the run.
    """
    steps = list(plan.steps)
    if plan.node_pool and plan.node_pool.reused and any(step.at == "store" for step in begun):
        return True
    first = next((number for number, step in enumerate(steps) if step.at == "store"), len(steps))
    billed = [step for step in steps[first:] if step.at == "cloud"]
    return any(step in billed for step in begun)


def release_after(
    error: Exception,
    backend: JobBackend,
    launch_log: LaunchLog,
    say: Callable[[str], None],
) -> None:
    """Deletes the nodes of a run that cannot start or continue.

    Raises:
        ResourcesLeftError: They could not be deleted; the message names both errors and the next command.
    """
    why = error.reason if isinstance(error, CapacityError) else ""
    try:
        deprovision(backend, launch_log, "failed", say, why=why)
    except Exception as another:  # noqa: BLE001  of any class: the nodes may be billed
        command = f". They may be billed: run `cloudgan down {launch_log.plan.run}`, then `cloudgan doctor`"
        hint = "" if isinstance(another, ResourcesLeftError) else command
        raise ResourcesLeftError(
            f"{error}. Its nodes could not be deleted: {another}{hint}"
        ) from error


def check_same_run(plan: Plan, backend: JobBackend) -> None:
    """Checks that an existing run of this name has the same specification."""
    there = backend.desired_state(plan.run)
    if there is None or there.spec_hash == plan.spec_hash:
        return
    # A resumed run keeps the hash of its first attempt, so that there may be none.
    found = differences(specification(there), specification(plan))[:_MAX_DIFFERENCES]
    listed = "; ".join(found) or f"{SPEC}: {there.spec_hash}, {plan.spec_hash}"
    raise ConfigError(
        f"run {plan.run} exists with other settings (there, requested: {listed}); give another --name,"
        f" or delete it first: cloudgan down {plan.run}"
    )


def deprovision(
    backend: JobBackend,
    launch_log: LaunchLog,
    state: str,
    say: Callable[[str], None],
    *,
    why: str = "",
) -> None:
    """Deletes the nodes that were created for the run.

    Args:
        state: Final state of the run; absent counts as stopped.
        why: Reason of the state, if it is not recorded yet.

    Raises:
        ResourcesLeftError: A resource is not deleted; the message names the next command.
    """
    plan, state = launch_log.plan, "stopped" if state == "absent" else state
    with suppress(CloudganError):  # deletion does not depend on the record
        launch_log.record_end(f"{state}: {why}" if why else state)
    keeps = state == "finished" and bool(plan.node_pool and plan.node_pool.keep_seconds)
    for what in record_deprovision(
        backend, launch_log, lambda: backend.deprovision(plan.run, state), keeps=keeps
    ):
        say(f"deleted: {what}")


def record_deprovision(
    backend: JobBackend,
    launch_log: LaunchLog,
    delete: Callable[[], Iterable[str]],
    *,
    keeps: bool = False,
) -> Iterator[str]:
    """Records usage while `delete` deletes the resources; yields each name when it is deleted.

    Nodes are gone when their pool is gone, minutes before the cluster; with `keeps` they wait for another run
    unless `delete` yields their pool.
    """
    plan = launch_log.plan
    if launch_log.is_complete():  # deprovisioned before: verify only
        yield from delete()
        known = launch_log.read().attempts[-1].cluster
        if known and (gone_at := backend.deleted(plan.run).get(known.name)):
            launch_log.record_cluster_end(gone_at)
        launch_log.record_kept_end(utc_moment())
        return
    if plan.node_pool:
        with suppress(CloudganError):  # deletion does not depend on the record
            launch_log.record_nodes(backend.nodes(plan.run))
        launch_log.record_usage(uploaded_gib=plan.showers.gib if plan.showers.upload_to else 0.0)
    pool = plan.node_pool.name if plan.node_pool else None
    are_up = True
    try:
        for what in delete():
            if are_up and pool in backend.deleted(plan.run):
                keeps = are_up = False
                launch_log.record_nodes_terminated()
            yield what
    finally:  # after the nodes: the share of the cluster follows from the histories of all runs
        with suppress(CloudganError):
            _record_cluster(backend.cluster(plan.run), backend.deleted(plan.run), launch_log)
    if keeps:
        launch_log.record_kept()
    launch_log.record_nodes_terminated()
    launch_log.record_storage()


def _record_cluster(
    cluster: Cluster | None, gone: Mapping[str, datetime], launch_log: LaunchLog
) -> None:
    """Records the usage of a cluster, unless it is gone and its usage is known."""
    if cluster is None:
        return
    if cluster.created_at and cluster.name in gone:
        ended, paid = gone[cluster.name], cluster.run_seconds
        if paid is not None and cluster.deleted_at:  # its deletion is this run's
            paid = max(0.0, paid + (ended - cluster.deleted_at).total_seconds())
        cluster = cluster.model_copy(update={"deleted_at": ended, "run_seconds": paid})
    known = launch_log.read().attempts
    if cluster.created_at or not (known and known[-1].cluster):
        launch_log.record_usage(cluster=cluster)
