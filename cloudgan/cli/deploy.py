"""`cloudgan deploy`: the plan, then doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.confirmation import confirm
from cloudgan.cli.launch_flags import launch_flags
from cloudgan.cli.launch_plan import planned
from cloudgan.cli.launch_showers import make_ready
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.pinned_image import pinned
from cloudgan.cli.place import config_here, folder_of, open_provider, resolved
from cloudgan.cli.pod_wheels import all_wheels, known_wheels, upload_wheels
from cloudgan.cli.rent_flags import NOTHING_RENTED, RentFlags, rent_flags
from cloudgan.cli.run_watch import RunWatch
from cloudgan.cli.shared_flags import with_flags
from cloudgan.cli.training_flags import training_flags
from cloudgan.core import plan as plans
from cloudgan.core.errors import ConfigError, Interrupted, LaunchError
from cloudgan.core.heartbeat import configuration_digits
from cloudgan.kubernetes.manifests import run_yaml
from cloudgan.launching.ending import raise_for
from cloudgan.launching.following import Follower
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.releasing import release
from cloudgan.launching.results import Results
from cloudgan.launching.starting import refuse_another, start

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.core.plan import Plan, Wheel
    from cloudgan.core.progress import Progress
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.provider import Provider

_ASKED_ABOVE_GIB = 5.0


@with_flags(training=training_flags, launch=launch_flags, rent=rent_flags)
def deploy(
    *,
    dry_run: bool = False,
    detach: bool = False,
    yes: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
    launch: LaunchFlags | None = None,
    rent: RentFlags = NOTHING_RENTED,
) -> None:
    """Plans a run, asks, starts it, follows it to its end and brings its results here.

    Given again it follows the same run, or goes on from its last checkpoint; of a finished run it
    prints the result. Ctrl-C leaves the run alone: `cloudgan status`, `logs`, `cancel` and `down`
    find it again, from any machine.

    Args:
        dry_run: Show the plan and stop; the same as `cloudgan plan`.
        detach: Start it and do not wait.
        yes: Do not ask.
        json: Print the result as JSON.
        training: What is trained, from the flags that commands share.
        launch: Where, likewise.
        rent: What is rented for it, likewise.
    """
    assert launch is not None  # noqa: S101  the decorator gives it
    with shown_progress(as_json=json) as progress:

        def wheels(accelerator: str | None) -> tuple[Wheel, ...]:
            return known_wheels(accelerator) if dry_run else all_wheels(progress, accelerator)

        plan = planned(launch, rent, training, wheels)
        if dry_run:
            _print(plan, json=json)
            return
        _check_data(plan)
        plan = resolved(plan, progress.say)
        provider = open_provider(plan.place, progress.say, store=plan.store)
        results = Results.of(plan)
        there, ended = provider.state(plan.run), None
        if not _is_finished(plan, provider, results, there):
            how = {"is_new": there.is_over, "yes": yes, "json": json, "detach": detach}
            ended = _launch(plan, provider, results, progress, **how)
        if results:
            results.fetch_if_there(folder_of(plan), progress.say)
        if ended:
            raise_for(ended, plan, results.heartbeat() if results else None)
    show(_result(plan, detached=detach), as_json=json)


def _launch(
    plan: Plan,
    provider: Provider,
    results: Results | None,
    progress: Progress,
    *,
    is_new: bool,
    yes: bool,
    json: bool,
    detach: bool,
) -> RunState | None:
    """Starts a run and follows it; returns how it ended, None where nobody waits for that."""
    folder, ledger = folder_of(plan), Ledger(folder_of(plan), plan, results)
    refuse_another(plan, provider)
    if is_new:
        for warning in provider.check(plan):
            progress.say(f"warning: {warning}")
        plan = pinned(plan, provider.intent(plan.run), progress.say)
        plan = plan.model_copy(update={"steps": provider.steps(plan)})
        if not json:
            _print(plan, json=False)
        if plan.place.provider != "local":
            confirm(_question(plan), yes=yes)
        folder.write_config(config_here(plan))
        plans.write(folder.path / plans.FILE_NAME, plan)

    def move_data() -> None:
        make_ready(plan.showers, folder, progress)
        upload_wheels(plan, progress)
        if results:
            results.write_plan(plan)

    try:
        start(plan, provider, ledger, progress.say, move_data)
        if detach:
            return None
        watch = RunWatch(plan, ledger, results, progress)
        ended = Follower(provider, plan, progress.say, watch.see).follow()
    except LaunchError:
        release(provider, plan, ledger, "failed", progress.say)
        raise
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"run {plan.run} goes on without you: `cloudgan status {plan.run}` looks at it,"
            f" `cloudgan cancel {plan.run}` ends it, `cloudgan down {plan.run}` removes it"
        ) from error
    release(provider, plan, ledger, ended.phase, progress.say)
    return ended


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


def _check_data(plan: Plan) -> None:
    if not plan.config.data.path:
        raise ConfigError(
            "no showers named; give --data=FILE.h5, a folder from `cloudgan convert`, or a bucket."
            " `cloudgan plan` assumes the paper's where there are none"
        )


def _question(plan: Plan) -> str:
    showers = plan.showers
    moved = ""
    if showers.upload_to and (showers.gib or 0) > _ASKED_ABOVE_GIB:
        moved = f" and upload {showers.gib:.1f} GiB"
    ahead = plan.forecast
    cost = f" for up to {ahead.high_usd:.2f} USD" if ahead.high_usd is not None else ""
    return f"Start {plan.workers.nodes} workers in {plan.place.describe()}{moved}{cost}?"


def _print(plan: Plan, *, json: bool) -> None:
    if json:
        show(plan.model_dump(mode="json"), as_json=True)
        return
    from cloudgan.cli import plan_view

    for line in plan_view.lines(plan):
        print(line)


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
