"""`cloudgan evolve`: a grid of cells whose generators and discriminators compete."""

from __future__ import annotations

from cloudgan.api.evolve import evolve as run_evolution
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.core.command import body_of, command
from cloudgan.schema.options.training import EvolveOptions

_COLUMNS = 120


@command
def evolve(options: EvolveOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    with progress_bars(as_json=as_json) as progress:
        found = body_of(run_evolution)(options, progress=progress)
    if as_json:
        print_json(found.as_json())
    else:
        from cloudgan.api.evolution_page import comparison_table

        print_table(found.table(), width=_COLUMNS)
        compared = comparison_table(found)
        if compared:
            print_table(compared, width=_COLUMNS)
