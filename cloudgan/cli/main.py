"""The process of the program `cloudgan`: its standard streams, Ctrl-C and its exit code.

Imports a few modules of the standard library, because Ctrl-C must be handled before the rest is imported.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, NoReturn, TextIO

from cloudgan.core.exit_at_once import exit_at_once

_INTERRUPTED = 130
_AGAIN_SECONDS = 0.1


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line `argv`; default: that of the process.

    For the process it also sets up the standard streams, Ctrl-C and the hooks of the interpreter:

    - A closed descriptor 0, 1 or 2 is opened, so that no data file gets its number.
    - A failed write to standard output raises `OutputError`; one to standard error is ignored.
    - A character that the terminal cannot show is replaced, and a secret masked.
    - SIGTERM while the command runs ends it as Ctrl-C does, with exit code 75.
    - Ctrl-C while the program is imported, and after the command ended, exits at once.
    - An exception in a destructor or a thread prints no traceback, except with ``--traceback``.
    """
    if argv is not None:
        _run(argv)
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as after `nohup` or `&`
    try:
        if not is_ignored:
            signal.signal(signal.SIGINT, _exit_interrupted)
        _open_streams()
        if "--traceback" not in sys.argv:
            sys.unraisablehook, threading.excepthook = _ignore, _report_thread
        _run(sys.argv[1:], starting=partial(_raise_signals, interrupts=not is_ignored))
    except KeyboardInterrupt:  # the second one, while the first is reported
        _exit_interrupted()
    finally:
        if not is_ignored:
            signal.signal(signal.SIGINT, _exit_interrupted)
        # CPython ends by SIGINT, whatever the exit code, if Ctrl-C passed an inner exec, such as that of a dataclass;
        # the next exec resets its mark (run_eval_code_obj in Python/pythonrun.c of 3.11).
        exec("")  # noqa: S102
        try:  # what cannot be written is dropped, so that the interpreter does not try
            sys.stdout.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(argv: Sequence[str], starting: Callable[[], None] | None = None) -> NoReturn:
    from cloudgan.cli.program import PROGRAM
    from cloudgan.core import settings

    settings.quiet_tensorflow()
    PROGRAM.run(argv, starting=starting)


def _exit_interrupted(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """Ends the process without its destructors: nothing was started, or all is done."""
    del number, frame
    exit_at_once("stopped by Ctrl-C", _INTERRUPTED)


def _raise_signals(*, interrupts: bool) -> None:
    """Lets Ctrl-C and SIGTERM raise: temporary files are removed, and the message says how to go on."""
    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, partial(_terminate, os.getpid()))


def _terminate(process: int, number: int, frame: FrameType | None) -> None:
    """Raises `Terminated`; the second signal ends the process at once, as the first does a forked one."""
    from cloudgan.core.errors import Terminated

    del frame
    signal.signal(number, signal.SIG_DFL)
    if os.getpid() != process:
        os.kill(os.getpid(), number)
    raise Terminated


class _Output(io.FileIO):
    """Standard output; says that it failed in an error of its own."""

    def write(self, content: Any, /) -> int:
        """Writes; waits where a non-blocking pipe is full.

        Raises:
            OutputError: The pipe is closed, or the disk is full.
        """
        import select

        try:
            while (count := super().write(content)) is None:
                select.select((), (self,), ())
        except OSError as error:
            from cloudgan.core.errors import OutputError

            is_closed = error.errno == errno.EBADF
            raise OutputError(
                error.errno, "it is closed" if is_closed else error.strerror
            ) from error
        return count


class _Messages(io.FileIO):
    """Standard error; a message that cannot be written is dropped, because none could report it."""

    def write(self, content: Any, /) -> int:
        """Writes what can be written."""
        with suppress(OSError):
            super().write(content)
        return memoryview(content).nbytes


class _Text(io.TextIOWrapper):
    """A standard stream that masks secrets, also those in logs of libraries, tracebacks and results."""

    def write(self, text: str, /) -> int:
        """Writes a text with its secrets masked."""
        from cloudgan.core.masking import masked

        super().write(masked(text))
        return len(text)


def _open_streams() -> None:
    """Replaces the standard streams of Python; a closed one fails when it is used."""
    # Now: a thread that prints must not wait for an import of the main thread, which may wait for it.
    import cloudgan.core.masking  # noqa: F401

    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # it is the lowest free number, and so the one that open returns
            os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)  # noqa: PLR2004
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout, "replace")
    sys.stderr = _text(_Messages(2, "wb", closefd=False), sys.stderr, "backslashreplace")


def _text(raw: io.FileIO, before: TextIO | None, errors: str) -> io.TextIOWrapper:
    """Returns a text stream with the encoding and the buffering of the one before."""
    encoding = before.encoding if before else "utf-8"
    each_line = getattr(before, "line_buffering", True)
    at_once = getattr(before, "write_through", False)
    return _Text(
        io.BufferedWriter(raw), encoding, errors, line_buffering=each_line, write_through=at_once
    )


def _ignore(unraisable: sys.UnraisableHookArgs) -> None:
    """Drops an exception of a destructor: the command's own error is what the user reads.

    A signal that met a destructor, or a callback of an import, is sent once more: Python drops its exception.
    """
    from cloudgan.core.errors import Terminated

    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        return
    number = signal.SIGINT
    if issubclass(unraisable.exc_type, Terminated):
        number = signal.SIGTERM
        signal.signal(number, partial(_terminate, os.getpid()))
    threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()


def _report_thread(failed: threading.ExceptHookArgs) -> None:
    """Prints one line for a thread that ended with an exception."""
    name = failed.thread.name if failed.thread else "?"
    what = " ".join(f"{failed.exc_type.__name__}: {failed.exc_value}".split())
    print(f"cloudgan: WARNING thread {name} ended: {what}", file=sys.stderr)
