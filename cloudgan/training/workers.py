"""Several workers on this machine: starts them, follows them, and ends them together."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError, Interrupted, TryAgain
from cloudgan.core.settings import child_environment
from cloudgan.training.gpu_share import share_gpus

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

_GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class _Worker:
    index: int
    process: subprocess.Popen[bytes]
    log: Path


class LocalWorkers:
    """The processes of one multiworker run on this machine.

    Each runs in a session of its own, so that Ctrl-C reaches it once, through us; each watches its
    standard input, so that it stops when we die.
    """

    def __init__(
        self, command: tuple[str, ...], workers: int, logs: Path, *, tuned: str | None = None
    ) -> None:
        """Prepares to run `python -m cloudgan` with `command` in `workers` processes.

        Args:
            command: What each runs.
            workers: How many there are.
            logs: Folder of their logs.
            tuned: How all of them compute, as `tuning.handed_on` says it.

        Raises:
            ConfigError: They cannot share this machine's GPUs.
        """
        self._command, self._count, self._logs = command, workers, logs
        self._gpus = share_gpus(workers)
        self._tuned = tuned
        self._asked: int | None = None

    def run(self) -> None:
        """Runs all workers to their end.

        Raises:
            CloudganError: A worker died; the others were stopped. The message says which one.
            Interrupted: Ctrl-C; all stopped after the same step.
            TryAgain: SIGTERM; likewise.
        """
        before = {n: signal.signal(n, self._ask) for n in (signal.SIGINT, signal.SIGTERM)}
        workers = self._start()
        try:
            self._follow(workers)
        finally:
            _end(workers)
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._asked == signal.SIGINT:
            raise Interrupted("stopped; the same command continues from the last checkpoint")
        if self._asked == signal.SIGTERM:
            raise TryAgain("stopped; the same command continues from the last checkpoint")

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._asked = number

    def _start(self) -> list[_Worker]:
        self._logs.mkdir(parents=True, exist_ok=True)
        peers = [f"127.0.0.1:{port}" for port in _free_ports(self._count)]
        started = []
        for index in range(self._count):
            task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}}
            log = self._logs / f"worker-{index}.log"
            # The chief talks to the user itself; the others would only repeat it.
            with log.open("ab") as file:
                process = subprocess.Popen(  # noqa: S603
                    (sys.executable, "-m", "cloudgan", *self._command),
                    env=child_environment(
                        TF_CONFIG=json.dumps(task),
                        CLOUDGAN_SUPERVISED="1",
                        CLOUDGAN_TUNED=self._tuned,
                        **self._gpus[index],
                    ),
                    stdin=subprocess.PIPE,
                    stdout=None if index == 0 else file,
                    stderr=None if index == 0 else file,
                    start_new_session=True,
                )
            started.append(_Worker(index, process, log))
        return started

    def _follow(self, workers: list[_Worker]) -> None:
        passed_on = None
        while any(worker.process.poll() is None for worker in workers):
            if self._asked != passed_on:
                passed_on = self._asked
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
    # Who was killed says so by a negative code; the others fail because of it.
    first = min(dead, key=lambda worker: worker.process.returncode)
    code = first.process.returncode
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    said = _last_words(first.log)
    raise CloudganError(
        f"worker {first.index} of {len(workers)} (process {first.process.pid}) died with {how};"
        f" the others were stopped. Its log is {first.log}{said}. The same command continues from"
        " the last checkpoint"
    )


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    words = [line for line in lines if line.startswith("cloudgan: ")]
    return f", which ends with {words[-1]!r}" if words else ""


def _signal(workers: list[_Worker], number: int) -> None:
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.send_signal(number)


def _end(workers: list[_Worker]) -> None:
    """Ends whoever still runs: asks, waits, then kills."""
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


def _free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until the last is found, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
