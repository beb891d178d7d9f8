"""The process of one rank: joins its world, serves its supervisor, and ends the world when it fails."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from cloudgan.core import settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.children import at_its_end
from cloudgan.core.document import Document
from cloudgan.core.documents import write_json
from cloudgan.core.errors import CloudganError, ConfigError, TryAgain
from cloudgan.ranks import mpi
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.stopping import EXIT_CODES, StopFlag, raise_if_stopped


class Failure(Document):
    """Why a rank failed; the first one writes it."""

    rank: int
    exit_code: int
    message: str


def failure_file(folder: RunFolder) -> Path:
    """Returns the file in which a failing rank leaves its exit code."""
    return folder.path / "ranks" / "failure.json"


def processes_file(folder: RunFolder) -> Path:
    """Returns the file with the process IDs of the ranks of this machine."""
    return folder.path / "ranks" / "processes.json"


class RunEnd(NamedTuple):
    """How a run of ranks ended: the reason, and its last step or iteration."""

    reason: StopReason
    position: int


def run_as_rank(
    folder: RunFolder, play: Callable[[mpi.World], RunEnd | None], *, unit: str
) -> RunEnd | None:
    """Acts as one rank of an MPI world, until all have ended; `unit` is what positions count.

    `play` returns how the run ended on rank 0, and None on the others, as this does. A failure in it ends this process at
    once, with the exit code of the error: the process manager then ends the other ranks. Under a supervisor
    all ranks end here, rank 0 with the exit code of the run; under the agents of nodes each has that one.

    Raises:
        Interrupted: Ctrl-C; all ranks have saved.
        TryAgain: SIGTERM; all ranks have saved.
    """
    world, number = None, settings.mpi_rank() or 0
    if settings.has_agent():  # which blocked it in Hydra and in the shells between
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        world = mpi.world()
        number = world.rank
        mpi.end_with_parent(TryAgain.exit_code)
        if settings.has_agent():
            faulthandler.register(signal.SIGUSR1, all_threads=True)
        elif settings.is_supervised():
            _follow_supervisor(world, folder)
        end = play(world)
        reason = world.gather(end.reason if end else None)[0]
        mpi.finalize()
    except CloudganError as error:
        if isinstance(error, ConfigError) and not settings.is_supervised():
            _let_the_first_speak(world, error.exit_code)
        fail(folder, number, error.exit_code, str(error))
    except Exception as error:  # noqa: BLE001  every failure must end the world
        if mpi.is_lost_message(error):  # a stack of MPI says nothing about the run
            cause = str(error).splitlines()[-1]
            lost = f"another rank has ended, as MPI could not exchange a message: {cause}"
            fail(folder, number, TryAgain.exit_code, lost, is_cause=False)
        traceback.print_exc()
        fail(folder, number, 1, f"{type(error).__name__}: {error}")
    if settings.has_agent() or settings.is_supervised():
        sys.exit(EXIT_CODES.get(reason, 0) if end or settings.has_agent() else 0)
    if end:
        raise_if_stopped(
            reason, f"stopped after {unit} {end.position}; rerun the command to resume"
        )
    return end


@contextmanager
def rank_stop_flag() -> Iterator[StopFlag]:
    """Handles signals; under an agent a rank also stops when the agent has ended."""
    with StopFlag() as flag:
        if settings.has_agent():
            flag.stop_with_parent(sys.stdin)
        yield flag


def fail(
    folder: RunFolder, rank: int, code: int, message: str, *, is_cause: bool = True
) -> NoReturn:
    """Leaves why this rank fails for its supervisor, and ends; an agent reads code and message instead.

    A failure that follows from that of another rank is no cause: it would hide a rank that was killed.
    """
    path = failure_file(folder)
    if is_cause and settings.is_supervised() and not settings.has_agent() and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, Failure(rank=rank, exit_code=code, message=message))
    sys.stderr.write(f"cloudgan: rank {rank}: {message}\n")
    if rank == 0 and "--json" in sys.argv and not settings.is_supervised():
        sys.stdout.write(json.dumps({"error": message, "exit_code": code}) + "\n")
    mpi.leave(code)


def _let_the_first_speak(world: mpi.World | None, code: int) -> None:
    """Ends a rank that refuses what the first one says; another reason than that one's is said a little later."""
    if world.rank == 0 if world else settings.is_first_rank_here():
        return
    time.sleep(settings.FIRST_RANK_SECONDS)
    if world is None:  # no MPI: nothing else may end it
        mpi.leave(code)


def _follow_supervisor(world: mpi.World, folder: RunFolder) -> None:
    """Leaves the process IDs for signals; writes what a worker prints to its log; ends with the parent."""
    pids = world.gather(os.getpid())
    if world.rank == 0:
        write_atomic(processes_file(folder), json.dumps(pids).encode())
        # mpiexec passes its standard input on to rank 0.
        at_its_end(sys.stdin, partial(os._exit, TryAgain.exit_code))
        return
    folder.logs.mkdir(parents=True, exist_ok=True)
    log = os.open(
        folder.logs / f"rank-{world.rank:03d}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
