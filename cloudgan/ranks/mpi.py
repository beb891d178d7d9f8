"""Ranks of an MPI world; the only importer of mpi4py.

The ranks are started by MPICH's process manager Hydra (`mpiexec` of the wheel `mpich`), by another
`mpiexec`, or by `srun`. A failing rank must not finalize MPI, which waits for all others: it ends by
`os._exit`, and the process manager ends the others.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.ranks.hydra import find_library
from cloudgan.ranks.placement import check_mpi
from cloudgan.ranks.world import ANYONE, Alone, Message, World, as_bytes, poll_until

_LIFELINE_SECONDS = 0.25


class Mpi(World):
    """Ranks of an MPI communicator of mpi4py."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())

    def split(self, color: int) -> Mpi:
        """Returns the ranks that gave the same `color`, in their order; all ranks call it."""
        return Mpi(self._comm.Split(color, self.rank))

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
        """Returns the values of all ranks, by rank, to all of them; small JSON values."""
        own = as_bytes(value)
        sizes = np.empty(self.size, np.int64)
        size = np.array([own.size], np.int64)
        poll_until(self._comm.Iallgather(size, sizes).Test, meanwhile)
        everything = np.empty(int(sizes.sum()), np.uint8)
        poll_until(self._comm.Iallgatherv(own, [everything, sizes.tolist()]).Test, meanwhile)
        parts = np.split(everything, np.cumsum(sizes)[:-1])
        return [parse_json(part.tobytes(), "a message of a rank") for part in parts]


def world() -> World:
    """Joins the MPI world of this process."""
    if not settings.is_mpi_rank():
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


def check_threads(instead: str) -> None:
    """Checks that two threads of this rank may call MPI at the same time."""
    if not settings.is_mpi_rank():
        return
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
    if settings.is_mpi_rank():
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
    if library := find_library():
        settings.set_for_mpi(library)
    try:
        from mpi4py import MPI  # noqa: PLC0415
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"mpi4py finds no MPI library ({' '.join(str(error).split())}); run"
            f" {install_command('mpi')}, which brings MPICH, or load the MPI module of your site"
        ) from error
    return MPI
