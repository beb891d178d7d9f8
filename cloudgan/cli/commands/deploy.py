"""`cloudgan deploy`: plans a run, asks for confirmation, starts it and follows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.api.deploy_attempt import DeploySettings
from cloudgan.api.deployment import deploy_run
from cloudgan.api.job_file import with_job_file
from cloudgan.api.launch_data import NO_SHOWERS
from cloudgan.api.launch_options import DeployOptions
from cloudgan.api.plan_result import PlanResult
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.simulation_plan import simulated_data
from cloudgan.api.sweep import deploy_sweep, make_sweep, parse_seeds, plan_sweep
from cloudgan.api.targets import run_folder
from cloudgan.cli.emit import emit
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import print_json, print_result, print_table, progress_bars
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, ConfirmationError
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds

if TYPE_CHECKING:
    from cloudgan.api.sweep import SweepPlan
    from cloudgan.schema.plan import Plan


@command
def deploy(
    options: DeployOptions, *, as_json: bool = False, clouds: Clouds = BUILT_IN_CLOUDS
) -> None:
    """Runs the command."""
    options = with_job_file(options)
    training, seeds, dry_run, json = options.training, options.seeds, options.dry_run, as_json
    confirmation = _Confirmation(
        yes=options.yes, allow_stale_price=options.allow_stale_price, as_json=json
    )
    if seeds is not None:
        if options.detach:
            raise ConfigError(
                "--detach and --seeds: this machine starts each run when the one before has ended; omit"
                " --detach, or deploy each --seed on its own"
            )
        sweep = make_sweep(parse_seeds(seeds, training), options, options, training)
        if dry_run:
            emit(plan_sweep(sweep, clouds=clouds), as_json=json)
            return
        with progress_bars(as_json=json) as progress:
            ended = deploy_sweep(
                sweep, confirmation.approve_sweep, progress=progress, clouds=clouds
            )
        if json:
            print_json(ended.as_json())
        else:
            print_table(ended.table())
        return
    if dry_run:
        made = make_launch_plan(options, options, training, known_wheels, clouds=clouds)
        emit(PlanResult(plan=made), as_json=json)
        return
    with progress_bars(as_json=json) as progress:
        how = DeploySettings(confirmation.approve, options.detach)
        plan = deploy_run(options, options, training, how, progress=progress, clouds=clouds).plan
    print_result(_result(plan, detached=options.detach), as_json=json)


class _Confirmation(NamedTuple):
    """Shows a plan and asks whether to carry it out."""

    yes: bool
    allow_stale_price: bool
    as_json: bool

    def approve(self, plan: Plan, price_warning: str) -> None:
        self._ask(PlanResult(plan=plan, price_warning=price_warning), plan, price_warning)

    def approve_sweep(self, found: SweepPlan, price_warning: str) -> None:
        self._ask(found, found.plan, price_warning)

    def _ask(self, found: PlanResult | SweepPlan, plan: Plan, price_warning: str) -> None:
        if not self.as_json:
            emit(found, as_json=False)
            sys.stdout.flush()  # a plan that cannot be shown starts nothing
        question = found.question()
        if plan.target.provider == "local":
            return
        if price_warning and self.yes and not self.allow_stale_price:
            try:
                confirm(question, yes=False)
            except ConfirmationError as error:
                raise ConfirmationError(
                    f"{error}. With such a price --yes needs --allow-stale-price"
                ) from error
            return
        confirm(question, yes=self.yes)


def _result(plan: Plan, *, detached: bool) -> dict[str, Any]:
    if detached:
        return {"run": plan.run, "state": "started", "next": f"cloudgan status {plan.run}"}
    folder = run_folder(plan)
    if plan.config.task == "simulate":
        data = simulated_data(plan)
        return {
            "run": plan.run,
            "state": "finished",
            "showers": plan.config.simulation.showers,
            "data": data,
            "next": f"cloudgan train --data={data}",
            "cost": f"cloudgan cost {folder.path}",
            "remove": f"cloudgan down {plan.run}",
        }
    if plan.config.task == "join":
        return {
            "run": plan.run,
            "state": "finished",
            "search": plan.config.join,
            "cost": f"cloudgan cost {folder.path}",
            "remove": f"cloudgan down {plan.run}",
        }
    if plan.config.grid:
        return {
            "run": plan.run,
            "state": "finished",
            "page": str(folder.path / "evolution.html"),
            "next": f"cloudgan generate {folder.path} generated{_suffix(plan)} --cell=mixture",
            "cost": f"cloudgan cost {folder.path}",
            "remove": f"cloudgan down {plan.run}",
        }
    return {
        "run": plan.run,
        "state": "finished",
        "record": str(folder.record_file),
        "checkpoints": str(folder.checkpoints),
        "cost": f"cloudgan cost {folder.path}",
        "remove": f"cloudgan down {plan.run}",
    }


def _suffix(plan: Plan) -> str:
    return ".npz" if plan.showers.source == NO_SHOWERS else ".h5"
