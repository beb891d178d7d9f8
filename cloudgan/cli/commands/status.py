"""`cloudgan status`: state, progress and cost of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api import runs
from cloudgan.api.targets import THIS_FOLDER
from cloudgan.cli.emit import emit
from cloudgan.cli.options.launch_flags import run_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import progress_bars
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
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
        name: Name or folder of a run, or name of a sweep of seeds. Default: all runs.
        metrics: Print cost, progress and state in Prometheus' text format instead.
        json: Print the result as JSON.
        locator: Where the run is; from the shared flags.
    """
    if metrics and json:
        raise ConfigError("--metrics or --json, not both: each is the whole output")
    with progress_bars(as_json=json or metrics) as progress:
        found = runs.status(name, locator=locator, progress=progress)
    if metrics:
        from cloudgan.cli.views.prometheus import exposition, run_metrics

        print(exposition(run_metrics(found)), end="")
        return
    emit(found, as_json=json)
