"""`cloudgan deploy`: plans a run, asks for confirmation, starts it and follows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.api.deploy_attempt import DeployOptions
from cloudgan.api.deployment import deploy_run
from cloudgan.api.grid_options import grid_keys
from cloudgan.api.launch_data import NO_SHOWERS
from cloudgan.api.launch_request import NOTHING_PROVISIONED, LaunchRequest
from cloudgan.api.plan_result import PlanResult
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.simulation_plan import simulated_data
from cloudgan.api.sweep import deploy_sweep, make_sweep, parse_seeds, plan_sweep
from cloudgan.api.targets import run_folder
from cloudgan.cli.options.grid_flags import grid_flags
from cloudgan.cli.options.launch_flags import launch_flags, provisioning_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.simulation_flags import simulation_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.confirmation import confirm
from cloudgan.cli.views.output import (
    print_json,
    print_result,
    print_table,
    print_view,
    progress_bars,
)
from cloudgan.core.errors import ConfigError, ConfirmationError
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds, built_in_clouds

if TYPE_CHECKING:
    from cloudgan.api.launch_request import ProvisioningRequest
    from cloudgan.api.sweep import SweepPlan
    from cloudgan.schema.plan import Plan


@with_flags(
    training=training_flags,
    simulation=simulation_flags,
    grid=grid_flags,
    launch=launch_flags,
    provisioning=provisioning_flags,
    clouds=built_in_clouds,
)
def deploy(
    *,
    seeds: str | None = None,
    dry_run: bool = False,
    detach: bool = False,
    yes: bool = False,
    allow_stale_price: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
    simulation: dict[str, Any] = {},  # noqa: B006  not changed
    grid: dict[str, Any] = {},  # noqa: B006  not changed
    launch: LaunchRequest = LaunchRequest(),  # noqa: B008  frozen
    provisioning: ProvisioningRequest = NOTHING_PROVISIONED,
    clouds: Clouds = BUILT_IN_CLOUDS,
) -> None:
    """Plans a run, asks for confirmation, starts it, follows it and fetches its results.

    Without capacity, --fallback selects other offers; with --market=auto, on-demand nodes replace
    spot nodes. Each try is an attempt in launch.json.

    Rerun the command to follow the run, to resume it, or to print the result of a finished run.
    Ctrl-C leaves the run running: `cloudgan status`, `logs`, `cancel` and `down` work from any
    machine.

    --seeds=1,2,3 makes one run per seed, NAME-seed-1 and so on, one after another; on a cloud on the same
    nodes. --budget-usd and --max-hours hold for all of them. `status`, `cancel` and `down` take NAME.

    Args:
        seeds: One run per seed, such as 1,2,3; each has an equal share of --budget-usd and --max-hours.
        dry_run: Show the plan and stop; same as `cloudgan plan`.
        detach: Return once the run is started.
        yes: Do not ask for confirmation.
        allow_stale_price: With --yes, accept a price that is undated or older than 90 days and that
            the cloud does not refresh.
        json: Print the result as JSON.
        training: What is trained; from the shared flags.
        simulation: What is simulated; from the shared flags.
        grid: Which cells evolve instead; from the shared flags.
        launch: Where it is launched; from the shared flags.
        provisioning: Which nodes are created; from the shared flags.
        clouds: The available clouds.
    """
    training = training[0] | simulation | grid_keys(grid), training[1]
    confirmation = _Confirmation(yes=yes, allow_stale_price=allow_stale_price, as_json=json)
    if seeds is not None:
        if detach:
            raise ConfigError(
                "--detach and --seeds: this machine starts each run when the one before has ended; omit"
                " --detach, or deploy each --seed on its own"
            )
        sweep = make_sweep(parse_seeds(seeds, training), launch, provisioning, training)
        if dry_run:
            print_view(plan_sweep(sweep, clouds=clouds), as_json=json)
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
        made = make_launch_plan(launch, provisioning, training, known_wheels, clouds=clouds)
        print_view(PlanResult(plan=made), as_json=json)
        return
    with progress_bars(as_json=json) as progress:
        options = DeployOptions(confirmation.approve, detach)
        plan = deploy_run(
            launch, provisioning, training, options, progress=progress, clouds=clouds
        ).plan
    print_result(_result(plan, detached=detach), as_json=json)


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
            print_view(found, as_json=False)
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
