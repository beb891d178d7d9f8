"""Signals and stop requests, what a loop does with other workers, and how a run ended. Imports no TensorFlow.

A Python signal handler runs only when the current C++ call returns, which takes seconds in a first
step. A thread therefore reads the signal from the wake-up pipe.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TextIO, get_args

from cloudgan.core.atomic_file import remove_unfinished
from cloudgan.core.children import at_its_end
from cloudgan.core.document import Document
from cloudgan.core.errors import CloudganError, Interrupted, TryAgain
from cloudgan.core.exit_at_once import exit_at_once
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.stop_criterion import BestCheckpoint
from cloudgan.training.forecast import MemoryForecast

REASONS: tuple[StopReason, ...] = get_args(StopReason)
STOP_REASONS: tuple[StopReason, ...] = (
    "interrupted",
    "terminated",
    "max_seconds",
    "reached",
    "plateau",
)
"""Reasons for which a worker may stop all workers, in order of precedence."""
_ERRORS: dict[StopReason, type[CloudganError]] = {
    "interrupted": Interrupted,
    "terminated": TryAgain,
}
EXIT_CODES: dict[StopReason, int] = {reason: error.exit_code for reason, error in _ERRORS.items()}

SIGN_SECONDS = 5.0
"""Between two signs of life of a process that waits for the copy of a checkpoint."""

_BY_SIGNAL: dict[int, StopReason] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def raise_if_stopped(reason: StopReason | None, message: str) -> None:
    """Raises the error of the signal that ended a run, if one did.

    Raises:
        Interrupted: Ctrl-C.
        TryAgain: SIGTERM.
    """
    if reason in _ERRORS:
        raise _ERRORS[reason](message)


class Outcome(Document):
    """How a process ended; `best` validated checkpoint and `memory` forecast, if known."""

    reason: StopReason
    step: int
    epoch: int
    train_seconds: float
    checkpoint: Path
    best: BestCheckpoint | None = None
    memory: MemoryForecast | None = None


class StopTraining(Exception):
    """Raised between two steps, on all workers after the same step."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class StopFlag:
    """A request to stop; before the first completed step a signal ends the process at once.

    As a context manager it handles SIGINT and SIGTERM: the first requests a stop, the second ends
    the process. A request of the parent does not count as a signal: a scheduler may send the first to
    all processes after that. Outside the main thread it does not change signal handlers.
    """

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.stepped = False
        self._before: dict[int, object] = {}
        self._was_signalled = False

    def request(self, reason: StopReason) -> None:
        """Requests a stop after the current step; the first reason is kept."""
        self.reason = self.reason or reason

    def stop_with_parent(self, lifeline: TextIO) -> None:
        """Requests a stop when `lifeline`, a pipe from the parent process, is closed."""
        at_its_end(lifeline, partial(self.request, "terminated"))

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.getsignal(number) for number in _BY_SIGNAL}
        self.install_handlers()
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._thread.start()
        return self

    def install_handlers(self) -> None:
        """Installs the handlers, again after TensorFlow replaced that of SIGTERM.

        Its preemption notifier does so when a multiworker strategy is created.
        """
        if self._before:
            for number in _BY_SIGNAL:
                signal.signal(number, lambda *_: None)  # `_watch` reads the signal

    def __exit__(self, *_: object) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}
        signal.set_wakeup_fd(self._wakeup_before)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _watch(self) -> None:
        while received := self._reader.recv(1):
            reason = _BY_SIGNAL.get(received[0])
            if reason is None:
                continue
            if self._was_signalled or not self.stepped:
                remove_unfinished()
                exit_at_once(
                    "stopped at once; run the same command again to go on", EXIT_CODES[reason]
                )
            self._was_signalled = True
            self.request(reason)


class Loop(Protocol):
    """What an exchange needs of the loop that trains (`TrainLoop`, or one that sleeps)."""

    step: int
    train_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Seconds of training in this epoch."""

    @property
    def loss_sums(self) -> Any:
        """Sums of the losses over all steps of this process, an array (passes, columns)."""

    def save(self) -> None:
        """Saves a checkpoint of this step."""


class Exchange:
    """What other workers want between two blocks of steps: nothing; see `cloudgan.parallel.worker`."""

    waits_for_copies = False

    def begin(self, step: int) -> None:
        """Joins, before the first step of this process."""

    def steps_until(self, step: int) -> int:
        """Returns the steps from `step` to the next exchange, at least 1."""
        del step
        return sys.maxsize

    def after_block(self, loop: Loop) -> None:
        """Exchanges if it is due; raises StopTraining if the run ends."""

    def before_last_save(self, loop: Loop) -> None:
        """Exchanges what was trained since the last exchange."""

    def waits(self) -> None:
        """Shows a sign of life, every few seconds in which this process waits for the copy of a checkpoint."""

    def leave(self, step: int, reason: StopReason) -> None:
        """Waits until all workers have ended; `step` is saved."""

    def arrays(self) -> Mapping[str, Any]:
        """Returns what a checkpoint of this worker needs besides the networks."""
        return {}
