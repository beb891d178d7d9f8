"""The public function `deploy`: carries out a plan, in as many attempts as it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudgan.api.current_price import price_warning, refresh_price
from cloudgan.api.launch_data import upload_data
from cloudgan.api.launch_request import NO_ATTEMPTS, NOTHING_PROVISIONED, LaunchRequest
from cloudgan.api.plan_inputs import on_demand_price
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import all_wheels, pin_image, upload_wheels
from cloudgan.api.run_options import config_keys
from cloudgan.api.runs import RunWatch
from cloudgan.api.targets import local_config, open_backend, resolve_plan, run_folder
from cloudgan.core.clock import utc_moment
from cloudgan.core.clouds import CLOUDS, check_launchable
from cloudgan.core.errors import (
    BudgetError,
    CapacityError,
    CloudganError,
    ConfigError,
    ConfirmationError,
    Interrupted,
    LaunchError,
    PlanError,
    StockOutError,
)
from cloudgan.core.progress import Silent
from cloudgan.cost.estimation.spot import Preemption, break_even
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS
from cloudgan.launch.kubernetes.manifests import run_yaml
from cloudgan.launch.provisioning.apply import (
    apply,
    check_same_run,
    deprovision,
    reason_of,
    release_after,
)
from cloudgan.launch.provisioning.launch_log import LaunchLog
from cloudgan.launch.provisioning.run_monitor import (
    PreemptionTracker,
    RunMonitor,
    raise_for_outcome,
)
from cloudgan.launch.provisioning.run_results import RunResults, transfer_checkpoints
from cloudgan.schema import plan as plans
from cloudgan.schema.heartbeat import config_hash
from cloudgan.schema.run_document import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Unpack

    from cloudgan.api.launch_request import AttemptHistory, ProvisioningRequest
    from cloudgan.api.plan_inputs import Training
    from cloudgan.api.run_options import TrainingOptions
    from cloudgan.core.progress import Progress
    from cloudgan.launch.backends.job_backend import JobBackend
    from cloudgan.launch.clouds.planner import Clouds
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.run_state import RunState

    Approve = Callable[[Plan, str], None]


def approve_current_price(plan: Plan, price_warning: str) -> None:
    """Approves every plan with a current price; the default of `deploy`.

    Raises:
        ConfirmationError: The price is undated or old.
    """
    if price_warning:
        raise ConfirmationError(
            f"{price_warning}; run `cloudgan prices refresh`, or pass another `approve` for"
            f" {plan.run}"
        )


@dataclass(frozen=True)
class DeployOptions:
    """Options of a deployment.

    Attributes:
        approve: Called with the final plan and a price warning ("": none) before anything is
            created; raises ConfirmationError to stop.
        detach: Whether to return once the run is started.
    """

    approve: Approve = approve_current_price
    detach: bool = False


@dataclass(frozen=True)
class DeployResult:
    """Result of a deployment.

    Attributes:
        plan: Plan of the last attempt.
        state: Final state of the run; None: detached, or finished before.
    """

    plan: Plan
    state: RunState | None

    @property
    def folder(self) -> Path:
        """Folder of this machine with record and checkpoints."""
        return run_folder(self.plan).path


def deploy(
    *,
    launch: LaunchRequest | None = None,
    provisioning: ProvisioningRequest = NOTHING_PROVISIONED,
    config: str | Path | None = None,
    detach: bool = False,
    approve: Approve = approve_current_price,
    progress: Progress | None = None,
    **options: Unpack[TrainingOptions],
) -> DeployResult:
    """Plans a run, starts it, follows it to its end and fetches its results.

    Call it again with the same arguments to follow the run, or to resume it.

    Args:
        launch: Where the run is launched. Default: one process of this machine.
        provisioning: Which nodes are created, if the provider is a cloud.
        config: A run.yaml; options override its keys.
        detach: Return once the run is started.
        approve: Called with the final plan and a price warning ("": none) before anything is
            created; raises ConfirmationError to stop. Default: stops at an outdated price only.
        progress: Receives each task and its progress.
        **options: The flags of `cloudgan deploy` that describe the training, such as ``data``.

    Raises:
        ConfigError: A value is not valid; nothing was started.
        PlanError: No offer matches the request, or quota is missing.
        CapacityError: There is no capacity; created nodes were deleted.
        BudgetError: The budget is too small.
        LaunchError: A cloud refused a request midway; names the `down` command.
    """
    return deploy_run(
        launch or LaunchRequest(),
        provisioning,
        (config_keys(options), str(config) if config else None),
        DeployOptions(approve, detach),
        progress=progress or Silent(),
    )


def deploy_run(
    request: LaunchRequest,
    provisioning: ProvisioningRequest,
    training: Training,
    options: DeployOptions,
    *,
    progress: Progress,
    clouds: Clouds = BUILT_IN_CLOUDS,
) -> DeployResult:
    """Carries out the plan of a request; see `deploy`."""

    def replan(history: AttemptHistory) -> Plan:
        return make_launch_plan(
            request,
            provisioning,
            training,
            lambda accelerator: all_wheels(progress, accelerator),
            clouds=clouds,
            history=history,
        )

    if request.provider in CLOUDS:
        check_launchable(request.provider)
    plan = replan(NO_ATTEMPTS)
    if not plan.config.data.path:
        raise ConfigError(
            "--data is missing; give --data=FILE.h5, a folder from `cloudgan convert`, or a bucket"
        )
    return Deployment(replan, provisioning, clouds, progress, options).run(plan)


@dataclass(frozen=True)
class Deployment:
    """One `deploy` with all its attempts.

    Attributes:
        replan: Returns the plan of the next attempt.
        provisioning: The provisioning request, with its fallback.
        clouds: The available clouds.
        progress: Receives what happens.
        options: The options.
    """

    replan: Callable[[AttemptHistory], Plan]
    provisioning: ProvisioningRequest
    clouds: Clouds
    progress: Progress
    options: DeployOptions

    def run(self, plan: Plan) -> DeployResult:
        """Carries out the plan, or follows or resumes its run; returns when the run ended.

        Raises:
            CapacityError: There is no capacity, and no fallback.
            PlanError: There is no quota, and no fallback.
        """
        plan, history, is_running = self._resume(plan)
        previous: Plan | None = None
        zones: tuple[str, ...] | None = None  # of this offer, not tried yet
        while True:
            if zones is None and not is_running:
                plan = self._with_current_price(plan, history)
            attempt = DeployAttempt(plan, self, previous, is_approved=zones is not None)
            try:
                return DeployResult(attempt.plan, attempt.run())
            except (CapacityError, PlanError) as error:
                is_running = False
                zones = attempt.plan.target.zones[1:] if zones is None else zones
                in_zone = self._in_next_zone(attempt.plan, history, error, zones)
                if in_zone is not None:
                    plan, zones = in_zone, zones[1:]
                    continue
                history, following = self._fall_back(attempt.plan, history, error)
                previous = self._leave_cloud(attempt.plan, following)
                plan, zones = following, None

    def _resume(self, plan: Plan) -> tuple[Plan, AttemptHistory, bool]:
        """Returns the plan of an existing run, with its store and, if possible, its offer.

        And whether the run is running: then the plan is the one it was started with.
        """
        file = run_folder(plan).path / plans.FILE_NAME
        if not plan.target.is_provisioned or not file.exists():
            return plan, NO_ATTEMPTS, False
        known = read_plan(file, plan.run)
        if not known.target.is_provisioned or known.price is None:
            return plan, NO_ATTEMPTS, False
        history = replace(
            NO_ATTEMPTS, offer=known.price.offer, stores={known.target.provider: known.store}
        )
        if known.spec_hash != plan.spec_hash:
            plan = self.replan(history)
        if known.spec_hash != plan.spec_hash:
            return plan, NO_ATTEMPTS, False
        backend = open_backend(
            known.target, self.progress.say, store=known.store, clouds=self.clouds
        )
        if not backend.state(known.run).is_over:
            return known, history, True
        return self.replan(history), history, False

    def _with_current_price(self, plan: Plan, history: AttemptHistory) -> Plan:
        """Returns the plan with today's price of its offer, if the cloud has one."""
        row = plan.price
        if not plan.target.is_provisioned or row is None:
            return plan
        self.clouds.open(plan.target, self.progress.say)  # fails without a login
        if not refresh_price(row, self.progress):
            return plan
        current = self.replan(replace(history, offer=row.offer))
        return current.model_copy(update={"selection": plan.selection})

    def _in_next_zone(
        self, plan: Plan, history: AttemptHistory, error: CloudganError, zones: tuple[str, ...]
    ) -> Plan | None:
        """Returns the plan of the same offer in the next zone; None: there is none to try."""
        if not isinstance(error, StockOutError) or not zones or plan.price is None:
            return None
        first = history.first or plan
        again = replace(history, first=first, offer=plan.price.offer)
        again = replace(again, stores={plan.target.provider: plan.store, **history.stores})
        try:
            found = self.replan(again)  # the budget pays for the earlier zones too
        except (PlanError, BudgetError):
            return None
        if found.price is None or found.workers.nodes != plan.workers.nodes:
            return None
        if found.price.offer != plan.price.offer:
            return None
        self.progress.say(f"{plan.target.zone}: {reason_of(error)}. Next zone: {zones[0]}")
        return found.model_copy(
            update={
                "target": found.target.model_copy(update={"zone": zones[0]}),
                "selection": plan.selection,
            }
        )

    def _fall_back(
        self, plan: Plan, history: AttemptHistory, error: CloudganError
    ) -> tuple[AttemptHistory, Plan]:
        why = reason_of(error)
        is_spot = plan.node_pool is not None and plan.node_pool.market == "spot"
        if (
            not plan.target.is_provisioned
            or plan.price is None
            or (
                self.provisioning.fallback == "none"
                and not (self.provisioning.market == "auto" and is_spot)
            )
        ):
            raise error
        history = history.after(plan, why)
        try:
            following = self.replan(history)
        except (PlanError, BudgetError) as none:
            raise type(error)(f"{why}; no other offer is left: {none}") from error
        offer = following.price.offer if following.price else following.target.describe()
        self.progress.say(f"{plan.price.offer}: {why}. Next: {offer}")
        return history, following

    def _leave_cloud(self, plan: Plan, following: Plan) -> Plan | None:
        """Deletes a run's resources in a cloud that it leaves; returns the plan with checkpoints."""
        if plan.target.provider == following.target.provider:
            return None
        say = self.progress.say
        try:
            backend = open_backend(plan.target, say, store=plan.store, clouds=self.clouds)
            for deleted in backend.destroy(plan.run):
                say(f"deleted: {deleted}")
        except CloudganError as error:
            say(
                f"deletion in {plan.target.provider} failed: {error}; run `cloudgan doctor` to see"
                " what is left"
            )
        return plan


