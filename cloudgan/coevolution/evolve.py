"""Trains a grid of cells: the use case of `cloudgan evolve`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cloudgan.coevolution.engine import run_here, run_rank
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid, check_ranks
from cloudgan.coevolution.run_result import Evolution, read_evolution
from cloudgan.coevolution.task import Pair, Task
from cloudgan.core import settings
from cloudgan.core.command import command
from cloudgan.core.documents import explain, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress, Silent
from cloudgan.ranks.mpi import World, check_threads
from cloudgan.ranks.placement import check_mpi
from cloudgan.ranks.process import LocalRanks, RunEnd, run_as_rank
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import write as write_page
from cloudgan.schema.coevolution import (
    CoevolutionConfig,
    EnsembleMethod,
    common_iteration,
    newest_point,
)
from cloudgan.schema.options.training import EvolveOptions
from cloudgan.storage.store import open_store
from cloudgan.training.run_options import resolve
from cloudgan.training.stopping import raise_if_stopped
from cloudgan.training.tensorflow_import import import_tensorflow, require_tensorflow


@command
def evolve(options: EvolveOptions, *, progress: Progress | None = None) -> Evolution:
    """Trains a grid of cells, or continues the run in the folder, and writes its page.

    Args:
        options: What is not given has the value of the folder's run, or the default.
        progress: Receives the iterations.

    Returns:
        The grid with the records of its cells, and the quality of its mixture.

    Raises:
        ConfigError: An option is not valid, or the folder holds another run.
        DataError: The data are missing or damaged.
        Interrupted: Ctrl-C, after all cells were saved; the same call continues.
        TryAgain: SIGTERM, after all cells were saved.
        CloudganError: The losses of all cells became NaN.
    """
    progress = progress or usual_progress()
    preset, unit, size, ensemble = options.preset, options.unit, options.size, options.ensemble
    if size is not None and ensemble is None:
        raise ConfigError("--size is an option of --ensemble=greedy or --ensemble=genetic")
    folder = GridFolder(local_path(options.run))
    begun = folder.has_begun() or settings.is_supervised() or settings.has_agent()
    config = _grid_config(options.config_keys, folder.read_config() if begun else None)
    # On several nodes the agent names the store of the run; without one all ranks share a folder.
    run_config = folder.run.read_config() if settings.has_agent() else None
    store = open_store(run_config.checkpoint.url) if run_config else None
    folder = GridFolder(folder.path, check_grid(config), store)
    if settings.has_tpu():
        raise ConfigError("cells run on CPUs and GPUs; on a TPU use `cloudgan train`")
    _check_can_start(config)
    if not settings.has_agent():
        folder.run.refuse_foreign(folder.config_file.name)
    require_tensorflow()
    if "tensorflow" in sys.modules:
        _set_threads(config)

    @contextmanager
    def prepared() -> Iterator[None]:
        _check_task(config, options)
        with folder.run.locked():
            _check_iterations(folder, config, options.config_keys.get("iterations"))
            _write(folder, config, preset, unit, begun=begun)
            if config.task == "showers":
                _shower_store(folder, progress)  # before the ranks read them
            yield

    is_rank = settings.is_mpi_rank()
    if is_rank:
        play = partial(_play, config=config, folder=folder, prepared=prepared, progress=progress)
        if run_as_rank(folder.run, play, unit="iteration") is None:
            sys.exit(0)  # the master goes on
    with prepared():
        trained: list[Any] = []
        if config.engine == "one":
            progress.start("loading TensorFlow")
            load = partial(make_task, folder=folder, progress=progress)
            end, *trained = run_here(folder, config, load, progress)
            raise_if_stopped(
                end.reason,
                f"stopped after iteration {end.position}; `cloudgan evolve --run={folder.path}` continues",
            )
        elif not is_rank:
            _start_cells(config, folder, progress)
        progress.start("measuring the mixture")
        return _conclude(folder, config, *trained, ensemble=ensemble, size=size)


def _play(
    world: World,
    config: CoevolutionConfig,
    folder: GridFolder,
    prepared: Callable[[], AbstractContextManager[None]],
    progress: Progress,
) -> RunEnd | None:
    """Acts as one rank of a grid; the configuration of the master counts."""
    check_threads("give --engine=one")  # one sends signs of life while the other trains
    sent = world.gather(config.model_dump(mode="json") if world.rank == 0 else None)[0]
    config = CoevolutionConfig.model_validate(sent)
    folder = GridFolder(folder.path, check_grid(config), folder.store)
    check_ranks(world.size, config.cells)
    is_first = world.rank == 0 and not settings.is_supervised()
    with prepared() if is_first else nullcontext():
        world.gather(None)  # the folder is written
        end = run_rank(world, folder, config, partial(make_task, folder=folder), progress)
    if settings.has_agent() and end and end.reason == "finished":  # while the others wait
        folder.fetch_cells()
        _conclude(folder, config)
        folder.push_results()
    return end


def _check_can_start(config: CoevolutionConfig) -> None:
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


def _start_cells(config: CoevolutionConfig, folder: GridFolder, progress: Progress) -> None:
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


def _grid_config(given: Mapping[str, Any], there: CoevolutionConfig | None) -> CoevolutionConfig:
    """Lays what is given over the configuration of the folder's run, or over the defaults."""
    before = there.model_dump() if there else {}
    try:
        return CoevolutionConfig.model_validate(before | dict(given))
    except ValidationError as error:
        problem = explain(error.errors()[0]).removeprefix("the document: ")
        raise ConfigError(f"the grid is not valid: {problem}") from error


