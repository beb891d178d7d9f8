"""The cells of a process, and the loop in which they evolve: all in one process, or one per MPI rank.

In an iteration each cell gets its neighbours' populations, and iterates with them; in step all cells see
each other as they were after the iteration before, so that neither their order nor the number of
processes changes a bit. With ranks there are three sets, named as in arXiv:2004.04633: WORLD for
configuration, start and control; LOCAL, the cells alone; GLOBAL, all ranks again, for reductions, so that
these never mix with control.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloudgan.coevolution.cell import Cell, CellState
from cloudgan.coevolution.control import Control, GridMaster
from cloudgan.coevolution.exchange import Arrived, AsTheyArrive, Exchange
from cloudgan.coevolution.files import GridFolder, record_iteration
from cloudgan.coevolution.grid import Placement, place_cells
from cloudgan.coevolution.record import check_any_converges, iteration_row
from cloudgan.coevolution.task import KINDS, Pair, Task
from cloudgan.core import settings
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import Hardware, nvidia_gpus, this_machine
from cloudgan.core.progress import Progress
from cloudgan.ranks.mpi import World
from cloudgan.ranks.process import RunEnd, fail, rank_stop_flag
from cloudgan.schema.coevolution import WAIT, CellLine, CoevolutionConfig, common_iteration
from cloudgan.schema.record_line import StopReason
from cloudgan.training.cluster import visible_gpus
from cloudgan.training.stopping import StopFlag, StopTraining

_INACTIVE, _ACTIVE = 0, 1

MakeTask = Callable[[CoevolutionConfig], Task]
"""Called by the cells, with their threads in the configuration."""


class Cells:
    """The cells of this process, and their iterations.

    Attributes:
        cells: All of the grid, or that of this rank.
        start: Iterations that they had done when this process began.
    """

    def __init__(
        self,
        folder: GridFolder,
        config: CoevolutionConfig,
        task: Task,
        pair: Pair,
        *,
        flag: StopFlag,
        show: Callable[[Sequence[CellLine]], None],
        ranks: World | None = None,
    ) -> None:
        """Builds the cells; continues from saved states if there are some.

        `config` has the threads of this process, whose cells share `pair`; `show` receives the lines of
        each iteration. `ranks` are the cells in their order, each a process; None: all are in this one.
        """
        grid, self._config, self._ranks = folder.grid, config, ranks
        self._flag, self._show = flag, show
        numbers = range(grid.cells) if ranks is None else (ranks.rank,)
        self._files = [folder.cell(number) for number in numbers]
        layouts = {kind: pair.layout(kind) for kind in KINDS}
        self.start = self._agree_on_start()
        self.cells = []
        for number, files in zip(numbers, self._files, strict=True):
            files.fetch(self.start)
            state = files.read(self.start, layouts) if self.start else None
            files.rewind(self.start)
            self.cells.append(Cell(number, config, grid, task=task, pair=pair, state=state))
        self._exchange: Exchange | None = None
        if ranks:
            between = ranks, grid, config, layouts
            self._exchange = (
                AsTheyArrive(*between, meanwhile=self._stop_if_requested)
                if config.asynchronous
                else Exchange(*between)
            )

    @property
    def iteration(self) -> int:
        """Iterations done by all cells of this process."""
        return self.cells[0].state.iteration

    def run(self) -> StopReason | None:
        """Runs the iterations that are left; all ranks call it.

        Returns:
            Why the cells stopped before their last iteration; None: they did not.
        """
        self._flag.stepped = True
        if self._exchange:
            self._exchange.begin(self.cells[0].state)
        reason: StopReason | None = None
        while reason is None and self.iteration < self._config.iterations:
            try:
                lines = self._iterate()
            except StopTraining as stop:
                reason = stop.reason
                break
            reason = self._agree(lines)
        if reason and self.iteration:
            for cell, files in zip(self.cells, self._files, strict=True):
                files.save(cell.state)
        if self._exchange:
            self._exchange.finish()
        return reason

    def _iterate(self) -> list[CellLine]:
        """Gathers for all cells before the first of them changes, and runs an iteration of each."""
        began, before = time.perf_counter(), self.iteration
        gathered = [self._gather(cell) for cell in self.cells]
        seconds = (time.perf_counter() - began) / len(self.cells)
        return [
            cell.iterate(
                {other: each.population for other, each in arrived.items()},
                gather_seconds=seconds,
                ages={other: before - each.iteration for other, each in arrived.items()}
                if self._config.asynchronous
                else None,
            )
            for cell, arrived in zip(self.cells, gathered, strict=True)
        ]

    def _gather(self, cell: Cell) -> dict[int, Arrived]:
        if self._exchange:
            return self._exchange.gather(cell.state, cell.neighbours())
        around = {number: self.cells[number].state for number in cell.neighbours()}
        return {n: Arrived(one.iteration, one.population) for n, one in around.items()}

    def _agree(self, lines: list[CellLine]) -> StopReason | None:
        """Records an iteration; returns why all cells stop after it, if they do."""
        reasons = [self._flag.reason]
        if not self._config.asynchronous:
            began = time.perf_counter()
            own = [[line.diverged for line in lines], self._flag.reason]
            found = self._from_all(own)
            if len(found) > 1:
                wait = {WAIT: round(time.perf_counter() - began, 6)}
                lines = [line.model_copy(update={"seconds": line.seconds | wait}) for line in lines]
            check_any_converges(
                [each for diverged, _ in found for each in diverged], self.iteration
            )
            reasons = [reason for _, reason in found]
        for cell, files, line in zip(self.cells, self._files, lines, strict=True):
            record_iteration(files, cell, line, self._config)
        self._show(lines)
        return next((reason for reason in reasons if reason), None)

    def _agree_on_start(self) -> int:
        """Returns the iteration after which the cells continue.

        Cells in step continue from the newest iteration that all have. Asynchronous ones, which may
        be any number of iterations apart, continue each from its own.
        """
        own = [files.points() for files in self._files]
        found = self._from_all(own)  # none deletes a state before all have listed theirs
        if self._config.asynchronous:
            return max(own[0], default=0)
        return common_iteration(points for each in found for points in each)

    def _from_all(self, value: Any) -> list[Any]:
        """Returns the values of all processes."""
        return self._ranks.gather(value) if self._ranks else [value]

    def _stop_if_requested(self) -> None:
        if self._flag.reason:
            raise StopTraining(self._flag.reason)


def run_here(
    folder: GridFolder, config: CoevolutionConfig, make_task: MakeTask, progress: Progress
) -> tuple[RunEnd, Task, Pair]:
    """Runs all cells in this process, from the newest iteration that all have saved."""

    def show(lines: Sequence[CellLine]) -> None:
        best = min(line.score for line in lines)
        seconds = sum(sum(line.seconds.values()) for line in lines)
        progress.say(iteration_row(lines[0].iteration, best, seconds))
        progress.advance(1, f"best score {best:.4g}")

    task = make_task(config)
    pair = task.make_pair()
    with StopFlag() as flag:
        cells = Cells(folder, config, task, pair, flag=flag, show=show)
        progress.start("evolving", config.iterations, "iterations", done=cells.start)
        reason = cells.run()
    return RunEnd(reason or "finished", cells.iteration), task, pair


def run_rank(
    world: World,
    folder: GridFolder,
    config: CoevolutionConfig,
    make_task: MakeTask,
    progress: Progress,
) -> RunEnd | None:
    """Acts as a rank of the grid until all have ended.

    All ranks share the folder's file system, or the folder has a store with its copies. Rank 0 is the
    master and shows the progress. Returns how the run ended; None except on the master.
    """

    def failed(error: CloudganError) -> None:
        fail(folder.run, world.rank, error.exit_code, str(error))

    machine = this_machine(nvidia_gpus())
    found = world.gather([socket.gethostname(), machine.model_dump(mode="json")])
    machines = [Hardware.model_validate(each) for _, each in found]
    placement = place_cells([host for host, _ in found], machines, config.cells)
    cell = placement.cell_of(world.rank)
    local = world.split(_INACTIVE if cell is None else _ACTIVE)
    everyone = world.split(0)
    with rank_stop_flag() as flag:
        if world.rank:
            silence_seconds = config.silence_seconds
            control = Control(world, flag, silence_seconds=silence_seconds, failed=failed)
            control.start()
            result = None
            if cell is not None:
                own = _share_machine(config, placement, cell)
                reason, state = run_cell(local, folder, own, make_task(own), control)
                score = state.score if np.isfinite(state.score) else None
                result = [cell, score, state.iteration, reason]
            everyone.gather(result)
            control.join()
            return None
        for warning in placement.warnings():
            progress.say(warning)
        master = GridMaster(world, placement, config, folder, flag=flag, progress=progress)
        flag.stepped = True
        master.follow()
        ended = [each for each in everyone.gather(None, meanwhile=master.look) if each]
        best = min(ended, key=lambda each: np.inf if each[1] is None else each[1])[0]
        stopped = [reason for _, _, _, reason in ended if reason]
        end = RunEnd(stopped[0] if stopped else "finished", min(each[2] for each in ended))
        master.end(end.reason, best)  # type: ignore[arg-type]
        return end


def run_cell(
    ranks: World, folder: GridFolder, config: CoevolutionConfig, task: Task, control: Control
) -> tuple[StopReason | None, CellState]:
    """Runs the cell of a rank; all cells call it."""

    def show(lines: Sequence[CellLine]) -> None:
        control.show("processing", cells.start, cells.iteration, *lines)

    pair = task.make_pair()
    cells = Cells(folder, config, task, pair, flag=control.flag, show=show, ranks=ranks)
    newest = folder.cell(ranks.rank).lines()[-1:]
    control.show("processing", cells.start, cells.iteration, *newest)
    reason = cells.run()
    control.show("finished", cells.start, cells.iteration)
    return reason, cells.cells[0].state


def _share_machine(config: CoevolutionConfig, placement: Placement, cell: int) -> CoevolutionConfig:
    """Gives a cell its part of the machine's GPUs; returns the configuration with its threads."""
    host = placement.hosts[placement.ranks[cell]]
    here = placement.cells_on(host)
    gpus = visible_gpus()
    if gpus:
        own = gpus[here.index(cell) % len(gpus)]
        # Cells that share a GPU must not take all of its memory.
        settings.set_variables({"CUDA_VISIBLE_DEVICES": own, "TF_FORCE_GPU_ALLOW_GROWTH": "true"})
    return config.model_copy(update={"threads": config.threads or placement.threads_on(host)})
