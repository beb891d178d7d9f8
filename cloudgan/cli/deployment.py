"""Carries a plan out, and on the next offer where there is no room for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.cli.attempt import Attempting, reason_of
from cloudgan.cli.fresh_price import refresh_price
from cloudgan.cli.past_attempts import NOTHING_TRIED, Past
from cloudgan.cli.place import folder_of, open_provider
from cloudgan.core import plan as plans
from cloudgan.core.errors import BudgetError, CapacityError, CloudganError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.cli.attempt import Manner
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.plan import Plan
    from cloudgan.core.progress import Progress
    from cloudgan.core.run_state import RunState
    from cloudgan.providers.clouds import Clouds


class Outcome(NamedTuple):
    """How it went.

    Attributes:
        plan: Of the last attempt.
        ended: How the run ended; None: nobody waited, or it was finished before.
    """

    plan: Plan
    ended: RunState | None


@dataclass(frozen=True)
class Deployment:
    """One `deploy`, of as many attempts as it takes.

    Attributes:
        again: Makes the plan of the next attempt.
        rent: What may be taken instead.
        clouds: Those that are known.
        progress: Is told what happens.
        manner: How it is asked and shown.
    """

    again: Callable[[Past], Plan]
    rent: RentFlags
    clouds: Clouds
    progress: Progress
    manner: Manner

    def carry_out(self, plan: Plan) -> Outcome:
        """Does the plan, or goes on with the run where it is; returns when it ended.

        Raises:
            CapacityError: There is no room, and nothing else may be taken.
            PlanError: There is no quota, likewise.
        """
        plan, past, runs = self._continued(plan)
        before: Plan | None = None
        while True:
            plan = plan if runs else self._freshly_priced(plan, past)
            attempting = Attempting(plan, self.clouds, self.progress, self.manner, before)
            try:
                return Outcome(attempting.plan, attempting.carry_out())
            except (CapacityError, PlanError) as error:
                past, following = self._next(attempting.plan, past, error)
                before = self._leave(attempting.plan, following)
                plan, runs = following, False

    def _continued(self, plan: Plan) -> tuple[Plan, Past, bool]:
        """The plan of the run as it goes on, in the store it has and on its offer if it can.

        And whether it runs just now: then the plan is the one that it was started with.
        """
        file = folder_of(plan).path / plans.FILE_NAME
        if not plan.place.is_rented or not file.exists():
            return plan, NOTHING_TRIED, False
        known = plans.read(file)
        if not known.place.is_rented or known.price is None:
            return plan, NOTHING_TRIED, False
        past = Past(offer=known.price.offer, stores={known.place.provider: known.store})
        if known.spec != plan.spec:
            plan = self.again(past)
        if known.spec != plan.spec:
            return plan, NOTHING_TRIED, False
        provider = open_provider(
            known.place, self.progress.say, store=known.store, clouds=self.clouds
        )
        if not provider.state(known.run).is_over:
            return known, past, True
        return self.again(past), past, False

    def _freshly_priced(self, plan: Plan, past: Past) -> Plan:
        """The plan with its offer's price of today, where the cloud tells it."""
        row = plan.price
        if not plan.place.is_rented or row is None:
            return plan
        self.clouds.open(plan.place, self.progress.say)  # without a login there is nothing to price
        if not refresh_price(row, self.progress):
            return plan
        fresh = self.again(replace(past, offer=row.offer))
        return fresh.model_copy(update={"choice": plan.choice})

    def _next(self, plan: Plan, past: Past, error: CloudganError) -> tuple[Past, Plan]:
        why = reason_of(error)
        if not plan.place.is_rented:
            raise error
        is_auto_spot = self.rent.spot == "auto" and _is_spot(plan)
        if plan.price is None or (self.rent.fallback == "none" and not is_auto_spot):
            raise error
        past = past.after(plan, why)
        try:
            following = self.again(past)
        except (PlanError, BudgetError) as none:
            raise type(error)(f"{why}; and nothing else can be taken: {none}") from error
        taken = following.price.offer if following.price else following.place.describe()
        self.progress.say(f"{plan.price.offer}: {why}. Next: {taken}")
        return past, following

    def _leave(self, plan: Plan, following: Plan) -> Plan | None:
        """Removes what a run has in a cloud that it leaves; returns where its checkpoints are."""
        if plan.place.provider == following.place.provider:
            return None
        say = self.progress.say
        try:
            provider = open_provider(plan.place, say, store=plan.store, clouds=self.clouds)
            for what in provider.remove(plan.run):
                say(f"gone: {what}")
        except CloudganError as error:
            say(f"look with `cloudgan doctor` for what is left in {plan.place.provider}: {error}")
        return plan


def _is_spot(plan: Plan) -> bool:
    return plan.rental is not None and plan.rental.market == "spot"