def _check_iterations(folder: GridFolder, config: CoevolutionConfig, wanted: int | None) -> None:
    """Checks that a grid is not asked for fewer iterations than its cells have done.

    An asynchronous cell goes on from its own newest state: none may be past the end.
    """
    saved = [folder.cell(number).points() for number in range(config.cells)]
    newest = [max(each, default=0) for each in saved]
    done = max(newest) if config.asynchronous else common_iteration(saved)
    if wanted is not None and wanted < done:
        raise ConfigError(
            f"--iterations={wanted}: the cells in {folder.path} have done {done}; give more than {done} to"
            " continue"
        )


def _check_task(config: CoevolutionConfig, options: EvolveOptions) -> None:
    """Checks that the task has what it needs, and no more, before a folder holds the run."""
    of_showers = {"DATA": config.data, "--preset": options.preset, "--unit": options.unit}
    given = [name for name, value in of_showers.items() if value is not None]
    if config.task != "showers" and given:
        raise ConfigError(f"{given[0]} is an option of --task=showers, not of {config.task}")
    if config.task == "showers" and not config.data:
        raise ConfigError(
            "--task=showers, the default, needs --data=FILE, such as --data=showers.h5; --task=ring needs"
            " none"
        )


def _write(
    folder: GridFolder,
    config: CoevolutionConfig,
    preset: str | None,
    unit: str | None,
    *,
    begun: bool,
) -> None:
    """Writes the configuration of the grid, and for showers an ordinary run.yaml."""
    if config.task == "showers":
        keys = {
            "data.path": config.data,
            "data.unit": unit,
            "model.preset": preset,
            "training.seed": config.seed,
        }
        default = None if preset or begun else "mini"
        run_config, _ = resolve(
            keys | ({"model.preset": default} if default else {}),
            config=None,
            run=str(folder.path),
            fresh=not begun,
        )
        from cloudgan.training.showers import find_showers

        run_config, _ = find_showers(run_config, folder.run)
        folder.run.check(run_config)
        folder.run.write_config(run_config)
    folder.write_config(config)


def _conclude(
    folder: GridFolder,
    config: CoevolutionConfig,
    task: Task | None = None,
    pair: Pair | None = None,
    *,
    ensemble: EnsembleMethod | None = None,
    size: int | None = None,
) -> Evolution:
    """Writes result, quality of its mixture and page; the first two only if new or an ensemble is requested."""
    from cloudgan.coevolution.ensemble import compare
    from cloudgan.coevolution.page import evolution_page  # loads Matplotlib
    from cloudgan.coevolution.samples import GridResult, write_result

    there, iteration = folder.read_quality(), folder.newest_common()
    is_current = there is not None and there.iteration == iteration
    if not (is_current and folder.result_file.exists() and ensemble is None):
        task = task or make_task(config, folder)
        pair = pair or task.make_pair()
        cells = range(config.cells)
        states = [folder.cell(number).read(iteration, pair.layouts) for number in cells]
        quality = compare(config, states, task=task, pair=pair, ensemble=ensemble, size=size)
        chosen = quality.ensemble.cells if quality.ensemble else ()
        write_result(folder.result_file, GridResult.of(config, task, pair, states, chosen))
        write_json(folder.quality_file, quality)
    found = read_evolution(folder.path)
    write_page(evolution_page(found), folder.page_file)
    return found


def make_task(
    config: CoevolutionConfig, folder: GridFolder, progress: Progress | None = None
) -> Task:
    """Returns the task of a run; imports TensorFlow."""
    import_tensorflow()
    _set_threads(config)
    if config.task == "ring":
        from cloudgan.coevolution.tasks.ring import Ring

        return Ring(config)
    from cloudgan.coevolution.tasks.showers import Showers

    store = _shower_store(folder, progress or Silent())
    return Showers(config, folder.run.config(), store, progress)


def _set_threads(config: CoevolutionConfig) -> None:
    """Sets TensorFlow's threads, which it takes only before its first operation."""
    if config.threads is None:
        return
    from tensorflow.config import threading

    try:
        threading.set_intra_op_parallelism_threads(config.threads)
    except RuntimeError as error:
        runs = threading.get_intra_op_parallelism_threads() or "its default number of"
        raise ConfigError(
            f"--threads={config.threads}: TensorFlow already runs in this process with {runs} threads,"
            " and a process cannot change them; give the same number, or restart the process (in a"
            " notebook: the kernel)"
        ) from error


def _shower_store(folder: GridFolder, progress: Progress) -> Path:
    """Returns the store of the run's showers; converts them first if necessary."""
    from cloudgan.training.showers import as_store, find_showers

    _, showers = find_showers(folder.run.config(), folder.run)
    return as_store(showers, folder.run, progress)
