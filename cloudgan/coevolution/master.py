"""Rank 0 of a grid: follows the cells, writes status.json, and ends the run. Needs no TensorFlow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.coevolution.cell_record import iteration_row
from cloudgan.coevolution.control import (
    Outbox,
    Request,
    Sign,
    SilenceClock,
    Tag,
    longest_silence,
    sign_interval,
)
from cloudgan.coevolution.one_process import check_any_converges
from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.documents import validated, write_json
from cloudgan.core.errors import TryAgain
from cloudgan.schema.grid_status import CellStatus, GridState, GridStatus
from cloudgan.schema.liveness import LivenessFile

if TYPE_CHECKING:
    from cloudgan.coevolution.cell_files import GridFolder
    from cloudgan.coevolution.grid import Grid
    from cloudgan.coevolution.placement import Placement
    from cloudgan.core.progress import Progress
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.schema.coevolution import CoevolutionConfig
    from cloudgan.training.stopping import StopFlag

_LOOK_SECONDS = 0.02


@dataclass
class _Follower:
    """A rank as the master knows it; `heard` is the time of its last sign."""

    sign: Sign
    heard: float = 0.0


class GridMaster:
    """Follows the ranks of a grid."""

    def __init__(
        self,
        world: Communicator,
        placement: Placement,
        config: CoevolutionConfig,
        grid: Grid,
        folder: GridFolder,
        *,
        flag: StopFlag,
        progress: Progress,
    ) -> None:
        """Prepares the master.

        Args:
            world: All ranks.
            placement: Of the cells.
            config: Of the run.
            grid: Of the run.
            folder: Of the run; status.json is written there.
            flag: Requests to stop, which it passes on.
            progress: Shows the iterations that all cells have done.
        """
        self._world, self._placement, self._config = world, placement, config
        self._outbox = Outbox(world)
        self._grid, self._folder, self._flag, self._progress = grid, folder, flag, progress
        self._nodes = placement.nodes(grid, config.threads)
        self._ranks = {rank: _Follower(Sign()) for rank in range(1, world.size)}
        self._cells = [self._ranks[rank] for rank in placement.ranks]
        self._clock = SilenceClock()
        self._now = self._due = 0.0
        self._shown = 0
        self._have_begun = False
        self._liveness = LivenessFile(settings.liveness_file())
        self._passed_on: str | None = None

    def follow(self) -> None:
        """Follows the cells until all have finished.

        Raises:
            TryAgain: A rank is silent.
            CloudganError: All cells became NaN.
        """
        self._progress.start("evolving", self._config.iterations, "iterations")
        while any(cell.sign.state != "finished" for cell in self._cells):
            self.look()
            time.sleep(_LOOK_SECONDS)
        self._check()

    def look(self) -> None:
        """Receives signs; at each interval it writes the status, and lets the ranks know that it lives.

        Raises:
            TryAgain: A rank is silent.
            CloudganError: All cells became NaN.
        """
        self._receive()
        self._show()
        if self._now < self._due and self._flag.reason == self._passed_on:
            return
        self._due = self._now + sign_interval(self._config.silence_seconds)
        self._passed_on = self._flag.reason
        self._check()
        self._request(Request(stop=self._stop))
        self.write("running")

    def end(self, state: GridState, best: int) -> None:
        """Writes the last status, and ends the threads of all ranks.

        Raises:
            TryAgain: A rank is silent.
        """
        self.write(state, best)
        self._request(Request(end=True))
        while not all(follower.sign.is_last for follower in self._ranks.values()):
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

    @property
    def _stop(self) -> str | None:
        reason = self._flag.reason
        return reason if reason in ("interrupted", "terminated") else None

    def _status_of(self, cell: int) -> CellStatus:
        rank, follower = self._placement.ranks[cell], self._cells[cell]
        sign = follower.sign
        return CellStatus(
            name=self._grid.name(cell),
            rank=rank,
            host=self._placement.hosts[rank],
            state=sign.state,
            iteration=sign.iteration,
            fitness=sign.fitness,
            score=sign.score,
            memory_bytes=sign.memory_bytes,
            silent_seconds=round(max(0.0, self._now - follower.heard), 1),
        )

    def _receive(self) -> None:
        self._now = self._clock.look()
        while message := self._world.poll(tag=Tag.SIGN):
            follower = self._ranks[message.source]
            follower.sign = validated(Sign, self._world.receive_json(message), "a sign of life")
            follower.heard = self._now
            if follower.sign.stop:
                self._flag.request(follower.sign.stop)

    def _show(self) -> None:
        done = min(cell.sign.iteration for cell in self._cells)
        self._liveness.update(done, done)
        if not self._have_begun and all(cell.sign.state != "inactive" for cell in self._cells):
            self._have_begun = True
            if start := min(cell.sign.start for cell in self._cells):
                self._progress.say(f"the cells continue after iteration {start}")
        if done > self._shown:
            scores = [cell.sign.score for cell in self._cells if cell.sign.score is not None]
            best = min(scores) if scores else None
            self._progress.say(iteration_row(done, best))
            self._progress.advance(
                done - self._shown, "" if best is None else f"best score {best:.4g}"
            )
            self._shown = done

    def _check(self) -> None:
        for rank, follower in self._ranks.items():
            silent = 0.0 if follower.sign.is_last else self._now - follower.heard
            if silent > longest_silence(follower.sign.state, self._config.silence_seconds):
                cell = self._placement.cell_of(rank)
                name = "" if cell is None else f", cell {self._grid.name(cell)},"
                self.write("failed")
                raise TryAgain(
                    f"rank {rank}{name} on {self._placement.hosts[rank]} has sent nothing for"
                    f" {silent:.0f} s"
                )
        if not self._config.asynchronous:
            return  # the cells themselves compare the same iteration
        signs = [cell.sign for cell in self._cells]
        check_any_converges([s.diverged for s in signs], max(s.iteration for s in signs))

    def _request(self, request: Request) -> None:
        for rank in self._ranks:
            self._outbox.send(request, rank, Tag.REQUEST)
