"""Carries out a plan, in as many attempts as it takes.

An attempt has its plan approved, starts the run or finds it, follows it, and releases its nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from cloudgan.core.clock import utc_moment, utc_today
from cloudgan.core.clouds import CLOUDS, check_launchable
from cloudgan.core.errors import (
    BudgetError,
    CapacityError,
    CloudganError,
    Interrupted,
    LaunchError,
    PlanError,
    StockOutError,
)
from cloudgan.core.progress import Progress
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.backends.tpu_vm.requests import put_secret
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import open_cloud
from cloudgan.launch.lifecycle.apply import apply, check_same_run, deprovision, release_after
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.ownership import end_waiting
from cloudgan.launch.lifecycle.run_monitor import (
    PreemptionTracker,
    RunMonitor,
    raise_for_outcome,
)
from cloudgan.launch.lifecycle.run_results import RunResults, transfer_checkpoints
from cloudgan.launch.operations.cloud_queries import disable_unless_reachable
from cloudgan.launch.operations.launched_run import RunWatch
from cloudgan.launch.operations.staging import (
    all_wheels,
    check_startable,
    check_this_machine,
    known_wheels,
    showers_in_bucket,
    upload_data,
    upload_wheels,
    with_pulled_image,
)
from cloudgan.launch.operations.targets import (
    check_not_trained,
    local_config,
    open_backend,
    resolve_plan,
    run_folder,
)
from cloudgan.launch.plan.environment import check_variables_set, hide_secrets
from cloudgan.launch.plan.launch_plan import make_launch_plan, on_demand_price
from cloudgan.launch.plan.request import NO_ATTEMPTS, AttemptHistory, LaunchRequest
from cloudgan.money.catalog import Catalog, price_folder
from cloudgan.money.forecast import without_startup
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Plan, Showers, Target
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_state import RunState
from cloudgan.speed.spot import Preemption, break_even
from cloudgan.storage.bucket_showers import is_url


def deploy_run(
    request: LaunchRequest,
    approve: Callable[[Plan, str], None],
    *,
    progress: Progress,
    detach: bool = False,
    preferred_offer: str | None = None,
) -> tuple[Plan, RunState | None]:
    """Carries out the plan of a request, or follows or resumes its run; see `deploy`.

    Args:
        approve: Called with the final plan and a price warning ("": none) before anything is created;
            raises ConfirmationError to stop.
        preferred_offer: Offer that is taken if it matches.

    Returns:
        The plan of the last attempt, and the final state of the run; None: detached, or finished before.

    Raises:
        CapacityError: There is no capacity, and no fallback; created resources were deleted.
        PlanError: There is no quota, or the cloud cannot serve the plan, and no fallback.
    """
    if request.provider in CLOUDS:
        check_launchable(request.provider)
    made = _Deployment(request, approve, progress, detach, preferred_offer)
    made.plan = made.replan(NO_ATTEMPTS)
    check_not_trained(made.plan)
    return made.run()


@dataclass
class _Deployment:
    """One `deploy`; the first fields are the arguments of `deploy_run`.

    Attributes:
        plan: Of the newest attempt; without placeholders once the attempt has started.
        showers: Those of a bucket, once they are counted.
    """

    request: LaunchRequest
    approve: Callable[[Plan, str], None]
    progress: Progress
    detach: bool
    preferred_offer: str | None
    plan: Plan = field(init=False)
    showers: Showers | None = field(init=False, default=None)
    _opened: dict[str, CloudClient] = field(init=False, default_factory=dict)

    def replan(self, history: AttemptHistory) -> Plan:
        """Returns the plan of the next attempt; counts the showers of a bucket, downloads the wheels that it needs."""
        offer = history.offer or self.preferred_offer
        history = replace(history, offer=offer, showers=self.showers)
        plan_with = partial(make_launch_plan, self.request, history=history)
        plan = plan_with(known_wheels)
        check_startable(plan)
        if self.showers is None and is_url(plan.showers.source):
            self.showers = showers_in_bucket(plan.showers.source, self.progress)
            return self.replan(history)
        if not plan.lacks_wheels:
            return plan
        if plan.target.is_provisioned:  # a missing login is found before the download
            self._cloud(plan.target).identify()
        return plan_with(partial(all_wheels, self.progress))

    def run(self) -> tuple[Plan, RunState | None]:
        """Carries out the plan, or follows or resumes its run; returns when the run ended."""
        history, is_running = self._resume()
        previous: Plan | None = None
        zones: tuple[str, ...] | None = None  # of this offer, not tried yet
        while True:
            if zones is None and not is_running:
                self._take_current_price(history)
            try:
                state = self._attempt(previous, is_approved=zones is not None)
            except (CapacityError, PlanError) as error:
                is_running, tried = False, self.plan
                if isinstance(error, PlanError) and tried.target.is_provisioned:
                    LaunchLog(run_folder(tried), tried).record_rejected(error.reason)
                zones = tried.target.zones[1:] if zones is None else zones
                if self._take_next_zone(history, error, zones):
                    zones = zones[1:]
                    continue
                history = self._fall_back(history, error)
                left = tried.target.provider != self.plan.target.provider
                previous, zones = tried if left else None, None
                if left:
                    self._destroy(tried)
            else:
                return self.plan, state

    def _resume(self) -> tuple[AttemptHistory, bool]:
        """Takes the store of an existing run and, if possible, its offer; returns whether it is running.

        Then the plan is the one it was started with.
        """
        plan = self.plan
        file = run_folder(plan).path / plans.FILE_NAME
        if not plan.target.is_provisioned or not file.exists():
            return NO_ATTEMPTS, False
        known = read_plan(file, plan.run)
        if not known.target.is_provisioned or known.price is None:
            return NO_ATTEMPTS, False
        history = replace(
            NO_ATTEMPTS, offer=known.price.offer, stores={known.target.provider: known.store}
        )
        if known.spec_hash != plan.spec_hash:
            self.plan = self.replan(history)
        if known.spec_hash != self.plan.spec_hash:
            return NO_ATTEMPTS, False
        LaunchLog.of(known).refresh()  # its cost on other machines is of the same budget
        is_running = not self._open(known).state(known.run).is_over
        self.plan = known if is_running else self.replan(history)
        return history, is_running

    def _cloud(self, target: Target) -> CloudClient:
        """Opens the client of each target once: a login may start a program and takes seconds."""
        key = target.model_dump_json()
        if key not in self._opened:
            self._opened[key] = open_cloud(target, self.progress.say)
        return self._opened[key]

    def _open(self, plan: Plan) -> JobBackend:
        cloud = self._cloud(plan.target) if plan.target.is_provisioned else None
        return open_backend(plan.target, self.progress.say, store=plan.store, cloud=cloud)

    def _take_current_price(self, history: AttemptHistory) -> None:
        """Plans with today's price of the offer, if the cloud has one."""
        row = self.plan.price
        if not self.plan.target.is_provisioned or row is None:
            return
        self._cloud(self.plan.target)  # fails without a login
        if refresh_price(row, self.progress):
            current = self.replan(replace(history, offer=row.offer))
            self.plan = current.model_copy(update={"selection": self.plan.selection})

    def _take_next_zone(
        self, history: AttemptHistory, error: CloudganError, zones: tuple[str, ...]
    ) -> bool:
        """Plans the same offer in the next zone; returns whether there is one to try."""
        plan = self.plan
        if not isinstance(error, StockOutError) or not zones or plan.price is None:
            return False
        again = replace(history, first=history.first or plan, offer=plan.price.offer)
        again = replace(again, stores={plan.target.provider: plan.store, **history.stores})
        try:
            found = self.replan(again)  # the budget pays for the earlier zones too
        except (PlanError, BudgetError):
            return False
        is_same = found.price is not None and found.price.offer == plan.price.offer
        if not is_same or found.workers.nodes != plan.workers.nodes:
            return False
        self.progress.say(f"{plan.target.zone}: {error.reason}. Next zone: {zones[0]}")
        target = found.target.model_copy(update={"zone": zones[0]})
        self.plan = found.model_copy(update={"target": target, "selection": plan.selection})
        return True

    def _fall_back(self, history: AttemptHistory, error: CloudganError) -> AttemptHistory:
        """Plans another offer, if the request allows one; else raises the error."""
        plan, why = self.plan, error.reason
        is_spot = plan.node_pool is not None and plan.node_pool.market == "spot"
        may_fall_back = self.request.fallback != "none" or (
            self.request.market == "auto" and is_spot
        )
        if not plan.target.is_provisioned or plan.price is None or not may_fall_back:
            raise error
        history = history.after(plan, why)
        try:
            self.plan = self.replan(history)
        except (PlanError, BudgetError) as none:
            raise type(error)(f"{why}; no other offer is left: {none}") from error
        offer = self.plan.price.offer if self.plan.price else self.plan.target.describe()
        self.progress.say(f"{plan.price.offer}: {why}. Next: {offer}")
        return history

    def _destroy(self, left: Plan) -> None:
        """Deletes a run's resources in a cloud that it leaves."""
        try:
            for deleted in self._open(left).destroy(left.run):
                self.progress.say(f"deleted: {deleted}")
        except CloudganError as error:
            self.progress.say(
                f"deletion in {left.target.provider} failed: {error}; run `cloudgan doctor` to see"
                " what is left"
            )

    def _attempt(self, previous: Plan | None, *, is_approved: bool) -> RunState | None:
        """Starts or resumes the run; returns its final state, or None if it is not awaited.

        Args:
            previous: Plan of an earlier attempt in another cloud, whose store has the checkpoints.
            is_approved: Whether the user has approved the same nodes in another zone.
        """
        say = self.progress.say
        hide_secrets(self.plan.workers)
        if self.plan.target.is_provisioned:
            disable_unless_reachable()
            self.plan = resolve_plan(self.plan, self._cloud(self.plan.target))
        backend = self._open(self.plan)
        self._use_kept_nodes(backend)
        plan = self.plan
        results = RunResults.from_plan(plan)
        state = backend.state(plan.run)
        ended = None
        if not _is_finished(plan, backend, results, state):
            check_same_run(plan, backend)
            if state.is_over:
                self._approve(backend, results, is_approved=is_approved)
            # One that is followed may end before the next look: it is not started again, unasked.
            may_start = state.is_over or state.phase == "stopping"
            ended = self._launch(backend, self._log(results), previous, may_start=may_start)
        elif self._release_unattended(backend, results):
            ended = state
        plan, log = self.plan, self._log(results)
        if results:
            if not (log.folder.path / plans.FILE_NAME).exists():  # started elsewhere
                plans.write(log.folder.path / plans.FILE_NAME, plan)
            log.fetch(say)
        if ended:
            raise_for_outcome(ended, plan, results.heartbeat() if results else None)
        return ended

    def _log(self, results: RunResults | None) -> LaunchLog:
        return LaunchLog(run_folder(self.plan), self.plan, results)

    def _use_kept_nodes(self, backend: JobBackend) -> None:
        """Plans with the nodes that an earlier run kept (`--keep-nodes`), if some wait."""
        found = backend.on_kept_nodes(self.plan)
        pool = found.node_pool
        if pool and pool.served_runs > 1 and pool.reused:
            self.progress.say(
                f"the nodes that run {pool.reused.previous} keeps are used: none are created"
            )
            found = found.model_copy(update={"cost": without_startup(found)})
            found = found.model_copy(update={"steps": backend.steps(found)})
        self.plan = found

    def _release_unattended(self, backend: JobBackend, results: RunResults | None) -> bool:
        """Releases the nodes of a run that finished while it was not followed; returns whether it did."""
        started = backend.desired_state(self.plan.run)
        if started is None or not started.target.is_provisioned:
            return False
        launch_log = LaunchLog(run_folder(started), started, results)
        if launch_log.is_complete():
            return False
        self.plan = started
        deprovision(backend, launch_log, "finished", self.progress.say)
        return True

    def _approve(
        self, backend: JobBackend, results: RunResults | None, *, is_approved: bool
    ) -> None:
        """Completes the plan, has it approved, and writes it to the folder of the run."""
        plan, folder, say = self.plan, run_folder(self.plan), self.progress.say
        check_variables_set(plan.workers)
        machine = check_this_machine(plan)
        for warning in (*backend.check(plan), *([machine] if machine else [])):
            say(f"warning: {warning}")
        plan = with_pulled_image(plan, self._log(results).read(), say)
        self.plan = plan = plan.model_copy(update={"steps": backend.steps(plan)})
        if not is_approved:
            self.progress.end()  # the plan is printed, and a question asked
            self.approve(plan, price_warning(plan.price) if plan.target.is_provisioned else "")
        folder.write_config(local_config(plan))
        plans.write(folder.path / plans.FILE_NAME, plan)

    def _launch(
        self,
        backend: JobBackend,
        launch_log: LaunchLog,
        previous: Plan | None,
        *,
        may_start: bool,
    ) -> RunState | None:
        """Starts the run unless it runs, follows it, and releases its nodes."""
        plan, progress, say = self.plan, self.progress, self.progress.say
        folder, results = launch_log.folder, launch_log.results

        def upload() -> None:
            upload_data(plan, folder, progress)
            upload_wheels(plan, progress)
            if results:
                results.write_plan(plan)
                put_secret(plan, results.store)
                if previous and (old := RunResults.from_plan(previous)):
                    transfer_checkpoints(old, results, say)

        apply(plan, backend, launch_log, say, upload, may_start=may_start)
        progress.end()  # of the uploads
        end_waiting(plan, say)
        if self.detach:
            return None
        try:
            ended = self._follow(backend, launch_log)
        except LaunchError as error:
            release_after(error, backend, launch_log, say)
            raise
        except (KeyboardInterrupt, CloudganError) as error:
            continues = (
                f"run {plan.run} continues; `cloudgan status {plan.run}` shows it, `cloudgan cancel"
                f" {plan.run}` stops it, `cloudgan down {plan.run}` deletes its resources"
            )
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(continues) from error
            # Such as of a login that expired or of a store: the run needs neither of this machine.
            lost = CloudganError(str(error), hint=continues)
            lost.exit_code = error.exit_code
            raise lost from error
        deprovision(backend, launch_log, ended.phase, say)
        return ended

    def _follow(self, backend: JobBackend, launch_log: LaunchLog) -> RunState:
        plan = self.plan
        watch = RunWatch(launch_log, self.progress)
        preemptions = _preemption_tracker(plan) if self.request.market == "auto" else None

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

        return RunMonitor(backend, plan, self.progress.say, see).follow()


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


