"""The MPI ranks of one worker: Hydra's proxy starts them, the agent signals them and reads their codes.

The chief's agent runs ``mpiexec -launcher manual``; the proxies of all workers connect to it. A rank that
fails or is killed ends those of all workers within a second. Of a lost node mpiexec learns nothing: there
the rendezvous ends the generation, as it does for other trainers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join

from cloudgan.core.errors import TryAgain
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.settings import child_environment
from cloudgan.ranks import hydra
from cloudgan.worker.trainer_process import TrainerProcess

_LAUNCH_SECONDS = 30.0
_POLL_SECONDS = 0.02
_END_SECONDS = 5.0
_SIGNAL = 128
"""A shell adds this to the number of the signal that ended a process."""


class RankLauncher:
    """Starts the ranks of a worker; on the chief also mpiexec."""

    def __init__(
        self,
        ranks: Sequence[int],
        host: str,
        folder: Path,
        tell: Callable[[str], None],
        network: LoopbackNetwork | None,
    ) -> None:
        """Prepares `ranks` processes on each node; `tell` gets the output of this worker's."""
        self._ranks, self._host, self._folder = ranks, host, folder
        self._tell, self._network = tell, network
        self._mpiexec: TrainerProcess | None = None

    def launch(self) -> tuple[str, ...]:
        """Starts mpiexec, in place of an earlier one; returns the arguments of each worker's proxy."""
        self.close()
        said: list[str] = []
        command = hydra.manual_command(self._ranks, self._host)
        with _sigterm_blocked():
            process = TrainerProcess(command, child_environment(), said.append, self._network)
        self._mpiexec = process
        process.close_input()
        deadline = time.monotonic() + _LAUNCH_SECONDS
        while (found := hydra.read_launch(tuple(said))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        if found is None or len(found) != len(self._ranks):
            self.close()
            raise TryAgain(f"mpiexec cannot start the ranks: {' '.join(said)[-500:]}")
        return found

    def start(
        self, arguments: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> RankProcesses:
        """Starts the ranks of this worker."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        own = {hydra.COMMAND: join(command), hydra.FOLDER: str(self._folder)}
        with _sigterm_blocked():
            return RankProcesses(
                hydra.proxy_command(arguments),
                {**environment, **own},
                self._tell,
                self._network,
                folder=self._folder,
                end=self.close,
            )

    def close(self, patience_seconds: float = 0.0) -> None:
        """Ends mpiexec, which ends by itself after the ranks of all workers."""
        process, self._mpiexec = self._mpiexec, None
        if process:
            process.close(patience_seconds)


class RankProcesses(TrainerProcess):
    """The ranks of a worker under their proxy, watched as one process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        tell: Callable[[str], None],
        network: LoopbackNetwork | None,
        *,
        folder: Path,
        end: Callable[[float], None],
    ) -> None:
        """Starts the proxy; the standard input of its ranks closes when the agent dies."""
        self._folder, self._end = folder, end
        super().__init__(command, environment, tell, network)

    @property
    def last_error(self) -> str:
        """The last error line of a rank; else that the failure was elsewhere."""
        return super().last_error or "a rank of another worker ended, which ends all ranks"

    def poll(self) -> int | None:
        """Returns the exit code of the ranks; None while the proxy runs.

        A code that no restart changes comes first, then that of a signal, then 75, also for ranks that were
        ended because another one had failed; 0: all have succeeded.
        """
        if super().poll() is None:
            return None
        started = {path.name.partition("-")[2] for path in self._folder.glob("pid-*")}
        codes = dict(self._codes())
        found = set(codes.values())
        if started and started == set(codes) and found == {0}:
            return 0
        lasting = sorted(code for code in found if code not in (0, TryAgain.exit_code) and code > 0)
        signalled = sorted(code for code in found if code < 0)
        return next(iter((*lasting, *signalled)), TryAgain.exit_code)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the ranks that run."""
        ended = {rank for rank, _ in self._codes()}
        for path in self._folder.glob("pid-*"):
            if path.name.partition("-")[2] not in ended:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(path.read_text(encoding="ascii")), number)

    def kill(self) -> None:
        """Kills the ranks and their proxy without waiting."""
        super().kill()
        self.send_signal(signal.SIGKILL)

    def close(self, patience_seconds: float = 0.0) -> None:
        """Ends what still runs, and reads the last lines."""
        was_running = super().poll() is None
        self.send_signal(signal.SIGKILL)
        super().close(patience_seconds)
        self._end(0.0 if was_running else _END_SECONDS)

    def _codes(self) -> Iterator[tuple[str, int]]:
        """Yields the exit code of each rank that has ended, negative for a signal."""
        for path in self._folder.glob("exit-*"):
            with contextlib.suppress(OSError, ValueError):
                code = int(path.read_text(encoding="ascii"))
                yield path.name.partition("-")[2], code if code < _SIGNAL else _SIGNAL - code


@contextlib.contextmanager
def _sigterm_blocked() -> Iterator[None]:
    """Blocks SIGTERM in the processes that start in the block; ranks unblock it.

    Slurm sends it to all processes of a job at once, and Hydra would kill the ranks that still save.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
