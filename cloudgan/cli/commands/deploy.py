"""`cloudgan deploy`: plans a run, asks for confirmation, starts it and follows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cloudgan.api.deployment import DeployOptions, deploy_run
from cloudgan.api.launch_request import NOTHING_PROVISIONED, LaunchRequest
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.targets import run_folder
from cloudgan.cli.options.launch_flags import launch_flags, provisioning_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.confirmation import confirm, plan_question
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.cli.views.plan_view import print_plan
from cloudgan.core.errors import ConfirmationError
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds, built_in_clouds

if TYPE_CHECKING:
    from cloudgan.api.launch_request import ProvisioningRequest
    from cloudgan.schema.plan import Plan


@with_flags(
    training=training_flags,
    launch=launch_flags,
    provisioning=provisioning_flags,
    clouds=built_in_clouds,
)
def deploy(
    *,
    dry_run: bool = False,
    detach: bool = False,
    yes: bool = False,
    allow_stale_price: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
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

    Args:
        dry_run: Show the plan and stop; same as `cloudgan plan`.
        detach: Return once the run is started.
        yes: Do not ask for confirmation.
        allow_stale_price: With --yes, accept a price that is undated or older than 90 days and that
            the cloud does not refresh.
        json: Print the result as JSON.
        training: What is trained; from the shared flags.
        launch: Where it is launched; from the shared flags.
        provisioning: Which nodes are created; from the shared flags.
        clouds: The available clouds.
    """
    if dry_run:
        made = make_launch_plan(launch, provisioning, training, known_wheels, clouds=clouds)
        print_plan(made, as_json=json)
        return

    def approve(plan: Plan, price_warning: str) -> None:
        if not json:
            print_plan(plan)
            sys.stdout.flush()  # a plan that cannot be shown starts nothing
        if plan.target.provider == "local":
            return
        question = plan_question(plan, price_warning)
        if price_warning and yes and not allow_stale_price:
            try:
                confirm(question, yes=False)
            except ConfirmationError as error:
                raise ConfirmationError(
                    f"{error}. With such a price --yes needs --allow-stale-price"
                ) from error
            return
        confirm(question, yes=yes)

    with progress_bars(as_json=json) as progress:
        options = DeployOptions(approve, detach)
        plan = deploy_run(
            launch, provisioning, training, options, progress=progress, clouds=clouds
        ).plan
    print_result(_result(plan, detached=detach), as_json=json)


def _result(plan: Plan, *, detached: bool) -> dict[str, Any]:
    if detached:
        return {"run": plan.run, "state": "started", "next": f"cloudgan status {plan.run}"}
    folder = run_folder(plan)
    return {
        "run": plan.run,
        "state": "finished",
        "record": str(folder.record_file),
        "checkpoints": str(folder.checkpoints),
        "cost": f"cloudgan cost {folder.path}",
        "remove": f"cloudgan down {plan.run}",
    }
