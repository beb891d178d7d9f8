"""One attempt of a deployment: its plan approved, its run started and followed, its nodes released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import (
    CapacityError,
    Interrupted,
    LaunchError,
    PlanError,
)
from cloudgan.core.progress import Progress
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.clouds.planner import Clouds
from cloudgan.launch.lifecycle.apply import (
    apply,
    check_same_run,
    deprovision,
    release_after,
)
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_monitor import (
    PreemptionTracker,
    RunMonitor,
    raise_for_outcome,
)
from cloudgan.launch.lifecycle.run_results import RunResults, transfer_checkpoints
from cloudgan.launch.operations.current_price import price_warning
from cloudgan.launch.operations.kept_nodes import end_waiting, use_kept_nodes
from cloudgan.launch.operations.launch_data import check_this_machine, upload_data
from cloudgan.launch.operations.pod_software import upload_wheels, with_pulled_image
from cloudgan.launch.operations.run_watch import RunWatch
from cloudgan.launch.operations.targets import local_config, open_backend, resolve_plan, run_folder
from cloudgan.launch.plan.environment import check_variables_set, hide_secrets
from cloudgan.launch.plan.launch_plan import on_demand_price
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import RunState
from cloudgan.speed.spot import Preemption, break_even


@dataclass(frozen=True)
class DeploySettings:
    """Options of a deployment.

    Attributes:
        approve: Called with the final plan and a price warning ("": none) before anything is
            created; raises ConfirmationError to stop.
        detach: Whether to return once the run is started.
    """

    approve: Callable[[Plan, str], None]
    detach: bool = False


class DeployAttempt:
    """One attempt: approves the plan, starts the run, follows it, and releases its nodes.

    Args:
        plan: Plan of the attempt.
        options: Of the deployment.
        clouds: The available clouds.
        progress: Receives what happens.
        previous: Plan of an earlier attempt in another cloud, whose store has the checkpoints.
        replaces_spot: Whether on-demand nodes follow spot nodes that are lost too often.
        is_approved: Whether the user has approved the same nodes in another zone.

    Attributes:
        plan: The plan; without placeholders once the attempt has started.
    """

    def __init__(
        self,
        plan: Plan,
        options: DeploySettings,
        clouds: Clouds,
        progress: Progress,
        *,
        previous: Plan | None,
        replaces_spot: bool,
        is_approved: bool,
    ) -> None:
        self.plan, self._previous, self._is_approved = plan, previous, is_approved
        self._options, self._clouds, self._progress = options, clouds, progress
        self._replaces_spot = replaces_spot

    def run(self) -> RunState | None:
        """Starts or resumes the run; returns its final state, or None if it is not awaited.

        Raises:
            CapacityError: There is no capacity; created resources were deleted.
            PlanError: There is no quota, or the cloud cannot serve the plan; nothing was created.
        """
        try:
            return self._run()
        except PlanError as error:
            if self.plan.target.is_provisioned:
                LaunchLog(run_folder(self.plan), self.plan).record_rejected(error.reason)
            raise

    def _run(self) -> RunState | None:
        say = self._progress.say
        hide_secrets(self.plan.workers)
        self.plan = resolve_plan(self.plan, say, self._clouds)
        plan = self.plan
        backend = open_backend(plan.target, say, store=plan.store, clouds=self._clouds)
        plan = self.plan = use_kept_nodes(self.plan, backend, say)
        results = RunResults.from_plan(plan)
        state = backend.state(plan.run)
        ended = None
        if not _is_finished(plan, backend, results, state):
            ended = self._launch(backend, results, is_new=state.is_over)
        elif self._release_unattended(backend, results):
            ended = state
        if results:
            folder = run_folder(plan)
            if not (folder.path / plans.FILE_NAME).exists():  # another folder or machine started it
                plans.write(folder.path / plans.FILE_NAME, plan)
            results.fetch_if_reachable(folder, say)
        if ended:
            raise_for_outcome(ended, plan, results.heartbeat() if results else None)
        return ended

    def _release_unattended(self, backend: JobBackend, results: RunResults | None) -> bool:
        """Releases the nodes of a run that finished while it was not followed; returns whether it did."""
        started = backend.desired_state(self.plan.run)
        if started is None or not started.target.is_provisioned:
            return False
        launch_log = LaunchLog(run_folder(started), started, results)
        if not launch_log.is_complete():
            self.plan = started
            deprovision(backend, started, launch_log, "finished", self._progress.say)
            return True
        return False

    def _launch(
        self, backend: JobBackend, results: RunResults | None, *, is_new: bool
    ) -> RunState | None:
        folder = run_folder(self.plan)
        launch_log = LaunchLog(folder, self.plan, results)
        check_same_run(self.plan, backend)
        if is_new:
            check_variables_set(self.plan.workers)
            self._approve(backend, launch_log)
            folder.write_config(local_config(self.plan))
            plans.write(folder.path / plans.FILE_NAME, self.plan)
        plan, say = self.plan, self._progress.say

        def upload() -> None:
            upload_data(
                plan.showers,
                folder,
                self._progress,
                plan.config.data.unit,
                plan.config.data.binning,
            )
            upload_wheels(plan, self._progress)
            if results:
                results.write_plan(plan)
                if self._previous and (previous := RunResults.from_plan(self._previous)):
                    transfer_checkpoints(previous, results, say)

        apply(plan, backend, launch_log, say, upload)
        self._progress.end()  # of the uploads
        end_waiting(plan, say)
        if self._options.detach:
            return None
        try:
            ended = self._follow(backend, launch_log, results)
        except LaunchError as error:
            release_after(error, backend, plan, launch_log, say)
            raise
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"run {plan.run} continues; `cloudgan status {plan.run}` shows it, `cloudgan cancel"
                f" {plan.run}` stops it, `cloudgan down {plan.run}` deletes its resources"
            ) from error
        deprovision(backend, plan, launch_log, ended.phase, say)
        return ended

    def _approve(self, backend: JobBackend, launch_log: LaunchLog) -> None:
        """Completes the plan and has it approved."""
        say = self._progress.say
        machine = check_this_machine(self.plan)
        for warning in (*backend.check(self.plan), *([machine] if machine else [])):
            say(f"warning: {warning}")
        self.plan = with_pulled_image(self.plan, launch_log.read(), say)
        self.plan = self.plan.model_copy(update={"steps": backend.steps(self.plan)})
        warning = price_warning(self.plan.price) if self.plan.target.is_provisioned else ""
        if not self._is_approved:
            self._progress.end()  # the plan is printed, and a question asked
            self._options.approve(self.plan, warning)

    def _follow(
        self, backend: JobBackend, launch_log: LaunchLog, results: RunResults | None
    ) -> RunState:
        plan, say = self.plan, self._progress.say
        watch = RunWatch(plan, launch_log, results, self._progress)
        preemptions = _preemption_tracker(plan) if self._replaces_spot else None

        def see(state: RunState) -> None:
            watch.see(state)
            if preemptions is None:
                return
            try:
                preemptions.observe(state, utc_moment().timestamp())
            except CapacityError:
                launch_log.record_nodes(backend.nodes(plan.run))
                backend.stop(plan.run)
                raise

        return RunMonitor(backend, plan, say, see).follow()


def _preemption_tracker(plan: Plan) -> PreemptionTracker | None:
    """Tracks preemptions of spot nodes; None if the node type has no on-demand price there."""
    row = plan.price
    on_demand = on_demand_price(row) if row and row.market == "spot" else None
    if row is None or on_demand is None:
        return None
    work = plan.forecast.high_seconds or float(plan.limits.deadline_seconds)
    ratio = row.usd_per_hour / on_demand.usd_per_hour
    most = break_even(work, ratio, Preemption(), plan.workers.nodes)
    return PreemptionTracker(most, plan.workers.nodes)


def _is_finished(
    plan: Plan, backend: JobBackend, results: RunResults | None, state: RunState
) -> bool:
    """Whether this run is finished, by its backend, or by its store if the backend has no job."""
    if state.phase == "finished":
        desired = backend.desired_state(plan.run)
        return desired is not None and desired.spec_hash == plan.spec_hash
    has_job = not state.is_over and backend.desired_state(plan.run) is not None
    return not has_job and results is not None and results.are_of_finished(plan)