def refresh_price(row: PriceRow, progress: Progress) -> bool:
    """Fetches the price of an offer from its cloud, once; returns whether it was refreshed.

    AWS' list prices are one file of hundreds of megabytes per region, which is fetched only if the
    known price is stale.
    """
    today = utc_today()
    if row.age_days(today) == 0:
        return False
    if (row.provider, row.market) == ("aws", "on_demand") and not row.is_stale(today):
        return False
    from cloudgan.money.refresh.feeds import feeds_by_provider, refresh
    from cloudgan.money.refresh.web import Web

    try:
        parts = feeds_by_provider(progress, utc_moment(), Web(attempts=1), Catalog((row,)))[
            row.provider
        ]
        of_market = [part for part in parts if row.market in part.markets]
        outcome = refresh(row.provider, of_market, price_folder())
    except CloudganError as error:
        progress.say(f"the price was not refreshed: {error}")
        return False
    if outcome.state != "refreshed":
        for reason in outcome.notes:
            progress.say(f"the price was not refreshed: {reason}")
    return outcome.state == "refreshed"


def price_warning(row: PriceRow | None) -> str:
    """Returns a warning if a price is stale or undated; else an empty string."""
    if row is None or not row.is_stale(utc_today()):
        return ""
    return f"the price of {row.offer} is of {row.age_text(utc_today())}"
