"""`cloudgan adopt`: a run that another machine started, as if it had been started here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.launch_flags import REMEMBERED, where_flags
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.place import config_here, find_run, folder_of
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core import launch
from cloudgan.core import plan as plans
from cloudgan.core.errors import ConfigError
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.results import Results

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.cli.launch_flags import Where
    from cloudgan.core.plan import Plan


@with_flags(where=where_flags)
def adopt(name: str, *, json: bool = False, where: Where = REMEMBERED) -> None:
    """Rebuilds runs/NAME here, of a run that another machine started: plan, times, record.

    What exists is found by its labels, what was meant is read from the run's store. After it
    `status`, `logs`, `cost`, `cancel`, `down` and `deploy` work here as they did there.

    Args:
        name: Of the run.
        json: Print the result as JSON.
        where: It is, from the flags that commands share.
    """
    with shown_progress(as_json=json) as progress:
        plan, opened = find_run(name, **where._asdict(), say=progress.say)
        folder = folder_of(plan)
        _refuse_another(folder.path / plans.FILE_NAME, plan)
        state = opened.state(plan.run)
        results = Results.of(plan)
        folder.write_config(config_here(plan))
        plans.write(folder.path / plans.FILE_NAME, plan)
        ledger = Ledger(folder, plan, results)
        launch.write(folder.launch_file, ledger.read())
        ledger.see(state)
        if plan.rental and not state.is_over:
            ledger.see_nodes(opened.nodes(plan.run))
        came = results.fetch_if_there(folder, progress.say) if results else []
    found: dict[str, Any] = {
        "run": plan.run,
        "state": state.phase,
        "folder": str(folder.path),
        "attempts": len(ledger.read().attempts),
        "fetched": ", ".join(came),
        "look": f"cloudgan status {plan.run}",
    }
    show(found, as_json=json)


def _refuse_another(path: Path, plan: Plan) -> None:
    if path.exists() and plans.read(path).spec != plan.spec:
        raise ConfigError(
            f"{path.parent} holds another run of this name; move it away, or adopt in another folder"
        )
