"""Ranks of an MPI world: send, receive, wait, agree, and notice who is lost; the only importer of mpi4py.

The ranks are started by MPICH's process manager Hydra (`mpiexec` of the wheel `mpich`), by another
`mpiexec`, or by `srun`. A failing rank must not finalize MPI, which waits for all others: it ends by
`os._exit`, and the process manager ends the others.

Every wait polls and sleeps in between: a blocked MPI call uses a whole core. A wait that lasts longer
than its limit ends with `TryAgain`, because a rank that froze or died sends nothing.

One rule says who is lost: a process that has sent nothing for too long. One that exchanges seldom teaches its
limit by its own intervals; one that sends signs of life at a fixed interval has a fixed limit. Before either has
begun it imports, traces and compiles, and may be silent for longer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, TryAgain, install_command
from cloudgan.ranks.hydra import find_library
from cloudgan.ranks.placement import check_mpi

ANSWER_SECONDS = 300.0
"""Longest wait for an answer that takes milliseconds."""

ROUND_SECONDS = 1800.0
"""Longest wait for an answer that needs the work of all others; each of them may compile first."""

_LONGEST_LOOK = 1.0
_SILENT_INTERVALS = 20.0


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


@dataclass
class Silence:
    """How long another process has sent nothing, by the clock of the one that listens.

    `least_seconds` is its limit, or `first_seconds` before it has begun; `longest` is its longest interval in
    its work, twenty times of which are its limit if that is more.
    """

    clock: SilenceClock
    least_seconds: float
    first_seconds: float
    longest: float = 0.0
    heard_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.heard()

    def heard(self, *, at_work: bool = False) -> None:
        """Notes a message, or that this process owed it an answer until now; `at_work`: it ends an interval."""
        now = self.clock.look()
        if at_work:
            self.longest = max(self.longest, now - self.heard_at)
        self.heard_at = now

    @property
    def seconds(self) -> float:
        """Seconds since the last message."""
        return self.clock.look() - self.heard_at

    def is_lost(self, *, has_begun: bool) -> bool:
        """Whether it has been silent for longer than its limit."""
        learnt = max(self.least_seconds, _SILENT_INTERVALS * self.longest)
        return self.seconds > (learnt if has_begun else self.first_seconds)

    def error(self, name: str) -> TryAgain:
        """Returns why all ranks start again."""
        return silent_error(name, self.seconds)


def silent_error(name: str, seconds: float) -> TryAgain:
    """Returns the error of a rank for which another one, of this name, is lost."""
    return TryAgain(
        f"{name} has sent nothing for {seconds:.0f} s and may be frozen; start all ranks again to resume from the"
        " last checkpoint"
    )


ANYONE = -1
"""As source: a message from any rank."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 2e-4, 2e-3, 1.4
"""Seconds; a sleep costs 30 µs of CPU time: longer ones save it, and delay each exchange."""
_LIFELINE_SECONDS = 0.25
_Found = TypeVar("_Found")


class Message(NamedTuple):
    """A message of a kind that waits to be received: the rank that sent it, and its size."""

    source: int
    tag: int
    bytes: int


class World:
    """A set of `size` ranks, numbered from 0, that exchange messages; this process is `rank`."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())

    def split(self, color: int) -> World:
        """Returns the ranks that gave the same `color`, in their order; all ranks call it."""
        return World(self._comm.Split(color, self.rank))

    def start_send(self, buffer: NDArray[Any], to: int, tag: int) -> Callable[[], bool]:
        """Starts to send an array; returns the function that says whether it may be changed."""
        is_done: Callable[[], bool] = self._comm.Isend(buffer, to, tag).Test
        return is_done

    def start_receive(self, into: NDArray[Any], source: int, tag: int) -> Callable[[], bool]:
        """Starts to receive into an array; returns the function that says whether it has arrived."""
        is_done: Callable[[], bool] = self._comm.Irecv(into, source, tag).Test
        return is_done

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

    def broadcast(self, buffer: NDArray[Any]) -> None:
        """Copies the array of rank 0 to all ranks; all ranks call it."""
        poll_until(self._comm.Ibcast(buffer, 0).Test)

    def gather(self, value: Any, *, meanwhile: Callable[[], None] | None = None) -> list[Any]:
        """Returns the values of all ranks, by rank, to all of them; small JSON values.

        `meanwhile` is called before each look; it may raise.
        """
        own = as_bytes(value)
        sizes = np.empty(self.size, np.int64)
        size = np.array([own.size], np.int64)
        poll_until(self._comm.Iallgather(size, sizes).Test, meanwhile)
        everything = np.empty(int(sizes.sum()), np.uint8)
        poll_until(self._comm.Iallgatherv(own, [everything, sizes.tolist()]).Test, meanwhile)
        parts = np.split(everything, np.cumsum(sizes)[:-1])
        return [parse_json(part.tobytes(), "a message of a rank") for part in parts]

    def send(self, buffer: NDArray[Any], to: int, tag: int) -> None:
        """Sends an array and waits until it may be changed."""
        poll_until(self.start_send(buffer, to, tag))

    def receive(self, into: NDArray[Any], source: int, tag: int) -> None:
        """Receives a message that has arrived or will arrive into an array of its size."""
        poll_until(self.start_receive(into, source, tag))

    def wait(
        self,
        source: int = ANYONE,
        tag: int = ANYONE,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Waits for a message, without receiving it.

        Raises:
            TryAgain: No message came in time.
        """
        name = "any rank" if source == ANYONE else f"rank {source}"
        return poll_until(lambda: self.poll(source, tag), meanwhile, seconds=seconds, name=name)

    def send_json(self, value: Any, to: int, tag: int) -> None:
        """Sends a small value as JSON."""
        self.send(as_bytes(value), to, tag)

    def receive_json(self, message: Message) -> Any:
        """Receives a message of `send_json` for which `wait` or `poll` returned."""
        content = np.empty(message.bytes, np.uint8)
        self.receive(content, message.source, message.tag)
        return parse_json(content.tobytes(), f"a message of rank {message.source}")

    def exchange(
        self,
        outgoing: Mapping[int, NDArray[Any]],
        incoming: Mapping[int, NDArray[Any]],
        tag: int,
    ) -> None:
        """Sends and receives arrays at the same time, and waits until all of them have arrived.

        No order of the ranks can block another one: everything is posted before the first wait.

        One array may be sent to several ranks; incoming ones have the right size.
        """
        pending = [self.start_receive(into, source, tag) for source, into in incoming.items()]
        pending += [self.start_send(buffer, to, tag) for to, buffer in outgoing.items()]
        for is_done in pending:
            poll_until(is_done)


