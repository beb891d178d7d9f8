"""The cells of a process, and the loop in which they evolve: all in one process, or one per MPI rank.

In an iteration each cell gets its neighbours' populations, and iterates with them; in step all cells see
each other as they were after the iteration before, so that neither their order nor the number of
processes changes a bit. With ranks there are three sets, named as in arXiv:2004.04633: WORLD for
configuration, start and control; LOCAL, the cells alone; GLOBAL, all ranks again, for reductions, so that
these never mix with control.

Between ranks a population is one flat message of fixed size: the individuals' float32 states one behind
the other, then their headers as JSON, padded with blanks, so that a receiver needs no second message
that says how long the first is.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.cell import Cell, CellState, Population
from cloudgan.coevolution.control import Control, GridMaster
from cloudgan.coevolution.files import GridFolder, record_iteration
from cloudgan.coevolution.grid import Grid, Placement, place_cells
from cloudgan.coevolution.record import check_any_converges, iteration_row
from cloudgan.coevolution.task import KINDS, Kind, Pair, Task
from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.hardware import Hardware, nvidia_gpus, this_machine
from cloudgan.core.progress import Progress
from cloudgan.ranks.flat import FlatLayout
from cloudgan.ranks.mpi import World, poll_until
from cloudgan.ranks.process import RunEnd, fail, rank_stop_flag
from cloudgan.schema.coevolution import WAIT, CellLine, CoevolutionConfig, common_iteration
from cloudgan.schema.record_line import StopReason
from cloudgan.training.cluster import visible_gpus
from cloudgan.training.stopping import StopFlag, StopTraining

Message = NDArray[np.uint8]

TAG = 1
_HEADER_BYTES = 512
"""Of an individual; its longest header has about 200."""


class Arrived(NamedTuple):
    """What a neighbour sent."""

    iteration: int
    population: Population


class MessageLayout:
    """Layout of the messages of a run."""

    def __init__(self, layouts: Mapping[Kind, FlatLayout], population: int) -> None:
        sizes = [layouts[kind].size for kind in KINDS for _ in range(population)]
        self._ends = np.cumsum(sizes)
        self._states = 4 * int(self._ends[-1])
        self.bytes = self._states + _HEADER_BYTES * (2 * population + 1)

    def empty(self) -> Message:
        """Returns room for a message."""
        return np.empty(self.bytes, np.uint8)

    def pack(self, state: CellState, into: Message) -> None:
        """Writes a cell's population into a message."""
        np.concatenate(state.population.states(), out=into[: self._states].view(np.float32))
        headers = {"iteration": state.iteration, **state.population.headers()}
        text = json.dumps(headers).encode().ljust(self.bytes - self._states)
        into[self._states :] = np.frombuffer(text, np.uint8)

    def unpack(self, message: Message, source: int) -> Arrived:
        """Returns the population in a message of the cell `source`, without copies of its states."""
        headers = parse_json(
            message[self._states :].tobytes(), f"a message of cell {source}", CloudganError
        )
        states = np.split(message[: self._states].view(np.float32), self._ends[:-1])
        return Arrived(headers["iteration"], Population.from_headers(headers, states))


class Exchange:
    """All cells exchange the populations of the same iteration; each waits for its neighbours.

    The numbers of the ranks are those of the cells.
    """

    def __init__(
        self,
        ranks: World,
        grid: Grid,
        config: CoevolutionConfig,
        layouts: Mapping[Kind, FlatLayout],
    ) -> None:
        self._ranks, self._config = ranks, config
        self._layout = MessageLayout(layouts, config.population)
        self._readers = partial(grid.readers, ranks.rank)
        self._outgoing = self._layout.empty()
        self._incoming: dict[int, Message] = {}

    def begin(self, state: CellState) -> None:
        """Sends what other cells wait for before their first iteration: in step, nothing."""

    def gather(self, state: CellState, neighbours: Sequence[int]) -> dict[int, Arrived]:
        """Exchanges; what it returns is valid until the next call."""
        self._layout.pack(state, self._outgoing)
        incoming = {
            cell: self._incoming.setdefault(cell, self._layout.empty()) for cell in neighbours
        }
        readers = self._readers(self._config.neighbourhood_at(state.iteration))
        self._ranks.exchange(dict.fromkeys(readers, self._outgoing), incoming, TAG)
        return {cell: self._layout.unpack(each, cell) for cell, each in incoming.items()}

    def finish(self) -> None:
        """Receives what is still on its way; all ranks call it after their last `gather`."""


