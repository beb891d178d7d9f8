"""`cloudgan cancel`: ends a run's job, which saves first; it can go on later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.launch_flags import REMEMBERED, where_flags
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.place import find_run, folder_of
from cloudgan.cli.shared_flags import with_flags
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.releasing import given_back
from cloudgan.launching.results import Results

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import Where


@with_flags(where=where_flags)
def cancel(
    name: str,
    *,
    json: bool = False,
    where: Where = REMEMBERED,
) -> None:
    """Ends the job of a run; its workers save a checkpoint first. `deploy` goes on from there.

    Args:
        name: Of the run.
        json: Print the result as JSON.
        where: It is, from the flags that commands share.
    """
    with shown_progress(as_json=json) as progress:
        plan, opened = find_run(name, **where._asdict(), say=progress.say)
        results = Results.of(plan)
        ledger = Ledger(folder_of(plan), plan, results)
        ledger.see(opened.state(plan.run))
        progress.start(f"ending {plan.run}")

        def stop() -> tuple[str, ...]:
            opened.stop(plan.run)
            return ()

        for what in given_back(opened, plan, ledger, stop):
            progress.say(f"gone: {what}")
        ledger.see(opened.state(plan.run))
        came = results.fetch_if_there(folder_of(plan), progress.say) if results else []
    show({"run": plan.run, "state": "stopped", "fetched": ", ".join(came)}, as_json=json)
