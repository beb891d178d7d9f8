"""The cells of a grid as MPI ranks: starts them on this machine, or acts as one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from cloudgan.coevolution.engine import GridRun, RunEnd, run_rank
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid, check_ranks
from cloudgan.coevolution.task import Task
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress, Silent
from cloudgan.ranks.launch import LocalRanks
from cloudgan.ranks.mpi import check_threads
from cloudgan.ranks.placement import check_mpi
from cloudgan.ranks.process import fail, joined_world
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.grid_states import newest_point
from cloudgan.training.stopping import EXIT_CODES, raise_if_stopped


def check_can_start(config: CoevolutionConfig) -> None:
    """Checks what the engine `ranks` needs on this machine, before anything is written."""
    if config.engine != "ranks":
        if settings.is_mpi_rank():
            raise ConfigError(
                "this process is a rank of an MPI world (mpiexec or srun), but --engine=one trains all"
                " cells in one process: each rank would train the same grid; give --engine=ranks, or"
                " start cloudgan without mpiexec"
            )
        return
    check_mpi("--engine=ranks")
    if not settings.is_mpi_rank():
        LoopbackNetwork.check("one process instead: --engine=one")


def start_cells(config: CoevolutionConfig, folder: GridFolder, progress: Progress) -> None:
    """Runs a master and one rank per cell on this machine until they end.

    They start again, from the newest iteration that all cells have saved, when one is lost.
    """
    cells = [folder.cell(number) for number in range(config.cells)]

    def newest() -> int:
        points = [each.points() for each in cells]
        return newest_point(points, asynchronous=config.asynchronous)

    LocalRanks(
        ("evolve", f"--run={folder.path}"),
        config.cells + 1,
        folder.run,
        progress,
        newest=newest,
        unit="iteration",
        quiet=isinstance(progress, Silent),
    ).run()


def run_as_rank(
    config: CoevolutionConfig,
    folder: GridFolder,
    progress: Progress,
    *,
    prepare: Callable[[], AbstractContextManager[object]],
    make_task: Callable[[CoevolutionConfig], Task],
    conclude: Callable[[CoevolutionConfig], None],
) -> None:
    """Acts as one rank of an MPI world, until all have ended; returns on the master only.

    A failure ends this process at once, with the exit code of the error: the process manager then ends
    the other ranks. Under a supervisor, the master's process ends, too; under the agents of nodes the
    master concludes the run while the others wait, and all end with the same exit code.

    The configuration of the master counts. `prepare` checks and writes the run's folder, entered by the
    master without a supervisor; `conclude` writes the result of a finished run under agents.

    Raises:
        Interrupted: Ctrl-C; all cells have saved.
        TryAgain: SIGTERM; all cells have saved.
    """
    end: RunEnd | None = None
    with joined_world(folder.run) as world:
        check_threads("give --engine=one")  # one sends signs of life while the other trains
        sent = world.gather(config.model_dump(mode="json") if world.rank == 0 else None)[0]
        config = CoevolutionConfig.model_validate(sent)
        run = GridRun(config, check_grid(config), folder, make_task)
        check_ranks(world.size, config.cells)
        is_first = world.rank == 0 and not settings.is_supervised()
        with prepare() if is_first else nullcontext():
            world.gather(None)  # the folder is written
            end = run_rank(
                world,
                run,
                progress,
                failed=lambda error: fail(folder.run, world.rank, error.exit_code, str(error)),
            )
        if settings.has_agent():
            if end and end.reason == "finished":
                conclude(config)
            reason = world.gather(end.reason if end else None)[0]
    if settings.has_agent():
        sys.exit(EXIT_CODES.get(reason, 0))
    if end is None:
        sys.exit(0)
    if settings.is_supervised():
        sys.exit(EXIT_CODES.get(end.reason, 0))
    raise_if_stopped(
        end.reason, f"stopped after iteration {end.iteration}; rerun the command to continue"
    )
