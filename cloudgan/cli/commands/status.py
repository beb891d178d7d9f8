"""`cloudgan status`: state and cost of launched runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.grid_status import find_grid, grid_view
from cloudgan.api.sweep import runs_of
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.core.errors import ConfigError
from cloudgan.core.printable import printable

if TYPE_CHECKING:
    from cloudgan.api.grid_status import GridView
    from cloudgan.api.runs import RunStatus
    from cloudgan.api.targets import RunLocator


@with_flags(locator=run_flags)
def status(
    name: str | None = None,
    *,
    metrics: bool = False,
    json: bool = False,
    locator: RunLocator = THIS_FOLDER,
) -> None:
    """Prints the state of a run and its cost so far; without a name, of all runs of this folder.

    Args:
        name: Name of the run, or of a sweep of seeds; or the folder of a grid of `cloudgan evolve`.
        metrics: Print cost, progress and state in Prometheus' text format instead.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    if metrics and json:
        raise ConfigError("--metrics or --json, not both: each is the whole output")
    grid = None if name is None else find_grid(name)
    if grid:
        if metrics:
            raise ConfigError("--metrics is of launched runs, and this is a grid of cells; omit it")
        _print_grid(grid_view(grid), as_json=json)
        return
    with progress_bars(as_json=json or metrics) as progress:
        if name is None:
            found = runs.list_runs(progress)
        else:
            names = runs_of(name, locator)
            found = tuple(runs.status(one, locator=locator, progress=progress) for one in names)
    if json:
        objects = [one.as_json() for one in found]
        print_json(objects[0] if name is not None and len(objects) == 1 else {"runs": objects})
        return
    if metrics:
        from cloudgan.cli.views.prometheus import exposition, run_metrics

        print(exposition(run_metrics(found)), end="")
        return
    if not found:
        print("no run was launched from this folder; `cloudgan deploy` launches one")
    for one in found:
        print_status(one)


def _print_grid(found: GridView, *, as_json: bool = False) -> None:
    if as_json:
        print_json(found.as_json())
        return
    for line in found.lines():
        print(printable(line))
    print_table(found.table())


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
        trains = found.plan.config.task == "train"
        unit = "iteration" if found.plan.config.grid else "epoch"
        epoch = f"{unit} {heartbeat.epoch or 0} of {heartbeat.epochs}, " if trains else ""
        print(f"  {epoch}{found.progress}")
        if heartbeat.damaged_checkpoints:
            steps = ", ".join(map(str, heartbeat.damaged_checkpoints))
            print(f"  damaged checkpoints, not used: step {steps}")
    if found.state.reason:
        print(printable(f"  {found.state.reason}"))
    if found.usd_so_far is not None and not heartbeat:
        print(f"  {found.usd_so_far:.2f} USD so far")
    if found.budget:
        print(f"  {found.budget}")
    if found.cells:
        _print_grid(found.cells)