def poll_until(
    look: Callable[[], _Found | None],
    meanwhile: Callable[[], None] | None = None,
    *,
    seconds: float | None = None,
    name: str = "a rank",
) -> _Found:
    """Returns the first true value of `look`; sleeps between two calls.

    `meanwhile` is called before each look, so that one who never has to wait calls it, too; it may raise.
    `name` is of what is waited for.

    Raises:
        TryAgain: The limit has passed.
    """
    pause, clock = _FIRST_PAUSE, SilenceClock()
    while True:
        if meanwhile:
            meanwhile()
        if found := look():
            return found
        if seconds is not None and clock.look() > seconds:
            raise silent_error(name, seconds)
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def as_bytes(value: Any) -> NDArray[np.uint8]:
    """Returns a small value as JSON that can be sent."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def world() -> World:
    """Joins the MPI world of this process."""
    ranks = World(_library().COMM_WORLD)
    ranks.gather(None)
    _unlink_files()
    return ranks


def _unlink_files() -> None:
    """Removes the names of files that a killed world would leave, and that all ranks of this machine have read by now.

    They last as long as the processes that have them open: 4 MB of MPICH's shared memory in /dev/shm, and the
    topology of the machine that Hydra's proxy, above the rank, writes to /tmp.
    """
    proc, parent = Path("/proc"), os.getppid()
    names: list[str] = []
    with suppress(OSError):  # no /proc
        maps = (proc / "self/maps").read_text(encoding="utf-8", errors="replace")
        names += (line.rpartition(" ")[2] for line in maps.splitlines())
    for process in (parent, _parent_of(parent)):  # under the agent of a node the parent is a shell
        with suppress(OSError):
            names += (str(link.readlink()) for link in (proc / str(process) / "fd").iterdir())
    for name in names:
        if name.startswith(("/dev/shm/mpich_shm_", "/tmp/hydra_hwloc_xmlfile_")):  # noqa: S108  as they name them
            with suppress(OSError):  # another rank has
                os.unlink(name)  # noqa: PTH108


def check_threads(instead: str) -> None:
    """Checks that two threads of this rank may call MPI at the same time."""
    mpi = _library()
    names = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    levels = {getattr(mpi, f"THREAD_{name}"): f"MPI_THREAD_{name}" for name in names}
    if (level := mpi.Query_thread()) < mpi.THREAD_MULTIPLE:
        raise ConfigError(
            f"each rank calls MPI from two threads, and this MPI gives {levels[level]}; use an MPI that"
            f" gives MPI_THREAD_MULTIPLE ({install_command('mpi')} brings one; unset MPI4PY_RC_THREADS and"
            f" MPI4PY_RC_THREAD_LEVEL), or {instead}"
        )


def finalize() -> None:
    """Leaves the world in order; every rank calls it, and then ends as usual."""
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
    """Ends this rank, from a thread, when the process that started it dies.

    Under the agent of a node that is a shell (`hydra.manual_command`): there its parent counts, too.
    """
    parent = os.getppid()
    above = _parent_of(parent) if settings.has_agent() else None

    def watch() -> None:
        while os.getppid() == parent and (above is None or _parent_of(parent) == above):
            time.sleep(_LIFELINE_SECONDS)
        os._exit(code)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _parent_of(process: int) -> int | None:
    """Returns the ID of the parent of a process; None if it has ended, or without /proc."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])  # the name before may have any characters


def _library() -> Any:
    """Returns mpi4py's MPI; the first call starts MPI."""
    check_mpi("a world of ranks")
    import mpi4py  # noqa: PLC0415

    mpi4py.rc.finalize = False
    if (library := find_library()) and not settings.variable("MPI4PY_LIBMPI"):
        settings.set_variables({"MPI4PY_LIBMPI": str(library)})
    try:
        from mpi4py import MPI  # noqa: PLC0415
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"mpi4py finds no MPI library ({' '.join(str(error).split())}); run"
            f" {install_command('mpi')}, which brings MPICH, or load the MPI module of your site"
        ) from error
    return MPI
