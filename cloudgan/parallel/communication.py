"""Messages between the ranks of one MPI world; the only importer of mpi4py.

Every wait polls and sleeps in between: a blocked MPI call uses a whole core. A wait that lasts longer
than its limit ends with `TryAgain`, because a rank that froze or died sends nothing.

The ranks are started by MPICH's process manager Hydra (`mpiexec` of the wheel `mpich`), by another
`mpiexec`, or by `srun`. A failing rank must not finalize MPI, which waits for all others: it ends by
`os._exit`, and the process manager ends the others.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, TryAgain, install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ANYONE = -1
"""As source: a message from any rank."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 5e-5, 2e-3, 1.4
"""Seconds; a master that waits at the longest pause uses about a hundredth of a core."""
_LIFELINE_SECONDS = 0.25


class Message(NamedTuple):
    """A message that waits to be received.

    Attributes:
        source: Rank that sent it.
        tag: Its kind.
        bytes: Its size.
    """

    source: int
    tag: int
    bytes: int


class Communicator(Protocol):
    """A set of ranks, numbered from 0, that exchange messages.

    Attributes:
        rank: Number of this process.
        size: Number of ranks.
    """

    rank: int
    size: int

    def split(self, color: int) -> Communicator:
        """Returns the ranks that gave the same `color`, in their order; all ranks call it."""

    def torus(self, rows: int, columns: int) -> Torus:
        """Returns the ranks as a grid whose edges are joined; all ranks call it.

        Raises:
            ConfigError: The grid has another number of places than there are ranks.
        """

    def send(self, buffer: NDArray[Any], to: int, tag: int) -> None:
        """Sends an array and waits until it may be changed."""

    def poll(self, source: int = ANYONE, tag: int = ANYONE) -> Message | None:
        """Returns the next message that waits; None if there is none."""

    def wait(
        self,
        source: int = ANYONE,
        tag: int = ANYONE,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Waits for a message, without receiving it.

        Args:
            source: Rank that sends it.
            tag: Its kind.
            seconds: Limit; None: none.
            meanwhile: Called between two looks; may raise.

        Raises:
            TryAgain: No message came in time.
        """

    def receive(self, into: NDArray[Any], source: int, tag: int) -> None:
        """Receives a message that has arrived or will arrive into an array of its size."""

    def send_json(self, value: Any, to: int, tag: int) -> None:
        """Sends a small value as JSON."""

    def receive_json(self, message: Message) -> Any:
        """Receives a message of `send_json` for which `wait` or `poll` returned."""

    def broadcast(self, buffer: NDArray[Any], root: int = 0) -> None:
        """Copies the array of `root` to all ranks; all ranks call it."""

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all ranks, by rank, to all of them; small JSON values."""

    def agree(self, value: Any, what: str) -> None:
        """Checks that all ranks have the same value; all ranks call it.

        Raises:
            TryAgain: They differ.
        """


@dataclass(frozen=True)
class Torus:
    """Ranks on a grid whose edges are joined.

    Attributes:
        ranks: Of the grid, row by row.
        rows: Of the grid.
        columns: Of the grid.
    """

    ranks: Communicator
    rows: int
    columns: int

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of this rank."""
        row, column = divmod(self.ranks.rank, self.columns)
        return row, column

    def at(self, row: int, column: int) -> int:
        """Returns the rank at a place; rows and columns beyond an edge continue at the other one."""
        return (row % self.rows) * self.columns + column % self.columns


def grid(ranks: Communicator, rows: int, columns: int) -> Torus:
    """Returns `ranks` as a torus.

    Raises:
        ConfigError: The grid has another number of places.
    """
    if rows * columns != ranks.size:
        raise ConfigError(
            f"a grid of {rows} x {columns} needs {rows * columns} ranks, but there are {ranks.size}"
        )
    return Torus(ranks, rows, columns)


class Alone:
    """The only rank of a world without MPI; what it sends to itself waits in order."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[int, bytes]] = []

    def split(self, color: int) -> Alone:
        """Returns a world of this process."""
        del color
        return Alone()

    def torus(self, rows: int, columns: int) -> Torus:
        """Returns the grid of one place."""
        return grid(self, rows, columns)

    def send(self, buffer: NDArray[Any], to: int, tag: int) -> None:
        """Keeps a copy of the array."""
        _check_rank(to, self.size)
        self._waiting.append((tag, buffer.tobytes()))

    def poll(self, source: int = ANYONE, tag: int = ANYONE) -> Message | None:
        """Returns the next message that waits; None if there is none."""
        del source
        for found, content in self._waiting:
            if tag in (ANYONE, found):
                return Message(0, found, len(content))
        return None

    def wait(
        self,
        source: int = ANYONE,
        tag: int = ANYONE,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Waits for a message, without receiving it."""
        return _wait_for(lambda: self.poll(source, tag), seconds, meanwhile, "this rank")

    def receive(self, into: NDArray[Any], source: int, tag: int) -> None:
        """Receives the first message of a kind."""
        content = self._take(source, tag)
        into[...] = np.frombuffer(content, into.dtype).reshape(into.shape)

    def send_json(self, value: Any, to: int, tag: int) -> None:
        """Sends a small value as JSON."""
        self.send(_as_bytes(value), to, tag)

    def receive_json(self, message: Message) -> Any:
        """Receives a message of `send_json`."""
        return parse_json(self._take(message.source, message.tag), "a message of this rank")

    def broadcast(self, buffer: NDArray[Any], root: int = 0) -> None:
        """Does nothing: this rank has the array."""
        del buffer
        _check_rank(root, self.size)

    def gather(self, value: Any) -> list[Any]:
        """Returns the value of this rank."""
        return [value]

    def agree(self, value: Any, what: str) -> None:
        """Does nothing: one rank agrees."""

    def _take(self, source: int, tag: int) -> bytes:
        _check_rank(source, self.size)
        number = next(n for n, (found, _) in enumerate(self._waiting) if found == tag)
        return self._waiting.pop(number)[1]


class Mpi:
    """Ranks of an MPI communicator."""

    def __init__(self, comm: Any) -> None:
        """Uses a communicator of mpi4py."""
        self._comm = comm
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())

    def split(self, color: int) -> Mpi:
        """Returns the ranks that gave the same `color`, in their order; all ranks call it."""
        return Mpi(self._comm.Split(color, self.rank))

    def torus(self, rows: int, columns: int) -> Torus:
        """Returns the ranks as a grid whose edges are joined; all ranks call it."""
        grid(self, rows, columns)
        cartesian = self._comm.Create_cart((rows, columns), periods=(True, True), reorder=False)
        return grid(Mpi(cartesian), rows, columns)

    def send(self, buffer: NDArray[Any], to: int, tag: int) -> None:
        """Sends an array and waits until it may be changed."""
        self._finish(self._comm.Isend(buffer, to, tag))

    def poll(self, source: int = ANYONE, tag: int = ANYONE) -> Message | None:
        """Returns the next message that waits; None if there is none."""
        mpi = _library()
        status = mpi.Status()
        found = self._comm.Iprobe(
            mpi.ANY_SOURCE if source == ANYONE else source,
            mpi.ANY_TAG if tag == ANYONE else tag,
            status,
        )
        if not found:
            return None
        return Message(status.Get_source(), status.Get_tag(), status.Get_count(mpi.BYTE))

    def wait(
        self,
        source: int = ANYONE,
        tag: int = ANYONE,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Waits for a message, without receiving it."""
        name = "any rank" if source == ANYONE else f"rank {source}"
        return _wait_for(lambda: self.poll(source, tag), seconds, meanwhile, name)

    def receive(self, into: NDArray[Any], source: int, tag: int) -> None:
        """Receives a message that has arrived or will arrive into an array of its size."""
        self._finish(self._comm.Irecv(into, source, tag))

    def send_json(self, value: Any, to: int, tag: int) -> None:
        """Sends a small value as JSON."""
        self.send(_as_bytes(value), to, tag)

    def receive_json(self, message: Message) -> Any:
        """Receives a message of `send_json` for which `wait` or `poll` returned."""
        content = np.empty(message.bytes, np.uint8)
        self.receive(content, message.source, message.tag)
        return parse_json(content.tobytes(), f"a message of rank {message.source}")

    def broadcast(self, buffer: NDArray[Any], root: int = 0) -> None:
        """Copies the array of `root` to all ranks; all ranks call it."""
        self._finish(self._comm.Ibcast(buffer, root))

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all ranks, by rank, to all of them; small JSON values."""
        own = _as_bytes(value)
        sizes = np.empty(self.size, np.int64)
        self._finish(self._comm.Iallgather(np.array([own.size], np.int64), sizes))
        everything = np.empty(int(sizes.sum()), np.uint8)
        counts = [int(size) for size in sizes]
        self._finish(self._comm.Iallgatherv(own, [everything, counts]))
        ends = np.cumsum(sizes)
        return [
            parse_json(everything[end - size : end].tobytes(), "a message of a rank")
            for end, size in zip(ends, sizes, strict=True)
        ]

    def agree(self, value: Any, what: str) -> None:
        """Checks that all ranks have the same value; all ranks call it."""
        found = self.gather(value)
        if any(other != found[0] for other in found):
            listed = ", ".join(f"rank {rank}: {other}" for rank, other in enumerate(found))
            raise TryAgain(f"the ranks differ in {what} ({listed}); start all of them again")

    @staticmethod
    def _finish(request: Any) -> None:
        pause = _FIRST_PAUSE
        while not request.Test():
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def is_world() -> bool:
    """Whether a process manager started this process as a rank of an MPI world."""
    return settings.is_mpi_rank()


def world() -> Communicator:
    """Joins the MPI world of this process.

    Raises:
        ConfigError: mpi4py is not installed, or finds no MPI library.
    """
    if not is_world():
        return Alone()
    ranks = Mpi(_library().COMM_WORLD)
    ranks.gather(None)
    _unlink_shared_memory()
    return ranks


def _unlink_shared_memory() -> None:
    """Removes the names of MPICH's shared memory, which all ranks of this machine have mapped by now.

    The memory lasts as long as its processes. A killed world would otherwise leave 4 MB in /dev/shm.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
        name = line.rpartition(" ")[2]
        if name.startswith("/dev/shm/mpich_shm_"):  # noqa: S108  where MPICH creates it
            Path(name).unlink(missing_ok=True)


def check_library() -> None:
    """Checks that mpi4py is installed, without starting MPI.

    Raises:
        ConfigError: It is not; names the extra.
    """
    try:
        import mpi4py  # noqa: F401, PLC0415
    except ImportError as error:
        raise ConfigError(
            "--parallel needs mpi4py, which is not installed; run"
            f" {install_command('mpi')}, or install mpi4py beside the MPI of your site"
        ) from error


def finalize() -> None:
    """Leaves the world in order; every rank calls it, and then ends as usual."""
    if is_world():
        _library().Finalize()


def is_lost_message(error: Exception) -> bool:
    """Whether MPI could not exchange a message: another rank has ended."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(error, mpi.Exception)


def leave(code: int) -> NoReturn:
    """Ends this rank at once without MPI_Finalize, which would wait for the others."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_with_parent(code: int) -> None:
    """Ends this rank, from a thread, when the process that started it dies."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LIFELINE_SECONDS)
        os._exit(code)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _library() -> Any:
    """Returns mpi4py's MPI; the first call starts MPI."""
    check_library()
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI  # noqa: PLC0415
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"mpi4py finds no MPI library ({error}); run {install_command('mpi')}, which brings"
            " MPICH, or load the MPI module of your site"
        ) from error
    return MPI


def _wait_for(
    look: Callable[[], Message | None],
    seconds: float | None,
    meanwhile: Callable[[], None] | None,
    name: str,
) -> Message:
    deadline = None if seconds is None else time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while (found := look()) is None:
        if meanwhile:
            meanwhile()
        if deadline is not None and time.monotonic() > deadline:
            raise TryAgain(
                f"{name} has sent nothing for {seconds:.0f} s, so this rank stops; start all ranks"
                " again to resume from the last checkpoint"
            )
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    return found


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _check_rank(rank: int, size: int) -> None:
    if not 0 <= rank < size:
        raise ConfigError(f"rank {rank} is not one of {size}")
