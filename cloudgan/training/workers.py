"""Several workers on this machine: starts them, monitors them, and stops them together."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cloudgan.core.errors import CloudganError, Interrupted, TryAgain
from cloudgan.core.held_port import SHARED, hold_port, number_of
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.settings import child_environment
from cloudgan.training.cluster import share_gpus

_GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class _Worker:
    index: int
    process: subprocess.Popen[bytes]
    log: Path


class LocalWorkers:
    """The processes of one multiworker run on this machine.

    Each runs in its own session, so that Ctrl-C reaches it once, through this process; each watches
    its standard input and stops when this process dies. They share a network namespace, because
    TensorFlow's servers listen on all addresses.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        workers: int,
        logs: Path,
        *,
        quiet: bool = False,
        isolated: bool = True,
    ) -> None:
        """Prepares `workers` processes of `python -m cloudgan COMMAND`.

        Args:
            command: Arguments of each.
            workers: Number of processes.
            logs: Folder of their logs.
            quiet: The chief writes to its log too, instead of standard output and error.
            isolated: Whether their ports are out of reach of all other processes.

        Raises:
            ConfigError: Their number does not divide this machine's GPUs.
        """
        self._command, self._count, self._logs, self._quiet = command, workers, logs, quiet
        self._isolated = isolated
        self._gpus = share_gpus(workers)
        self._requested_signal: int | None = None

    def run(self) -> None:
        """Runs all workers until they end.

        Raises:
            CloudganError: A worker failed; the others were stopped.
            IsolationError: This machine cannot isolate their ports.
            Interrupted: Ctrl-C; all stopped after the same step.
            TryAgain: SIGTERM; all stopped after the same step.
        """
        network = LoopbackNetwork.create() if self._isolated else None
        before = {n: signal.signal(n, self._ask) for n in (signal.SIGINT, signal.SIGTERM)}
        held = [hold_port() for _ in range(self._count)]
        workers = self._start(network, [number_of(one) for one in held])
        try:
            self._follow(workers)
        finally:
            for one in held:
                one.close()
            _end(workers)
            if network:
                network.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._requested_signal == signal.SIGINT:
            raise Interrupted("stopped; rerun the command to resume from the last checkpoint")
        if self._requested_signal == signal.SIGTERM:
            raise TryAgain("stopped; rerun the command to resume from the last checkpoint")

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._requested_signal = number

    def _start(self, network: LoopbackNetwork | None, ports: list[int]) -> list[_Worker]:
        self._logs.mkdir(parents=True, exist_ok=True)
        peers = [f"127.0.0.1:{port}" for port in ports]
        command = [sys.executable, "-m", "cloudgan", *self._command]
        if network:
            command = network.command(command)
        started = []
        for index in range(self._count):
            task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}}
            log = self._logs / f"worker-{index}.log"
            # Only the chief writes to the terminal.
            inherits = index == 0 and not self._quiet
            with log.open("ab") as file:
                process = subprocess.Popen(  # noqa: S603
                    command,
                    pass_fds=network.descriptors if network else (),
                    env=child_environment(
                        TF_CONFIG=json.dumps(task),
                        CLOUDGAN_SUPERVISED="1",
                        **SHARED,
                        **self._gpus[index],
                    ),
                    stdin=subprocess.PIPE,
                    stdout=None if inherits else file,
                    stderr=None if inherits else file,
                    start_new_session=True,
                )
            started.append(_Worker(index, process, log))
        return started

    def _follow(self, workers: list[_Worker]) -> None:
        passed_on = None
        while any(worker.process.poll() is None for worker in workers):
            if self._requested_signal != passed_on:
                passed_on = self._requested_signal
                _signal(workers, signal.SIGTERM if passed_on is None else passed_on)
            if passed_on is None:
                _raise_for_dead(workers)
            time.sleep(_POLL_SECONDS)
        if passed_on is None:
            _raise_for_dead(workers)


def _raise_for_dead(workers: list[_Worker]) -> None:
    dead = [w for w in workers if w.process.poll()]
    if not dead:
        return
    # A killed worker has a negative exit code; the others fail as a consequence.
    first = min(dead, key=lambda worker: worker.process.returncode)
    code = first.process.returncode
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    said = _last_error(first.log)
    raise CloudganError(
        f"worker {first.index} of {len(workers)} (process {first.process.pid}) died with {how};"
        f" the others were stopped. Its log is {first.log}{said}. Rerun the command to resume from"
        " the last checkpoint"
    )


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    words = [line for line in lines if line.startswith("cloudgan: ")]
    return f", which ends with {words[-1]!r}" if words else ""


def _signal(workers: list[_Worker], number: int) -> None:
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.send_signal(number)


def _end(workers: list[_Worker]) -> None:
    """Stops the running workers: SIGTERM, then SIGKILL after the grace period."""
    _signal(workers, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    for worker in workers:
        try:
            worker.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        if worker.process.stdin:
            worker.process.stdin.close()
