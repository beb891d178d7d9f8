"""Control of a grid whose cells are ranks: signs of life to the master, and its requests.

In a cell's rank it is a thread beside that which trains (`Control`). The master, rank 0, needs no
TensorFlow: it follows the cells, writes status.json, and ends the run (`GridMaster`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Literal

from pydantic import BaseModel

from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Placement
from cloudgan.coevolution.record import check_any_converges, iteration_row
from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.document import Document
from cloudgan.core.documents import validated, write_json
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.core.hardware import resident_memory_bytes
from cloudgan.core.progress import Progress
from cloudgan.ranks.mpi import Silence, SilenceClock, World, as_bytes, poll_until
from cloudgan.schema.coevolution import (
    CellLine,
    CellState,
    CellStatus,
    CoevolutionConfig,
    GridState,
    GridStatus,
)
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.training.stopping import StopFlag

_INTERVAL_SECONDS = 3.0
_LOOK_SECONDS = 0.02
"""Each look also lets MPI continue the transfers of the training thread."""
_START_SECONDS = 180.0
"""A rank that imports TensorFlow may be silent for longer than one that trains."""
_MASTER = 0
Stop = Literal["interrupted", "terminated"]


class Tag(IntEnum):
    """Kind of a message between a cell and the master."""

    SIGN = 1
    REQUEST = 2


class Sign(Document):
    """A sign of life.

    `start` and `iteration` count iterations done; `stop` is why a signal asked the rank to stop; after
    `is_last` it sends no other one.
    """

    state: CellState = "inactive"
    start: int = 0
    iteration: int = 0
    fitness: float | None = None
    score: float | None = None
    diverged: bool = False
    stop: Stop | None = None
    memory_bytes: int | None = None
    is_last: bool = False

    @property
    def has_begun(self) -> bool:
        """Whether the rank trains: before, it imports TensorFlow and builds networks."""
        return self.state != "inactive"


class Request(Document):
    """What the master wants.

    `stop` is the reason to stop after the current iteration; `end`: the run is over, so that the rank sends
    its last sign.
    """

    stop: Stop | None = None
    end: bool = False


def sign_interval(silence_seconds: float) -> float:
    """Returns the seconds between two signs of life."""
    return min(_INTERVAL_SECONDS, silence_seconds / 4)


def _signalled(flag: StopFlag) -> Stop | None:
    """Returns the signal that asked for a stop; other reasons are no matter of all ranks."""
    return flag.reason if flag.reason in ("interrupted", "terminated") else None


def new_silence(clock: SilenceClock, silence_seconds: float) -> Silence:
    """Returns the silence of a rank that sends signs of life, or of the master."""
    return Silence(clock, silence_seconds, max(silence_seconds, _START_SECONDS))


class Outbox:
    """Sends small values without waiting: a rank that froze takes none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pending: list[Callable[[], bool]] = []

    def send(self, value: BaseModel, to: int, tag: Tag) -> None:
        """Starts to send a value as JSON."""
        content = as_bytes(value.model_dump(mode="json"))
        self._pending = [is_done for is_done in self._pending if not is_done()]
        self._pending.append(self._world.start_send(content, to, tag))

    def finish(self) -> None:
        """Waits until all values have been taken."""
        for is_done in self._pending:
            poll_until(is_done)


class Control:
    """Sends signs of life and receives requests until the master ends the run.

    Attributes:
        sign: The newest; the thread that trains replaces it.
        flag: Of this rank; a request to stop sets it.
    """

    def __init__(
        self,
        world: World,
        flag: StopFlag,
        *,
        silence_seconds: float,
        failed: Callable[[CloudganError], None],
    ) -> None:
        """The master sends a request at each interval.

        It counts as lost after `silence_seconds` without one. Then `failed` is called in the thread with
        the error and ends the process.
        """
        self._world, self.flag, self._failed = world, flag, failed
        self._outbox = Outbox(world)
        self._silence_seconds = silence_seconds
        self._interval = sign_interval(silence_seconds)
        self.sign = Sign()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def join(self) -> None:
        """Waits until the master has ended the run."""
        self._thread.join()

    def show(
        self, state: CellState, start: int, iteration: int, line: CellLine | None = None
    ) -> None:
        """Leaves the newest sign of life for the thread."""
        update: dict[str, object] = {"state": state, "start": start, "iteration": iteration}
        if line:
            update |= {"diverged": line.diverged}
            values = {"fitness": line.generator_fitness, "score": line.score}
            update |= {name: value for name, value in values.items() if math.isfinite(value)}
        self.sign = self.sign.model_copy(update=update)

    def _run(self) -> None:
        try:
            self._serve()
        except CloudganError as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001  a rank without signs of life must end
            self._failed(TryAgain(f"{type(error).__name__}: {error}"))

    def _serve(self) -> None:
        clock = SilenceClock()
        silence = new_silence(clock, self._silence_seconds)
        due, sent = 0.0, self.sign
        while not self._ends:
            now, sign = clock.look(), self.sign
            if now >= due or sign.state != sent.state:
                self._send(sign)
                due, sent = now + self._interval, sign
            if self._receive():
                silence.heard()
            elif silence.is_lost(has_begun=sign.has_begun):
                raise silence.error("the master")
            time.sleep(_LOOK_SECONDS)
        self._send(self.sign.model_copy(update={"is_last": True}))
        self._outbox.finish()

    def _send(self, sign: Sign) -> None:
        stop = _signalled(self.flag)
        whole = sign.model_copy(update={"memory_bytes": resident_memory_bytes(), "stop": stop})
        self._outbox.send(whole, _MASTER, Tag.SIGN)

    def _receive(self) -> bool:
        """Receives the requests that have arrived; returns whether there were some."""
        found = False
        while message := self._world.poll(_MASTER, Tag.REQUEST):
            request = validated(Request, self._world.receive_json(message), "a request")
            found = True
            self._ends = request.end
            if request.stop:
                self.flag.request(request.stop)
        return found


