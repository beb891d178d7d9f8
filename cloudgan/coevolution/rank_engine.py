"""The engine `ranks`: one MPI rank per cell and a master, rank 0.

Three sets of ranks, named as in arXiv:2004.04633: WORLD for configuration, start and control; LOCAL, the
cells alone, as a torus; GLOBAL, all ranks again, for reductions, so that these never mix with control.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.coevolution.cell import Cell
from cloudgan.coevolution.cell_record import record_iteration
from cloudgan.coevolution.control import Control
from cloudgan.coevolution.master import GridMaster
from cloudgan.coevolution.one_process import check_any_converges
from cloudgan.coevolution.placement import Placement, place_cells
from cloudgan.coevolution.population_exchange import AsTheyArrive, Exchange, InStep, MessageLayout
from cloudgan.coevolution.task import KINDS
from cloudgan.core import settings
from cloudgan.core.hardware import Hardware, nvidia_gpus, this_machine
from cloudgan.parallel.rank_process import rank_stop_flag
from cloudgan.schema.grid_states import common_iteration
from cloudgan.training.cluster import visible_gpus
from cloudgan.training.stopping import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.coevolution.cell_files import GridFolder
    from cloudgan.coevolution.grid import Grid
    from cloudgan.coevolution.task import Pair, Task
    from cloudgan.core.errors import CloudganError
    from cloudgan.core.progress import Progress
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.schema.cell_line import CellLine
    from cloudgan.schema.coevolution import CoevolutionConfig, Neighbourhood
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.stopping import StopFlag

_INACTIVE, _ACTIVE = 0, 1


@dataclass(frozen=True)
class GridRun:
    """What all ranks of a run know.

    Attributes:
        config: Of the run.
        grid: Of the run.
        folder: Of the run: on a file system that all ranks share, or with a store that has its copies.
        make_task: Builds the task; called by the cells, with their threads in the configuration.
        failed: Ends this process because of an error in its control thread.
    """

    config: CoevolutionConfig
    grid: Grid
    folder: GridFolder
    make_task: Callable[[CoevolutionConfig], Task]
    failed: Callable[[CloudganError], None]


class _Ranks(NamedTuple):
    """The sets of ranks, and the cells of the world's."""

    world: Communicator
    local: Communicator
    everyone: Communicator
    placement: Placement


class RunEnd(NamedTuple):
    """How a run ended.

    Attributes:
        reason: finished, or why all cells stopped.
        iteration: That all cells have done.
    """

    reason: StopReason
    iteration: int


def run_rank(world: Communicator, run: GridRun, progress: Progress) -> RunEnd | None:
    """Acts as a rank of the grid until all have ended.

    Args:
        world: All ranks; the first one is the master.
        run: What all ranks know.
        progress: Shown by the master.

    Returns:
        How the run ended; None except on the master.

    Raises:
        ConfigError: There are too few ranks.
        TryAgain: A rank was lost.
        CloudganError: The losses of all cells became NaN.
    """
    placement = _place(world, run.grid.cells)
    color = _INACTIVE if placement.cell_of(world.rank) is None else _ACTIVE
    ranks = _Ranks(world, world.split(color), world.split(0), placement)
    with rank_stop_flag() as flag:
        if world.rank:
            _follow_master(ranks, run, flag)
            return None
        for warning in placement.warnings():
            progress.say(warning)
        master = GridMaster(
            world, placement, run.config, run.grid, run.folder, flag=flag, progress=progress
        )
        flag.stepped = True
        master.follow()
        found = [each for each in ranks.everyone.gather(None, meanwhile=master.look) if each]
        best = min(found, key=lambda each: np.inf if each[1] is None else each[1])[0]
        stopped = [reason for _, _, _, reason in found if reason]
        end = RunEnd(stopped[0] if stopped else "finished", min(each[2] for each in found))
        master.end(end.reason, best)  # type: ignore[arg-type]
        return end


def _place(world: Communicator, cells: int) -> Placement:
    """Returns where the cells are; each rank sends its hardware."""
    machine = this_machine(nvidia_gpus())
    found = world.gather([socket.gethostname(), machine.model_dump(mode="json")])
    hosts = [host for host, _ in found]
    return place_cells(hosts, [Hardware.model_validate(each) for _, each in found], cells)


def _follow_master(ranks: _Ranks, run: GridRun, flag: StopFlag) -> None:
    """Runs a rank that is not the master: a cell, or one without work."""
    control = Control(
        ranks.world, flag, silence_seconds=run.config.silence_seconds, failed=run.failed
    )
    control.start()
    cell = ranks.placement.cell_of(ranks.world.rank)
    result = None
    if cell is not None:
        config = _share_machine(run.config, ranks.placement, cell)
        torus = ranks.local.torus(run.grid.rows, run.grid.columns)
        engine = CellRank(torus.ranks, run, config, control, flag)
        reason = engine.run()
        state = engine.cell.state
        score = state.score if np.isfinite(state.score) else None
        result = [cell, score, state.iteration, reason]
    ranks.everyone.gather(result)
    control.join()


