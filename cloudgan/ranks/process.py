"""The processes of ranks: one joins its world and ends it when it fails; a supervisor starts all on this machine.

Hydra (`mpiexec` of the wheel `mpich`) starts the ranks and passes SIGINT and SIGTERM on to each. When
one rank fails or is killed it kills the others, and its own exit code is then that of any of them: the
failing rank therefore writes its exit code and message to a file, which the supervisor reads.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from cloudgan.core import settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.children import RESUMES, StopSignal, at_its_end
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_json, read_bytes, read_json, write_json
from cloudgan.core.errors import MOST_RESTARTS, CloudganError, ConfigError, NoProgress, TryAgain
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress
from cloudgan.core.settings import child_environment
from cloudgan.ranks import mpi
from cloudgan.ranks.hydra import find_program
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


_GRACE_SECONDS = 60.0
_POLL_SECONDS = 0.1


class LocalRanks:
    """The ranks of one run on this machine.

    They share a network namespace, as other worker processes do: TensorFlow's servers and Hydra listen
    on all addresses.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        ranks: int,
        folder: RunFolder,
        progress: Progress,
        *,
        newest: Callable[[], int],
        unit: str = "step",
        quiet: bool = False,
        isolated: bool = True,
    ) -> None:
        """Prepares `ranks` processes of `python -m cloudgan COMMAND`.

        `newest` returns the number of the newest point from which all ranks resume, which counts `unit`.
        Quiet: their output goes to a log only; isolated: their ports are out of reach of all other
        processes.
        """
        self._command, self._ranks, self._folder = command, ranks, folder
        self._progress, self._quiet, self._isolated = progress, quiet, isolated
        self._mpiexec = find_program()
        self._newest, self._unit = newest, unit
        self._stop = StopSignal()

    def run(self) -> None:
        """Runs all ranks until they end; starts them again after one is lost or exits with 75.

        Raises:
            CloudganError: A rank failed; with its message and exit code.
            NoProgress: Ranks were lost three times without a newer checkpoint.
            Interrupted: Ctrl-C; all saved.
            TryAgain: SIGTERM; all saved.
        """
        self._progress.end()  # rank 0 shows the run
        network = LoopbackNetwork.create() if self._isolated else None
        try:
            with self._stop.by_signals(RESUMES):
                self._run(network)
        finally:
            if network:
                network.close()

    def _run(self, network: LoopbackNetwork | None) -> None:
        restarts, newest = 0, self._newest()
        while True:
            code, failure = self._world(network)
            if code == 0 or self._stop.number:
                return
            log = self._folder.logs / "ranks.log"
            said = f"a rank was killed, perhaps for lack of memory; its log is {log}"
            if failure:
                said = f"rank {failure.rank} failed: {failure.message}"
                if failure.exit_code != TryAgain.exit_code:  # it would fail again
                    error = CloudganError(failure.message)
                    error.exit_code = failure.exit_code
                    raise error
            now = self._newest()
            restarts = restarts + 1 if now == newest else 1
            newest = now
            if restarts > MOST_RESTARTS:
                raise NoProgress(
                    f"{said}; {MOST_RESTARTS} restarts brought no newer checkpoint. The last one is"
                    f" of {self._unit} {max(0, now)}"
                )
            self._progress.say(f"{said}; all ranks start again after {self._unit} {max(0, now)}")

    def _world(self, network: LoopbackNetwork | None) -> tuple[int, Failure | None]:
        """Runs one world to its end; returns its exit code, and why a rank failed, if one said so."""
        failure_file(self._folder).unlink(missing_ok=True)
        processes_file(self._folder).unlink(missing_ok=True)
        self._folder.logs.mkdir(parents=True, exist_ok=True)
        command = [
            *(str(self._mpiexec), "-launcher", "fork", "-n", str(self._ranks)),
            *(sys.executable, "-m", "cloudgan", *self._command),
        ]
        if network:
            command = network.command(command)
        with (self._folder.logs / "ranks.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                pass_fds=network.descriptors if network else (),
                env=child_environment(TF_CONFIG=None, CLOUDGAN_SUPERVISED="1"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log if self._quiet else None,
                start_new_session=True,
            )
            try:
                self._follow(process)
            finally:
                process.kill()
                process.wait()
                if process.stdin:
                    process.stdin.close()
        path = failure_file(self._folder)
        return process.returncode, read_json(path, Failure) if path.exists() else None

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Passes signals on; ranks that have not joined yet have nothing to save, and are not waited for."""
        passed_on, deadline = None, float("inf")
        while process.poll() is None and time.monotonic() < deadline:
            if self._stop.number != passed_on:
                passed_on = self._stop.number
                have_joined = self._signal_ranks(passed_on or signal.SIGTERM)
                deadline = time.monotonic() + (_GRACE_SECONDS if have_joined else 0.0)
            time.sleep(_POLL_SECONDS)

    def _signal_ranks(self, number: int) -> bool:
        """Signals each rank: Hydra would, too, but prints about it into the result; False: none has joined yet."""
        path = processes_file(self._folder)
        if not path.exists():
            return False
        for pid in parse_json(read_bytes(path), str(path)):
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)
        return True
