"""`cloudgan status`: the runs of this folder once, again and again, or for Prometheus."""

from __future__ import annotations

import functools

from cloudgan.cli.emit import emit
from cloudgan.cli.views.watch import watch
from cloudgan.core.command import body_of, command
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.launch.operations import runs
from cloudgan.launch.operations.run_status import RunList, RunStatus
from cloudgan.schema.options.runs import StatusOptions

_SECONDS = 2.0


@command
def status(
    options: StatusOptions,
    *,
    progress: Progress,
    as_json: bool = False,
    verbose: bool = False,
) -> RunStatus | RunList | None:
    """Returns the state, or shows it until Ctrl-C."""
    if options.metrics and (as_json or options.watch):
        raise ConfigError("--metrics, --json and --watch are the whole output: give one of them")
    refresh = functools.partial(body_of(runs.status), options, progress=progress)
    if options.watch:
        seconds = _SECONDS if options.watch is True else options.watch
        watch(refresh, functools.partial(emit, as_json=as_json, verbose=verbose), seconds)
        return None
    found: RunStatus | RunList = refresh()
    if options.metrics:
        from cloudgan.cli.views.prometheus import exposition, run_metrics

        print(exposition(run_metrics(found)), end="")
        return None
    return found
