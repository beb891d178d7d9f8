"""`cloudgan status`: state and cost of launched runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_json, progress_bars
from cloudgan.core.printable import printable

if TYPE_CHECKING:
    from cloudgan.api.runs import RunStatus
    from cloudgan.api.targets import RunLocator


@with_flags(locator=run_flags)
def status(
    name: str | None = None, *, json: bool = False, locator: RunLocator = THIS_FOLDER
) -> None:
    """Prints the state of a run and its cost so far; without a name, of all runs of this folder.

    Args:
        name: Name of the run.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    with progress_bars(as_json=json) as progress:
        if name is None:
            found = runs.list_runs(progress)
        else:
            found = (runs.status(name, locator=locator, progress=progress),)
    if json:
        objects = [one.as_json() for one in found]
        print_json({"runs": objects} if name is None else objects[0])
        return
    if not found:
        print("no run was launched from this folder; `cloudgan deploy` launches one")
    for one in found:
        print_status(one)


def print_status(found: RunStatus) -> None:
    """Prints one run: its workers, its progress and its cost."""
    print(printable(f"{found.plan.run}: {found.phase}, in {found.plan.target.describe()}"))
    for worker in found.state.workers:
        node = f" on {worker.node}" if worker.node else ""
        times = f", replaced {worker.restarts} times" if worker.restarts else ""
        why = f": {worker.reason}" if worker.reason else ""
        print(printable(f"  worker {worker.index}  {worker.phase}{node}{times}{why}"))
    heartbeat = found.heartbeat
    if heartbeat:
        print(f"  epoch {heartbeat.epoch or 0} of {heartbeat.epochs}, {found.progress}")
        if heartbeat.damaged_checkpoints:
            steps = ", ".join(map(str, heartbeat.damaged_checkpoints))
            print(f"  damaged checkpoints, not used: step {steps}")
    if found.state.reason:
        print(printable(f"  {found.state.reason}"))
    if found.usd_so_far is not None and not heartbeat:
        print(f"  {found.usd_so_far:.2f} USD so far")
    if found.budget:
        print(f"  {found.budget}")
