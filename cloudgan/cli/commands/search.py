"""`cloudgan search`: hyper-parameters on this machine, or in the pods of deployments."""

from __future__ import annotations

from typing import Any

from cloudgan.api.search import run_search
from cloudgan.api.search_forecast import forecast_search
from cloudgan.api.search_result import read_search
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.schema.options.training import SearchOptions

_COLUMNS = 120


@command
def search(options: SearchOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    check_report(options.report)
    settings = options.settings
    if options.like and not options.describe:
        raise ConfigError(f"--like={options.like} is only valid with --describe")
    if options.describe:
        _print_forecast(
            options.space, options.training, options.run, settings, options.like, as_json=as_json
        )
        return
    if options.show:
        found = read_search(options.space)
    else:
        keys, config = options.training
        with progress_bars(as_json=as_json) as progress:
            found = run_search(
                options.space,
                keys,
                config=config,
                run=options.run,
                settings=settings,
                progress=progress,
            )
    if options.report:
        write_report_file(found.page(), options.report)
    if as_json:
        print_json(found.as_json())
        return
    for table in found.tables():
        print_table(table, width=_COLUMNS)


def _print_forecast(
    space: str,
    training: tuple[dict[str, Any], str | None],
    run: str | None,
    settings: dict[str, Any],
    like: str | None,
    *,
    as_json: bool,
) -> None:
    keys, config = training
    found = forecast_search(space, keys, config=config, run=run, settings=settings, like=like)
    if as_json:
        print_json(found.as_json())
    else:
        print_table(found.table(), width=_COLUMNS)
