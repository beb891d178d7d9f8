"""`cloudgan status`: how a launched run is doing, and what it cost so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.launch_flags import REMEMBERED, where_flags
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.place import RUNS, find_run, folder_of, open_provider
from cloudgan.cli.run_watch import budget_note, note, state_json
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core import plan as plans
from cloudgan.core.clock import utc_moment
from cloudgan.launching.ledger import Ledger, spent_usd
from cloudgan.launching.results import Results

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.plan import Plan
    from cloudgan.launching.provider import Provider


@with_flags(where=where_flags)
def status(
    name: str | None = None,
    *,
    json: bool = False,
    where: Where = REMEMBERED,
) -> None:
    """Tells how a run is doing; without a name, all runs that this folder knows.

    Args:
        name: Of the run.
        json: Print the result as JSON.
        where: It is, from the flags that commands share.
    """
    with shown_progress(as_json=json) as progress:
        if name is None:
            found = [
                _look(plan, open_provider(plan.place, progress.say, store=plan.store))
                for plan in _known()
            ]
        else:
            plan, opened = find_run(name, **where._asdict(), say=progress.say)
            found = [_look(plan, opened)]
    if name is not None and json:
        show(found[0], as_json=True)
    elif json:
        show({"runs": found}, as_json=True)
    elif not found:
        print("no run was launched from this folder; `cloudgan deploy` launches one")
    for one in () if json else found:
        _print(one)


def _known() -> list[Plan]:
    return [plans.read(path) for path in sorted(RUNS.glob(f"*/{plans.FILE_NAME}"))]


def _look(plan: Plan, provider: Provider) -> dict[str, Any]:
    state = provider.state(plan.run)
    results = Results.of(plan)
    ledger = Ledger(folder_of(plan), plan, results)
    ledger.see(state)
    beat = results.heartbeat() if results else None
    usd = spent_usd(ledger.read(), utc_moment().timestamp()) if plan.price else None
    if state.is_over and beat and beat.exit_code == 0 and state.phase in ("absent", "stopped"):
        phase = "finished"  # its job is gone, and its store tells how it ended
    else:
        phase = state.phase
    return {
        "run": plan.run,
        "where": plan.place.describe(),
        **state_json(state),
        "phase": phase,
        "heartbeat": beat.model_dump(mode="json") if beat else None,
        "progress": note(plan, beat, usd) if beat else None,
        "usd_so_far": usd,
        "budget": told.line if (told := budget_note(plan, usd)) else None,
        "deadline_seconds": plan.limits.deadline_seconds,
    }


def _print(one: dict[str, Any]) -> None:
    print(f"{one['run']}: {one['phase']}, in {one['where']}")
    for worker in one["workers"]:
        where = f" on {worker['node']}" if worker["node"] else ""
        times = f", replaced {worker['replaced']} times" if worker["replaced"] else ""
        why = f": {worker['why']}" if worker["why"] else ""
        print(f"  worker {worker['index']}  {worker['phase']}{where}{times}{why}")
    beat = one["heartbeat"]
    if beat:
        print(f"  epoch {beat['epoch'] or 0} of {beat['epochs']}, {one['progress']}")
    if one["why"]:
        print(f"  {one['why']}")
    if one["usd_so_far"] is not None and not beat:
        print(f"  {one['usd_so_far']:.2f} USD so far")
    if one["budget"]:
        print(f"  {one['budget']}")