class DeployAttempt:
    """One attempt: approves the plan, starts the run, follows it, and releases its nodes.

    Args:
        plan: Plan of the attempt.
        deployment: The deployment.
        previous: Plan of an earlier attempt in another cloud, whose store has the checkpoints.
        is_approved: Whether the user has approved the same nodes in another zone.

    Attributes:
        plan: The plan; without placeholders once the attempt has started.
    """

    def __init__(
        self,
        plan: Plan,
        deployment: Deployment,
        previous: Plan | None = None,
        *,
        is_approved: bool = False,
    ) -> None:
        self.plan, self._previous, self._is_approved = plan, previous, is_approved
        self._options, self._clouds = deployment.options, deployment.clouds
        self._replaces_spot = deployment.provisioning.market == "auto"
        self._progress = deployment.progress

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
                LaunchLog(run_folder(self.plan), self.plan).record_rejected(reason_of(error))
            raise

    def _run(self) -> RunState | None:
        say = self._progress.say
        self.plan = resolve_plan(self.plan, say, self._clouds)
        plan = self.plan
        backend = open_backend(plan.target, say, store=plan.store, clouds=self._clouds)
        results = RunResults.from_plan(plan)
        state = backend.state(plan.run)
        ended = None
        if not _is_finished(plan, backend, results, state):
            ended = self._launch(backend, results, is_new=state.is_over)
        if results:
            results.fetch_if_reachable(run_folder(plan), say)
        if ended:
            raise_for_outcome(ended, plan, results.heartbeat() if results else None)
        return ended

    def _launch(
        self, backend: JobBackend, results: RunResults | None, *, is_new: bool
    ) -> RunState | None:
        folder = run_folder(self.plan)
        launch_log = LaunchLog(folder, self.plan, results)
        check_same_run(self.plan, backend)
        if is_new:
            self._approve(backend)
            folder.write_config(local_config(self.plan))
            plans.write(folder.path / plans.FILE_NAME, self.plan)
        plan, say = self.plan, self._progress.say

        def upload() -> None:
            upload_data(plan.showers, folder, self._progress)
            upload_wheels(plan, self._progress)
            if results:
                results.write_plan(plan)
                if self._previous and (previous := RunResults.from_plan(self._previous)):
                    transfer_checkpoints(previous, results, say)

        apply(plan, backend, launch_log, say, upload)
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

    def _approve(self, backend: JobBackend) -> None:
        """Completes the plan and has it approved."""
        say = self._progress.say
        for warning in backend.check(self.plan):
            say(f"warning: {warning}")
        self.plan = pin_image(self.plan, backend.desired_state(self.plan.run), say)
        self.plan = self.plan.model_copy(update={"steps": backend.steps(self.plan)})
        warning = price_warning(self.plan.price) if self.plan.target.is_provisioned else ""
        if not self._is_approved:
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
    if not state.is_over and backend.desired_state(plan.run) is not None:
        return False
    heartbeat, known = (results.heartbeat(), results.plan()) if results else (None, None)
    if not heartbeat or heartbeat.exit_code != 0 or not known or known.spec_hash != plan.spec_hash:
        return False
    # The heartbeat can be of an earlier run with this name.
    return heartbeat.config_hash == config_hash(run_yaml(known).encode())
