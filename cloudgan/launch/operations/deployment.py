"""Carries out a plan, in as many attempts as it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from cloudgan.core.clouds import CLOUDS, check_launchable
from cloudgan.core.errors import BudgetError, CapacityError, CloudganError, PlanError, StockOutError
from cloudgan.core.progress import Progress
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
from cloudgan.launch.operations.current_price import refresh_price
from cloudgan.launch.operations.deploy_attempt import DeployAttempt, DeploySettings
from cloudgan.launch.operations.launch_data import check_startable
from cloudgan.launch.operations.pod_software import all_wheels, known_wheels
from cloudgan.launch.operations.targets import check_not_trained, open_backend, run_folder
from cloudgan.launch.plan.launch_plan import Wheels, make_launch_plan
from cloudgan.launch.plan.request import NO_ATTEMPTS, AttemptHistory, LaunchRequest
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_document import read_plan
from cloudgan.schema.run_state import RunState


class Deployed(NamedTuple):
    """A run that was carried out.

    Attributes:
        plan: Plan of the last attempt.
        state: Final state of the run; None: detached, or finished before.
    """

    plan: Plan
    state: RunState | None


def deploy_run(
    request: LaunchRequest,
    options: DeploySettings,
    *,
    progress: Progress,
    clouds: Clouds = BUILT_IN_CLOUDS,
    preferred_offer: str | None = None,
) -> Deployed:
    """Carries out the plan of a request, on `preferred_offer` if it matches; see `cloudgan.api.deploy`."""

    def replan(history: AttemptHistory) -> Plan:
        history = replace(history, offer=history.offer or preferred_offer)

        def plan_with(wheels: Wheels) -> Plan:
            return make_launch_plan(request, wheels, clouds=clouds, history=history)

        plan = plan_with(known_wheels)
        check_startable(plan)
        if plan.lacks_wheels:
            if plan.target.is_provisioned:  # a missing login is found before the download
                clouds.open(plan.target, progress.say).identify()
            plan = plan_with(partial(all_wheels, progress))
        return plan

    if request.provider in CLOUDS:
        check_launchable(request.provider)
    plan = replan(NO_ATTEMPTS)
    check_not_trained(plan)
    return Deployment(replan, request, clouds, progress, options).run(plan)


@dataclass(frozen=True)
class Deployment:
    """One `deploy` with all its attempts.

    Attributes:
        replan: Returns the plan of the next attempt.
        request: The request, with its fallback.
        clouds: The available clouds.
        progress: Receives what happens.
        options: The options.
    """

    replan: Callable[[AttemptHistory], Plan]
    request: LaunchRequest
    clouds: Clouds
    progress: Progress
    options: DeploySettings

    def run(self, plan: Plan) -> Deployed:
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
            attempt = DeployAttempt(
                plan,
                self.options,
                self.clouds,
                self.progress,
                previous=previous,
                replaces_spot=self.request.market == "auto",
                is_approved=zones is not None,
            )
            try:
                state = attempt.run()
                return Deployed(attempt.plan, state)  # its plan is resolved by then
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
        self.progress.say(f"{plan.target.zone}: {error.reason}. Next zone: {zones[0]}")
        return found.model_copy(
            update={
                "target": found.target.model_copy(update={"zone": zones[0]}),
                "selection": plan.selection,
            }
        )

    def _fall_back(
        self, plan: Plan, history: AttemptHistory, error: CloudganError
    ) -> tuple[AttemptHistory, Plan]:
        why = error.reason
        is_spot = plan.node_pool is not None and plan.node_pool.market == "spot"
        if (
            not plan.target.is_provisioned
            or plan.price is None
            or (self.request.fallback == "none" and not (self.request.market == "auto" and is_spot))
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
