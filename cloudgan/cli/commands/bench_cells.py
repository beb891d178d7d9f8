"""`cloudgan bench cells`: speed-up of grids of cells, and seconds by routine."""

from __future__ import annotations

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    raise_if_interrupted,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.schema.coevolution import parse_grid
from cloudgan.schema.options.bench import BenchCellsOptions


@command
def cells(options: BenchCellsOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.api.tensorflow_import import require_tensorflow
    from cloudgan.bench.cells import Workload, is_measured, measure_cells
    from cloudgan.bench.cells_report import cells_json, cells_page, explanation, tables
    from cloudgan.coevolution.grid import Grid

    check_report(options.report)
    asked = [Grid(*parse_grid("--grids", text.strip())) for text in options.grids.split(",")]
    if not any(is_measured(grid, this_machine().cores) for grid in asked):
        raise ConfigError(
            f"--grids={options.grids}: the exchange is measured with the ranks of a small grid; add 2x2"
        )
    if options.iterations < 2:  # noqa: PLR2004 -- the first one traces
        raise ConfigError(
            f"--iterations={options.iterations}: expected at least 2, as the first one traces"
        )
    require_tensorflow()
    work = Workload(options.iterations, options.batches, options.batch)
    with progress_bars(as_json=as_json) as progress:
        result = measure_cells(asked, work, rounds=options.rounds, progress=progress)
    if as_json:
        print_json(cells_json(result))
    else:
        for table in tables(result):
            print_table(table)
        print(explanation(result))
    if options.report:
        write_report_file(cells_page(result), options.report)
    raise_if_interrupted(interrupted=result.interrupted, as_json=as_json)
