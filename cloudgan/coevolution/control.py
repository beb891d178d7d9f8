"""The second thread of a cell's rank: signs of life to the master, and its requests."""

from __future__ import annotations

import threading
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from cloudgan.core.document import Document
from cloudgan.core.documents import validated
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.core.memory import resident_memory_bytes
from cloudgan.parallel.communicator import as_bytes, poll_until
from cloudgan.schema.grid_status import CellState

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.parallel.communicator import Communicator
    from cloudgan.training.stopping import StopFlag

_INTERVAL_SECONDS = 3.0
_LOOK_SECONDS = 0.02
"""Each look also lets MPI continue the transfers of the training thread."""
_LONGEST_LOOK = 1.0
_START_SECONDS = 180.0
"""A rank that imports TensorFlow may be silent for longer than one that trains."""
_MASTER = 0


class Tag(IntEnum):
    """Kind of a message between a cell and the master."""

    SIGN = 1
    REQUEST = 2


class Sign(Document):
    """A sign of life.

    Attributes:
        state: Of the rank.
        start: Iterations done when the rank began.
        iteration: Iterations done.
        fitness: Of the best generator.
        score: Of the mixture.
        diverged: Whether the last iteration became NaN.
        stop: Why the rank was asked to stop by a signal.
        memory_bytes: Resident.
        is_last: Whether the rank sends no other one.
    """

    state: CellState = "inactive"
    start: int = 0
    iteration: int = 0
    fitness: float | None = None
    score: float | None = None
    diverged: bool = False
    stop: Literal["interrupted", "terminated"] | None = None
    memory_bytes: int | None = None
    is_last: bool = False


class Request(Document):
    """What the master wants.

    Attributes:
        stop: Reason to stop after the current iteration.
        end: Whether the run is over, so that the rank sends its last sign.
    """

    stop: Literal["interrupted", "terminated"] | None = None
    end: bool = False


def sign_interval(silence_seconds: float) -> float:
    """Returns the seconds between two signs of life."""
    return min(_INTERVAL_SECONDS, silence_seconds / 4)


def longest_silence(state: CellState, silence_seconds: float) -> float:
    """Returns the seconds of silence after which a rank counts as lost."""
    return max(silence_seconds, _START_SECONDS) if state == "inactive" else silence_seconds


class Outbox:
    """Sends small values without waiting: a rank that froze takes none."""

    def __init__(self, world: Communicator) -> None:
        """Sends to ranks of `world`."""
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


class SilenceClock:
    """Seconds in which this process itself could listen.

    A process that was suspended, or whose machine was, would otherwise take its own pause for the
    silence of all others.
    """

    def __init__(self) -> None:
        self._seconds, self._looked_at = 0.0, time.monotonic()

    def look(self) -> float:
        """Returns the time; between two looks it passes by one second at most."""
        now = time.monotonic()
        self._seconds += min(now - self._looked_at, _LONGEST_LOOK)
        self._looked_at = now
        return self._seconds


class Control:
    """Sends signs of life and receives requests until the master ends the run.

    Attributes:
        sign: The newest; the training thread replaces it.
    """

    def __init__(
        self,
        world: Communicator,
        flag: StopFlag,
        *,
        silence_seconds: float,
        failed: Callable[[CloudganError], None],
    ) -> None:
        """Prepares the thread.

        Args:
            world: All ranks.
            flag: Receives the master's request to stop.
            silence_seconds: Without a request of the master, which sends one at each interval.
            failed: Called in the thread with the error if the master is lost; ends the process.
        """
        self._world, self._flag, self._failed = world, flag, failed
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

    def _run(self) -> None:
        try:
            self._serve()
        except CloudganError as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001  a rank without signs of life must end
            self._failed(TryAgain(f"{type(error).__name__}: {error}"))

    def _serve(self) -> None:
        clock = SilenceClock()
        due, heard, sent = 0.0, 0.0, self.sign
        while not self._ends:
            now, sign = clock.look(), self.sign
            if now >= due or sign.state != sent.state:
                self._send(sign)
                due, sent = now + self._interval, sign
            if self._receive():
                heard = now
            elif now - heard > longest_silence(sign.state, self._silence_seconds):
                raise TryAgain(
                    f"the master has sent nothing for {now - heard:.0f} s; all ranks start again"
                )
            time.sleep(_LOOK_SECONDS)
        self._send(self.sign.model_copy(update={"is_last": True}))
        self._outbox.finish()

    def _send(self, sign: Sign) -> None:
        reason = self._flag.reason
        stop = reason if reason in ("interrupted", "terminated") else None
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
                self._flag.request(request.stop)
        return found