class GridMaster:
    """Follows the ranks of a grid by their signs of life."""

    def __init__(
        self,
        world: World,
        placement: Placement,
        config: CoevolutionConfig,
        folder: GridFolder,
        *,
        flag: StopFlag,
        progress: Progress,
    ) -> None:
        self._world, self._placement, self._config = world, placement, config
        self._outbox = Outbox(world)
        self._grid, self._folder, self._flag, self._progress = folder.grid, folder, flag, progress
        self._nodes = placement.nodes(folder.grid, config.threads)
        self._clock = SilenceClock()
        self._signs = {rank: Sign() for rank in range(1, world.size)}
        self._silences = {
            rank: new_silence(self._clock, config.silence_seconds) for rank in self._signs
        }
        self._now = self._due = 0.0
        self._shown = 0
        self._have_begun = False
        self._liveness = LivenessFile(settings.liveness_file())
        self._passed_on: str | None = None

    def follow(self) -> None:
        """Follows the cells until all have finished."""
        self._progress.start("starting the cells")
        while any(sign.state != "finished" for sign in self._cells()):
            self.look()
            time.sleep(_LOOK_SECONDS)
        self._check()

    def look(self) -> None:
        """Receives signs; at each interval it writes the status, and lets the ranks know that it lives."""
        self._receive()
        self._show()
        if self._now < self._due and self._flag.reason == self._passed_on:
            return
        self._due = self._now + sign_interval(self._config.silence_seconds)
        self._passed_on = self._flag.reason
        self._check()
        self._request(Request(stop=_signalled(self._flag)))
        self.write("running")

    def end(self, state: GridState, best: int) -> None:
        """Writes the last status, and ends the threads of all ranks."""
        self.write(state, best)
        self._request(Request(end=True))
        while not all(sign.is_last for sign in self._signs.values()):
            self._receive()
            self._check()
            time.sleep(_LOOK_SECONDS)
        self._outbox.finish()

    def write(self, state: GridState, best: int | None = None) -> None:
        """Writes status.json."""
        status = GridStatus(
            time=utc_now(),
            state=state,
            rows=self._grid.rows,
            columns=self._grid.columns,
            iterations=self._config.iterations,
            best=None if best is None else self._grid.name(best),
            nodes=self._nodes,
            cells=tuple(map(self._status_of, range(self._grid.cells))),
        )
        write_json(self._folder.status_file, status)

    def _status_of(self, cell: int) -> CellStatus:
        rank = self._placement.ranks[cell]
        shown = {"state", "iteration", "fitness", "score", "memory_bytes"}
        return CellStatus(
            name=self._grid.name(cell),
            rank=rank,
            host=self._placement.hosts[rank],
            silent_seconds=round(self._silences[rank].seconds, 1),
            **self._signs[rank].model_dump(include=shown),
        )

    def _cells(self) -> list[Sign]:
        return [self._signs[rank] for rank in self._placement.ranks]

    def _receive(self) -> None:
        self._now = self._clock.look()
        while message := self._world.poll(tag=Tag.SIGN):
            sign = validated(Sign, self._world.receive_json(message), "a sign of life")
            self._signs[message.source] = sign
            self._silences[message.source].heard()
            if sign.stop:
                self._flag.request(sign.stop)

    def _show(self) -> None:
        cells = self._cells()
        done = min(sign.iteration for sign in cells)
        self._liveness.update(done, done)
        if not self._have_begun and all(sign.has_begun for sign in cells):
            self._have_begun = True
            self._shown = start = min(sign.start for sign in cells)
            if start:
                self._progress.say(f"the cells continue after iteration {start}")
            total = self._config.iterations
            self._progress.start("evolving", total, "iterations", done=start)
        if self._have_begun and done > self._shown:
            scores = [sign.score for sign in cells if sign.score is not None]
            best = min(scores) if scores else None
            self._progress.say(iteration_row(done, best))
            self._progress.advance(
                done - self._shown, "" if best is None else f"best score {best:.4g}"
            )
            self._shown = done

    def _check(self) -> None:
        for rank, sign in self._signs.items():
            silence = self._silences[rank]
            if not sign.is_last and silence.is_lost(has_begun=sign.has_begun):
                cell = self._placement.cell_of(rank)
                name = "" if cell is None else f", cell {self._grid.name(cell)},"
                self.write("failed")
                raise silence.error(f"rank {rank}{name} on {self._placement.hosts[rank]}")
        if not self._config.asynchronous:
            return  # the cells themselves compare the same iteration
        cells = self._cells()
        check_any_converges([s.diverged for s in cells], max(s.iteration for s in cells))

    def _request(self, request: Request) -> None:
        for rank in self._signs:
            self._outbox.send(request, rank, Tag.REQUEST)