def _share_machine(config: CoevolutionConfig, placement: Placement, cell: int) -> CoevolutionConfig:
    """Gives a cell its part of the machine's GPUs; returns the configuration with its threads."""
    host = placement.hosts[placement.ranks[cell]]
    here = placement.cells_on(host)
    gpus = visible_gpus()
    if gpus:
        own = gpus[here.index(cell) % len(gpus)]
        # Cells that share a GPU must not take all of its memory.
        settings.set_for_tensorflow(
            {"CUDA_VISIBLE_DEVICES": own, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        )
    return config.model_copy(update={"threads": config.threads or placement.threads_on(host)})


class CellRank:
    """The cell of this rank, and its iterations."""

    def __init__(
        self,
        ranks: Communicator,
        run: GridRun,
        config: CoevolutionConfig,
        control: Control,
        flag: StopFlag,
    ) -> None:
        """Builds the networks; continues from saved states if there are some.

        Args:
            ranks: The cells, in their order.
            run: What all ranks know.
            config: With the threads of this rank.
            control: Receives the signs of life.
            flag: Requests to stop.
        """
        self._ranks, self._config, self._grid = ranks, config, run.grid
        self._control, self._flag = control, flag
        self._files = run.folder.cell(ranks.rank)
        task = run.make_task(config)
        pair = task.make_pair()
        self._start, self.cell = self._continued(task, pair)
        layout = MessageLayout({kind: pair.layout(kind) for kind in KINDS}, config.population)
        self._exchange: Exchange = (
            AsTheyArrive(ranks, layout, meanwhile=self._stop_if_requested)
            if config.asynchronous
            else InStep(ranks, layout)
        )
        self._readers: dict[Neighbourhood, tuple[int, ...]] = {}

    def run(self) -> StopReason | None:
        """Runs the iterations that are left; all cells call it.

        Returns:
            Why the cell stopped before its last iteration; None: it did not.

        Raises:
            CloudganError: The losses of all cells became NaN in one iteration.
        """
        self._flag.stepped = True
        self._show("processing")
        if self._config.asynchronous:
            # A neighbour waits for a first population, and after a restart this cell may have no iteration
            # left, or none with that neighbour in its neighbourhood.
            kinds, cell = self._config.neighbourhoods, self.cell.number
            readers = {reader for kind in kinds for reader in self._grid.readers(cell, kind)}
            self._exchange.gather(self.cell.state, (), sorted(readers))
        reason: StopReason | None = None
        while reason is None and self.cell.state.iteration < self._config.iterations:
            try:
                line = self._iterate()
            except StopTraining as stop:
                reason = stop.reason
                break
            reason = self._agree(line)
        if reason and self.cell.state.iteration:
            self._files.save(self.cell.state)
        self._exchange.finish()
        self._show("finished")
        return reason

    def _iterate(self) -> CellLine:
        began, state, cell = time.perf_counter(), self.cell.state, self.cell
        kind = self._config.neighbourhood_at(state.iteration)
        if kind not in self._readers:
            self._readers[kind] = self._grid.readers(cell.number, kind)
        arrived = self._exchange.gather(state, cell.neighbours(), self._readers[kind])
        ages = {other: state.iteration - each.iteration for other, each in arrived.items()}
        return cell.iterate(
            {other: each.population for other, each in arrived.items()},
            gather_seconds=time.perf_counter() - began,
            ages=ages if self._config.asynchronous else None,
        )

    def _agree(self, line: CellLine) -> StopReason | None:
        """Records an iteration; returns why all cells stop after it, if they do."""
        self._show("processing", line)
        reasons = [self._flag.reason]
        if not self._config.asynchronous:
            began = time.perf_counter()
            found = self._ranks.gather([line.diverged, self._flag.reason])
            seconds = dict(line.seconds) | {"wait": round(time.perf_counter() - began, 6)}
            line = line.model_copy(update={"seconds": seconds})
            check_any_converges([diverged for diverged, _ in found], line.iteration)
            reasons = [reason for _, reason in found if reason]
        record_iteration(self._files, self.cell, line, self._config)
        return next((reason for reason in reasons if reason), None)

    def _stop_if_requested(self) -> None:
        if self._flag.reason:
            raise StopTraining(self._flag.reason)

    def _show(self, state: str, line: CellLine | None = None) -> None:
        """Leaves the newest sign of life for the control thread."""
        update: dict[str, object] = {"state": state, "start": self._start}
        update["iteration"] = self.cell.state.iteration
        if line:
            update |= {"diverged": line.diverged}
            values = {"fitness": line.generator_fitness, "score": line.score}
            update |= {name: value for name, value in values.items() if np.isfinite(value)}
        self._control.sign = self._control.sign.model_copy(update=update)

    def _continued(self, task: Task, pair: Pair) -> tuple[int, Cell]:
        """Returns the iteration after which the cell continues, and the cell as it was saved then.

        Cells in step continue from the newest iteration that all have. Asynchronous ones, which may
        be any number of iterations apart, continue each from its own.
        """
        files = self._files
        points = self._ranks.gather(
            files.points()
        )  # none deletes a state before all have listed theirs
        own = points[self._ranks.rank]
        start = max(own, default=0) if self._config.asynchronous else common_iteration(points)
        files.fetch(start)
        state = files.read(start, {kind: pair.layout(kind) for kind in KINDS}) if start else None
        files.rewind(start)
        rank = self._ranks.rank
        return start, Cell(rank, self._config, self._grid, task=task, pair=pair, state=state)
