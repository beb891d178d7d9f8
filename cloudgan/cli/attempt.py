"""One attempt at a run: asks, starts it, follows it to its end, gives back what bills."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.cli.confirmation import confirm
from cloudgan.cli.fresh_price import doubt
from cloudgan.cli.launch_showers import make_ready
from cloudgan.cli.output import show
from cloudgan.cli.pinned_image import pinned
from cloudgan.cli.place import config_here, folder_of, open_provider, resolved
from cloudgan.cli.plan_question import question
from cloudgan.cli.pod_wheels import upload_wheels
from cloudgan.cli.run_watch import RunWatch
from cloudgan.core import plan as plans
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfirmationError,
    Interrupted,
    LaunchError,
    PlanError,
)
from cloudgan.core.heartbeat import configuration_digits
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.spot import Preemption, break_even
from cloudgan.kubernetes.manifests import run_yaml
from cloudgan.launching.carrying import carry
from cloudgan.launching.ending import raise_for
from cloudgan.launching.following import Follower
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.releasing import release
from cloudgan.launching.results import Results
from cloudgan.launching.spot_losses import SpotLosses
from cloudgan.launching.starting import refuse_another, start

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan
    from cloudgan.core.progress import Progress
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.provider import Provider
    from cloudgan.providers.clouds import Clouds

_WHAT_TO_TYPE = re.compile(r"[;.,]? *([Rr]emove (the rest|what|it)|a smaller --nodes|Try again).*$")


@dataclass(frozen=True)
class Manner:
    """How a run is asked for and shown.

    Attributes:
        yes: Nobody is asked.
        stale_ok: Not even where a price is old.
        json: The result is JSON.
        detach: Nobody waits.
        auto_spot: Whether spot nodes that are lost too often are given up.
    """

    yes: bool = False
    stale_ok: bool = False
    json: bool = False
    detach: bool = False
    auto_spot: bool = False


class Attempting:
    """One attempt.

    Args:
        plan: What is meant.
        clouds: Those that are known.
        progress: Is told what happens.
        manner: How.
        before: The attempt before in another cloud, whose checkpoints are there; None: none was.

    Attributes:
        plan: What is meant, by now without placeholders.
    """

    def __init__(
        self,
        plan: Plan,
        clouds: Clouds,
        progress: Progress,
        manner: Manner,
        before: Plan | None = None,
    ) -> None:
        self.plan, self._clouds, self._progress = plan, clouds, progress
        self._manner, self._before = manner, before

    def carry_out(self) -> RunState | None:
        """Does it, or goes on with it; returns how it ended, None where nobody waits for that.

        Raises:
            CapacityError: There is no room; what was made is given back.
            PlanError: There is no quota, or this cloud cannot serve it; nothing was made.
        """
        try:
            return self._carry_out()
        except PlanError as error:
            if self.plan.place.is_rented:
                Ledger(folder_of(self.plan), self.plan).refuse(reason_of(error))
            raise

    def _carry_out(self) -> RunState | None:
        say = self._progress.say
        self.plan = resolved(self.plan, say, self._clouds)
        plan = self.plan
        provider = open_provider(plan.place, say, store=plan.store, clouds=self._clouds)
        results = Results.of(plan)
        there = provider.state(plan.run)
        ended = None
        if not _is_finished(plan, provider, results, there):
            ended = self._launch(provider, results, is_new=there.is_over)
        if results:
            results.fetch_if_there(folder_of(plan), say)
        if ended:
            raise_for(ended, plan, results.heartbeat() if results else None)
        return ended

    def _launch(
        self, provider: Provider, results: Results | None, *, is_new: bool
    ) -> RunState | None:
        folder, ledger = folder_of(self.plan), Ledger(folder_of(self.plan), self.plan, results)
        refuse_another(self.plan, provider)
        if is_new:
            self._ask(provider)
            folder.write_config(config_here(self.plan))
            plans.write(folder.path / plans.FILE_NAME, self.plan)
        plan, say = self.plan, self._progress.say

        def move_data() -> None:
            make_ready(plan.showers, folder, self._progress)
            upload_wheels(plan, self._progress)
            if results:
                results.write_plan(plan)
                if self._before and (old := Results.of(self._before)):
                    carry(old, results, say)

        try:
            start(plan, provider, ledger, say, move_data)
            if self._manner.detach:
                return None
            ended = self._follow(provider, ledger, results)
        except LaunchError as error:
            why = reason_of(error) if isinstance(error, CapacityError) else ""
            release(provider, plan, ledger, "failed", say, why=why)
            raise
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"run {plan.run} goes on without you: `cloudgan status {plan.run}` looks at it,"
                f" `cloudgan cancel {plan.run}` ends it, `cloudgan down {plan.run}` removes it"
            ) from error
        release(provider, plan, ledger, ended.phase, say)
        return ended

    def _ask(self, provider: Provider) -> None:
        """Shows what will be done, and returns when somebody agreed."""
        say = self._progress.say
        for warning in provider.check(self.plan):
            say(f"warning: {warning}")
        self.plan = pinned(self.plan, provider.intent(self.plan.run), say)
        self.plan = self.plan.model_copy(update={"steps": provider.steps(self.plan)})
        plan, manner = self.plan, self._manner
        if not manner.json:
            print_plan(plan, json=False)
        if plan.place.provider == "local":
            return
        why = doubt(plan.price) if plan.place.is_rented else ""
        asked = question(plan, why)
        if why and manner.yes and not manner.stale_ok:
            try:
                confirm(asked, yes=False)
            except ConfirmationError as error:
                raise ConfirmationError(
                    f"{error}. With such a price --yes needs --stale_ok"
                ) from error
            return
        confirm(asked, yes=manner.yes)

    def _follow(self, provider: Provider, ledger: Ledger, results: Results | None) -> RunState:
        plan, say = self.plan, self._progress.say
        watch = RunWatch(plan, ledger, results, self._progress)
        losses = _losses(plan) if self._manner.auto_spot else None

        def see(state: RunState) -> None:
            watch.see(state)
            if losses is None:
                return
            try:
                losses.see(state, utc_moment().timestamp())
            except CapacityError:
                ledger.see_nodes(provider.nodes(plan.run))
                provider.stop(plan.run)
                raise

        return Follower(provider, plan, say, see).follow()


def reason_of(error: CloudganError) -> str:
    """Returns why there was no room, without what to type: that is done already."""
    return _WHAT_TO_TYPE.sub("", str(error)).rstrip(" ;,.")


def print_plan(plan: Plan, *, json: bool) -> None:
    """Shows a plan."""
    if json:
        show(plan.model_dump(mode="json"), as_json=True)
        return
    from cloudgan.cli import plan_view

    for line in plan_view.lines(plan):
        print(line)


def _losses(plan: Plan) -> SpotLosses | None:
    """When spot nodes are lost too often; None where nothing else has a price there."""
    row = plan.price
    if row is None or row.market != "spot":
        return None
    there = load_catalog().find(
        provider=row.provider, node_type=row.node_type, region=row.region, market="on_demand"
    )
    if not there:
        return None
    work = plan.forecast.high_seconds or float(plan.limits.deadline_seconds)
    ratio = row.usd_per_hour / there[0].usd_per_hour
    most = break_even(work, ratio, Preemption(), plan.workers.nodes)
    return SpotLosses(most, plan.workers.nodes)


def _is_finished(plan: Plan, provider: Provider, results: Results | None, state: RunState) -> bool:
    """Whether this very run is done: its provider says so, or its store, when that is gone."""
    if state.phase == "finished":
        there = provider.intent(plan.run)
        return there is not None and there.spec == plan.spec
    if not state.is_over and provider.intent(plan.run) is not None:
        return False
    beat, known = (results.heartbeat(), results.plan()) if results else (None, None)
    if not beat or beat.exit_code != 0 or not known or known.spec != plan.spec:
        return False
    # Not where a run before it had this name, and this one was planned but never began.
    return beat.configuration == configuration_digits(run_yaml(known).encode())
