"""`cloudgan deploy`: the plan, then doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.attempt import Manner, print_plan
from cloudgan.cli.deployment import Deployment
from cloudgan.cli.launch_flags import launch_flags
from cloudgan.cli.launch_plan import planned
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.past_attempts import NOTHING_TRIED, Past
from cloudgan.cli.place import folder_of
from cloudgan.cli.pod_wheels import all_wheels, known_wheels
from cloudgan.cli.rent_flags import NOTHING_RENTED, RentFlags, rent_flags
from cloudgan.cli.shared_flags import with_flags
from cloudgan.cli.training_flags import training_flags
from cloudgan.core.errors import ConfigError
from cloudgan.providers.clouds import BUILT_IN, Clouds, built_in

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.core.plan import Plan, Wheel


@with_flags(training=training_flags, launch=launch_flags, rent=rent_flags, clouds=built_in)
def deploy(
    *,
    dry_run: bool = False,
    detach: bool = False,
    yes: bool = False,
    stale_ok: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
    launch: LaunchFlags | None = None,
    rent: RentFlags = NOTHING_RENTED,
    clouds: Clouds = BUILT_IN,
) -> None:
    """Plans a run, asks, starts it, follows it to its end and brings its results here.

    Where rented nodes are not to be had, --fallback says what else may be taken; spot nodes that
    --spot=auto chose become nodes on demand. Each try is an attempt in launch.json.

    Given again it follows the same run, or goes on from its last checkpoint; of a finished run it
    prints the result. Ctrl-C leaves the run alone: `cloudgan status`, `logs`, `cancel` and `down`
    find it again, from any machine.

    Args:
        dry_run: Show the plan and stop; the same as `cloudgan plan`.
        detach: Start it and do not wait.
        yes: Do not ask.
        stale_ok: With --yes, do not ask either where nodes are rented by a price that is undated or
            older than 90 days and that the cloud does not tell anew.
        json: Print the result as JSON.
        training: What is trained, from the flags that commands share.
        launch: Where, likewise.
        rent: What is rented for it, likewise.
        clouds: Those that are known.
    """
    assert launch is not None  # noqa: S101  the decorator gives it
    with shown_progress(as_json=json) as progress:

        def wheels(accelerator: str | None) -> tuple[Wheel, ...]:
            return known_wheels(accelerator) if dry_run else all_wheels(progress, accelerator)

        def again(past: Past) -> Plan:
            return planned(launch, rent, training, wheels, clouds=clouds, past=past)

        plan = again(NOTHING_TRIED)
        if dry_run:
            print_plan(plan, json=json)
            return
        _check_data(plan)
        auto_spot = rent.spot == "auto"
        manner = Manner(yes=yes, stale_ok=stale_ok, json=json, detach=detach, auto_spot=auto_spot)
        plan = Deployment(again, rent, clouds, progress, manner).carry_out(plan).plan
    show(_result(plan, detached=detach), as_json=json)


def _check_data(plan: Plan) -> None:
    if not plan.config.data.path:
        raise ConfigError(
            "no showers named; give --data=FILE.h5, a folder from `cloudgan convert`, or a bucket."
            " `cloudgan plan` assumes the paper's where there are none"
        )


def _result(plan: Plan, *, detached: bool) -> dict[str, Any]:
    folder = folder_of(plan)
    if detached:
        return {"run": plan.run, "state": "started", "look": f"cloudgan status {plan.run}"}
    return {
        "run": plan.run,
        "state": "finished",
        "record": str(folder.record_file),
        "checkpoints": str(folder.checkpoints),
        "cost": f"cloudgan cost {folder.path}",
        "remove": f"cloudgan down {plan.run}",
    }
