"""`cloudgan status`: state and cost of launched runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.grid_status import find_grid, grid_view
from cloudgan.api.sweep import runs_of
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.printable import printable
from cloudgan.schema.options.runs import StatusOptions

if TYPE_CHECKING:
    from cloudgan.api.grid_status import GridView
    from cloudgan.api.runs import RunStatus


@command
def status(options: StatusOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if options.metrics and as_json:
        raise ConfigError("--metrics or --json, not both: each is the whole output")
    grid = None if options.run is None else find_grid(options.run)
    if grid:
        if options.metrics:
            raise ConfigError("--metrics is of launched runs, and this is a grid of cells; omit it")
        _print_grid(grid_view(grid), as_json=as_json)
        return
    with progress_bars(as_json=as_json or options.metrics) as progress:
        if options.run is None:
            found = runs.list_runs(progress)
        else:
            names = runs_of(options.run, options.locator)
            found = tuple(
                runs.status(one, locator=options.locator, progress=progress) for one in names
            )
    if as_json:
        objects = [one.as_json() for one in found]
        print_json(
            objects[0] if options.run is not None and len(objects) == 1 else {"runs": objects}
        )
        return
    if options.metrics:
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
