"""Ranks on this machine: starts them with MPICH's process manager, restarts them, and ends them.

Hydra (`mpiexec` of the wheel `mpich`) starts the ranks and passes SIGINT and SIGTERM on to each. When
one rank fails or is killed it kills the others, and its own exit code is then that of any of them: the
failing rank therefore writes its exit code and message to a file, which this module reads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from cloudgan.core.children import RESUMES, StopSignal
from cloudgan.core.documents import parse_json, read_bytes, read_json
from cloudgan.core.errors import MOST_RESTARTS, CloudganError, NoProgress, TryAgain
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress
from cloudgan.core.settings import child_environment
from cloudgan.ranks.hydra import find_program
from cloudgan.ranks.process import Failure, failure_file, processes_file
from cloudgan.schema.run_folder import RunFolder

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
