"""A pseudo-terminal with a program in it, and the screen that a person sees."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

_TOKEN = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|([^\x1b])", re.DOTALL)

# Ctrl-C is for the group of the controlling terminal. A `preexec_fn` would fork this process, which may have threads.
_IN_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Screen:
    """Applies what a program writes; lines that scroll out stay in `rows`.

    Attributes:
        rows: From the first line on.
        wrapped: Rows that the terminal continued on the next one.
        live: Each state of the row of the cursor before it was erased.
        has_cursor: Whether it is visible.
    """

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.columns, self.lines = columns, lines
        self.rows = [""]
        self.wrapped: list[str] = []
        self.live: list[str] = []
        self.has_cursor = True
        self._row = self._column = 0

    @property
    def shown(self) -> list[str]:
        """The rows down to the last one that is not empty."""
        return "\n".join(self.rows).rstrip().split("\n")

    def write(self, text: str) -> None:
        for found in _TOKEN.finditer(text):
            parameters, command, char = found.groups()
            if command:
                self._obey(parameters, command)
            elif char == "\r":
                self._column = 0
            elif char == "\n":
                self._down()
            elif char and char.isprintable():
                self._put(char)

    def _put(self, char: str) -> None:
        if self._column == self.columns:
            self.wrapped.append(self.rows[self._row])
            self._column = 0
            self._down()
        row = self.rows[self._row].ljust(self._column)
        self.rows[self._row] = row[: self._column] + char + row[self._column + 1 :]
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")

    def _obey(self, parameters: str, command: str) -> None:
        if command == "A":
            top = max(0, len(self.rows) - self.lines)
            self._row = max(top, self._row - int(parameters or 1))
        elif command == "H":
            self._row = max(0, len(self.rows) - self.lines)
            self._column = 0
        elif command == "J":
            del self.rows[self._row + 1 :]
            self.rows[self._row] = self.rows[self._row][: self._column]
        elif command == "K":
            self.live.append(self.rows[self._row])
            self.rows[self._row] = "" if parameters == "2" else self.rows[self._row][: self._column]
        elif parameters == "?25":
            self.has_cursor = command == "h"
        else:
            assert command == "m", f"unknown control sequence {parameters}{command}"


class Program:
    """`python -m cloudgan` in a terminal."""

    def __init__(self, *arguments: object, columns: int = 80, lines: int = 24, **environment: str):
        self.screen = Screen(columns, lines)
        control, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        known = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_ITS_TERMINAL, "-m", "cloudgan", *map(str, arguments)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=known | {"TERM": "xterm", "CUDA_VISIBLE_DEVICES": "-1"} | environment,
            start_new_session=True,
        )
        os.close(terminal)
        self._control = control
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with (
            contextlib.suppress(OSError),
            os.fdopen(self._control, encoding="utf-8", newline="") as file,
        ):
            while text := file.read(1):
                self.screen.write(self._whole(text, file))

    @staticmethod
    def _whole(text: str, file: object) -> str:
        while text.startswith("\x1b") and not _TOKEN.fullmatch(text):
            text += file.read(1)
        return text

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Waits until a row, or the live line, has the text."""
        end = time.monotonic() + seconds
        while not any(text in row for row in (*self.screen.rows, *self.screen.live)):
            assert time.monotonic() < end, f"no {text!r} in {self.screen.rows}"
            assert self.process.poll() is None, self.screen.rows
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Types Ctrl-C."""
        os.write(self._control, b"\x03")

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def end(self, seconds: float = 240) -> int:
        """Waits for the end of the program; returns its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.screen.shown}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join(10)
        return code


def run_in_terminal(*arguments: object, **options: object) -> Screen:
    """Runs a command to its end; returns its screen."""
    program = Program(*arguments, **options)
    code = program.end()
    assert code == 0, "\n".join(program.screen.rows)
    return program.screen
