"""Signals and limits: when a run has to end, and with which exit code.

A Python signal handler waits until the C++ call under way returns, which may be a first step of
seconds. So a thread reads the signal from the wake-up pipe that C writes to at once.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Literal, Self, TextIO

if TYPE_CHECKING:
    from types import FrameType

Reason = Literal[
    "finished", "reached", "max_steps", "max_seconds", "interrupted", "terminated", "failed"
]
EXIT_CODES: dict[Reason, int] = {"interrupted": 130, "terminated": 75}

_BY_SIGNAL: dict[int, Reason] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class StopTraining(Exception):
    """Raised between two steps, on all workers after the same one."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class StopFlag:
    """Remembers that somebody asked to stop; before the first finished step it ends the process.

    As a context manager it owns SIGINT and SIGTERM: the first one asks, a second one ends the
    process at once. In a thread other than the main one signals stay as they are.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.stepped = False
        self._before: dict[int, object] = {}

    def ask(self, reason: Reason) -> None:
        """Asks to stop after the step under way; the first reason stays."""
        self.reason = self.reason or reason

    def stop_with_parent(self, lifeline: TextIO) -> None:
        """Asks to stop when `lifeline`, a pipe from the process that started us, is closed."""

        def wait() -> None:
            lifeline.read()
            self.ask("terminated")

        threading.Thread(target=wait, name="lifeline", daemon=True).start()

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.getsignal(number) for number in _BY_SIGNAL}
        self.take_signals()
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._thread.start()
        return self

    def take_signals(self) -> None:
        """Takes the signals, again after TensorFlow took SIGTERM for its preemption notifier.

        It does so when a multiworker strategy is made, and then tells nobody.
        """
        if self._before:
            for number in _BY_SIGNAL:
                signal.signal(number, _noted_elsewhere)

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
            if self.reason or not self.stepped:
                os._exit(EXIT_CODES[reason])
            self.ask(reason)


def _noted_elsewhere(number: int, frame: FrameType | None) -> None:
    """Takes the signal from Python; `StopFlag._watch` has it already."""
    del number, frame
