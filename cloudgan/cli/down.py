"""`cloudgan down`: removes what was made for a run, and says what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.confirmation import confirm
from cloudgan.cli.launch_flags import REMEMBERED, where_flags
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.place import find_run, folder_of
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.clock import utc_moment
from cloudgan.launching.ledger import Ledger, spent_usd
from cloudgan.launching.releasing import given_back
from cloudgan.launching.results import Results

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import Where


@with_flags(where=where_flags)
def down(
    name: str,
    *,
    purge: bool = False,
    yes: bool = False,
    json: bool = False,
    where: Where = REMEMBERED,
) -> None:
    """Ends a run and removes all that was made for it; given again, it finds nothing and is fine.

    Record and checkpoints stay: in the store until --purge, and in runs/NAME here.

    Args:
        name: Of the run.
        purge: Remove the run's folder in the store too.
        yes: Do not ask, where --purge would.
        json: Print the result as JSON.
        where: It is, from the flags that commands share.
    """
    with shown_progress(as_json=json) as progress:
        plan, opened = find_run(name, **where._asdict(), say=progress.say)
        results = Results.of(plan)
        ledger = Ledger(folder_of(plan), plan, results)
        if purge and results:
            confirm(f"Remove all checkpoints and logs of {plan.run} in {plan.store}?", yes=yes)
        ledger.see(opened.state(plan.run))
        progress.start(f"removing {plan.run}")
        removed = []
        for what in given_back(opened, plan, ledger, lambda: opened.remove(plan.run)):
            progress.say(f"gone: {what}")
            removed.append(what)
        ledger.see(opened.state(plan.run))
        if results and not purge:
            results.fetch_if_there(folder_of(plan), progress.say)
        purged = results.purge() if results and purge else 0
    found: dict[str, Any] = {"run": plan.run, "removed": removed, "purged_files": purged}
    if plan.price:
        found["usd"] = round(spent_usd(ledger.read(), utc_moment().timestamp()), 4)
    if json:
        show(found, as_json=True)
        return
    print(f"{plan.run}: {len(removed)} removed" if removed else f"{plan.run}: nothing was left")
    if purged:
        print(f"{purged} files removed from {plan.store}")
    if "usd" in found:
        print(
            f"it cost about {found['usd']:.2f} USD; `cloudgan cost runs/{plan.run}` tells the parts"
        )
