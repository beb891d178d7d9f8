"""`cloudgan evolve`: a grid of cells whose generators and discriminators compete."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.api.evolve import evolve as run_evolution
from cloudgan.cli.options.grid_flags import grid_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.views.output import print_json, print_table, progress_bars
from cloudgan.schema.ecal_unit import EcalUnit

_COLUMNS = 120


@with_flags(options=grid_flags)
def evolve(
    *,
    run: str | None = None,
    task: Literal["showers", "ring"] | None = None,
    data: str | None = None,
    unit: EcalUnit | None = None,
    preset: str | None = None,
    engine: Literal["one", "ranks"] | None = None,
    batch: int | None = None,
    threads: int | None = None,
    seed: int | None = None,
    ensemble: Literal["greedy", "genetic"] | None = None,
    size: int | None = None,
    json: bool = False,
    options: dict[str, Any] = {},  # noqa: B006  not changed
) -> None:
    """Trains a grid of cells: generators and discriminators compete, mutate and form mixtures.

    Args:
        run: Folder of the run; a run in it continues. Default: runs/grid.
        task: showers, or ring (eight Gaussians, no data). Default: showers.
        data: Showers to train on, such as showers.h5.
        unit: Unit of ECAL in files of --data that state none, where several fit.
        preset: Task showers: networks, as in `train`. Default: mini.
        engine: one (all cells in one process) or ranks (one MPI rank per cell). Default: one.
        batch: Samples per batch. Default: 100.
        threads: Of TensorFlow, per process. Default: the cores.
        seed: Of all random numbers. Default: 1.
        ensemble: After the run, choose among the generators of all cells: greedy or genetic.
        size: Generators of the ensemble; of greedy at most. Default: as many as are best.
        json: Print the result as JSON.
        options: Of the grid; from the shared flags.
    """
    with progress_bars(as_json=json) as progress:
        found = run_evolution(
            run=run,
            unit=unit,
            preset=preset,
            ensemble=ensemble,
            size=size,
            progress=progress,
            task=task,
            data=data,
            engine=engine,
            batch=batch,
            threads=threads,
            seed=seed,
            **options,
        )
    if json:
        print_json(found.as_json())
    else:
        from cloudgan.api.evolution_page import comparison_table

        print_table(found.table(), width=_COLUMNS)
        compared = comparison_table(found)
        if compared:
            print_table(compared, width=_COLUMNS)