class AsTheyArrive(Exchange):
    """A cell sends its newest population and uses the newest that has arrived; it never waits.

    Only for the first population of a neighbour it waits, which every cell therefore sends before its first
    iteration to all that will read it: after a restart it may have no iteration left, or none with that
    neighbour in its neighbourhood. While a reader has not taken the message before, it is sent no other
    one, so that messages to a slow cell do not fill the memory.
    """

    def __init__(
        self,
        ranks: World,
        grid: Grid,
        config: CoevolutionConfig,
        layouts: Mapping[Kind, FlatLayout],
        *,
        meanwhile: Callable[[], None],
    ) -> None:
        """Exchanges between `ranks`; calls `meanwhile`, which may raise, while it waits."""
        super().__init__(ranks, grid, config, layouts)
        self._meanwhile = meanwhile
        self._sending: dict[int, Callable[[], bool]] = {}
        self._receiving: dict[int, tuple[Message, Callable[[], bool]]] = {}
        self._newest: dict[int, Arrived] = {}
        self._sent, self._received = [0] * ranks.size, [0] * ranks.size

    def begin(self, state: CellState) -> None:
        """Sends the population to all cells that will read one."""
        kinds = self._config.neighbourhoods
        self._send(state, sorted({cell for kind in kinds for cell in self._readers(kind)}))

    def gather(self, state: CellState, neighbours: Sequence[int]) -> dict[int, Arrived]:
        """Sends, and returns the newest that has arrived."""
        self._send(state, self._readers(self._config.neighbourhood_at(state.iteration)))
        for cell in neighbours:
            self._take(cell)
            if cell not in self._newest:
                poll_until(partial(self._take, cell), self._meanwhile)
        return {cell: self._newest[cell] for cell in neighbours}

    def finish(self) -> None:
        """Receives the messages that the other ranks sent until their ends."""
        expected = [sent[self._ranks.rank] for sent in self._ranks.gather(self._sent)]
        for cell, count in enumerate(expected):
            while self._received[cell] < count:
                poll_until(partial(self._take, cell))
        for is_done in self._sending.values():
            poll_until(is_done)

    def _send(self, state: CellState, readers: Sequence[int]) -> None:
        """Sends to the readers that have taken the message before."""
        ready = [cell for cell in readers if cell not in self._sending or self._sending[cell]()]
        if not ready:
            return
        message = self._layout.empty()
        self._layout.pack(state, message)
        for cell in ready:
            self._sending[cell] = self._ranks.start_send(message, cell, TAG)
            self._sent[cell] += 1

    def _take(self, cell: int) -> bool:
        """Takes all messages of a cell that have arrived; returns whether there were some."""
        before = self._received[cell]
        while True:
            if cell not in self._receiving:
                if not self._ranks.poll(cell, TAG):
                    break
                message = self._layout.empty()
                self._receiving[cell] = message, self._ranks.start_receive(message, cell, TAG)
            message, has_arrived = self._receiving[cell]
            if not has_arrived():
                break
            del self._receiving[cell]
            self._newest[cell] = self._layout.unpack(message, cell)
            self._received[cell] += 1
        return self._received[cell] > before


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
        self.start, states = self._read_states(numbers, pair.layouts)
        self.cells = []
        for number, files, state in zip(numbers, self._files, states, strict=True):
            files.rewind(self.start)
            self.cells.append(Cell(number, config, grid, task=task, pair=pair, state=state))
        self._exchange: Exchange | None = None
        if ranks:
            between = ranks, grid, config, pair.layouts
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

    def _read_states(
        self, numbers: Sequence[int], layouts: Mapping[Kind, FlatLayout]
    ) -> tuple[int, list[CellState | None]]:
        """Returns the iteration after which the cells continue, and their states there.

        Cells in step continue from the newest iteration that all have. Asynchronous ones, which may
        be any number of iterations apart, continue each from its own. A damaged state is set aside, and
        the cells continue from the one before.
        """
        own = [files.points() for files in self._files]
        found = self._from_all(own)  # none deletes a state before all have listed theirs
        points = [set(each) for of_process in found for each in of_process]
        is_apart = self._config.asynchronous

        def newest() -> int:
            return max(points[numbers[0]], default=0) if is_apart else common_iteration(points)

        while True:
            start = newest()
            states: list[CellState | None] = []
            damaged: list[tuple[int, int, str]] = []
            for number, files in zip(numbers, self._files, strict=True):
                files.fetch(start)
                try:
                    states.append(files.read(start, layouts) if start else None)
                except DataError as error:
                    damaged.append((number, start, str(error)))
            of_all = [each for one in self._from_all(damaged) for each in one]
            if not of_all:
                return start, states
            for number, iteration, _ in of_all:
                points[number].discard(iteration)
            if start and not newest():
                reasons = "; ".join(reason for _, _, reason in of_all)
                raise DataError(
                    f"{reasons}: no iteration is left of which every cell has its state. Restore a copy"
                    " of the file, or start again with another --run"
                )
            for number, iteration, reason in damaged:
                self._files[numbers.index(number)].set_aside(iteration, reason)

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
