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
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.schema.coevolution import parse_grid


def cells(
    *,
    grids: str = "2x2,3x3,4x4",
    rounds: int = 3,
    iterations: int = 4,
    batches: int = 50,
    batch: int = 100,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures grids of cells: one core against a rank per cell, and the seconds of each routine.

    The cells train the ring (`evolve --task=ring`). Engine one, pinned to one core, and engine ranks alternate. Grids with more cells than 4 and than
    cores have one core measured and ranks predicted, with a core per cell. The figures of the source,
    arXiv:2004.04633, stand beside ours.

    Args:
        grids: Rows and columns of each grid, such as 2x2,3x3,4x4.
        rounds: Runs of each grid and engine.
        iterations: Of each run; the first one, which traces, is not counted.
        batches: Of a cell per iteration.
        batch: Samples per batch.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    from cloudgan.api.tensorflow_import import require_tensorflow
    from cloudgan.bench.cells import Workload, is_measured, measure_cells
    from cloudgan.bench.cells_report import cells_json, cells_page, explanation, tables
    from cloudgan.coevolution.grid import Grid

    check_report(report)
    asked = [Grid(*parse_grid(text.strip())) for text in grids.split(",")]
    if not any(is_measured(grid, this_machine().cores) for grid in asked):
        raise ConfigError(
            f"--grids={grids}: the exchange is measured with the ranks of a small grid; add 2x2"
        )
    if iterations < 2:  # noqa: PLR2004 -- the first one traces
        raise ConfigError(
            f"--iterations={iterations}: expected at least 2, as the first one traces"
        )
    require_tensorflow()
    work = Workload(iterations, batches, batch)
    with progress_bars(as_json=json) as progress:
        result = measure_cells(asked, work, rounds=rounds, progress=progress)
    if json:
        print_json(cells_json(result))
    else:
        for table in tables(result):
            print_table(table)
        print(explanation(result))
    if report:
        write_report_file(cells_page(result), report)
    raise_if_interrupted(interrupted=result.interrupted, as_json=json)
