"""`cloudgan crossvalidate`: one run per fold on this machine."""

from __future__ import annotations

from cloudgan.api.crossvalidation import read_crossvalidation, run_crossvalidation
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.training import CrossvalidateOptions

_COLUMNS = 120


@command
def crossvalidate(options: CrossvalidateOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    keys, config = options.training
    if options.show:
        found = read_crossvalidation(options.show)
    else:
        with progress_bars(as_json=as_json) as progress:
            found = run_crossvalidation(
                keys,
                config=config,
                run=options.run,
                folds=options.folds,
                repeats=options.repeats,
                blocks=options.blocks,
                objective=options.objective,
                progress=progress,
            )
    if as_json:
        print_json(found.as_json())
    else:
        print_table(found.table(), width=_COLUMNS)
