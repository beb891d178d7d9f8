"""Parent and child processes: a request to stop, ports that are held for a child, and the lines that it writes.

A port that was only found free can be taken before TensorFlow, which imports for seconds, binds it.
TensorFlow takes no bound socket, but shares its port with SO_REUSEPORT if a variable says so
(`tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc`; https://github.com/tensorflow/tensorflow/pull/38705,
read 2026-11-25). A held socket does not listen, so all connections reach the server; only processes of the
same user that ask for SO_REUSEPORT could bind the port, too (socket(7)).
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from cloudgan.core import settings
from cloudgan.core.errors import Interrupted, TryAgain

RESUMES: Final = "stopped; rerun the command to resume from the last checkpoint"
SHARED: Final = {"TF_GRPC_REUSE_PORT": "true"}
"""Environment of a process whose TensorFlow gets a held port."""
_POLL_SECONDS: Final = 0.2
_LAST_LINES: Final = 12


def at_its_end(lifeline: TextIO, call: Callable[[], object]) -> None:
    """Calls a function, in a thread, when a pipe from the parent process is closed: by it, or because it died."""

    def wait() -> None:
        lifeline.read()
        call()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


class StopSignal:
    """Which signal asked to stop, the newest; None: none did."""

    number: int | None = None

    def __call__(self, number: int, frame: object = None) -> None:
        """Notes a signal, as its handler."""
        del frame
        self.number = number

    @contextlib.contextmanager
    def by_signals(self, message: str) -> Iterator[None]:
        """Handles SIGINT and SIGTERM; raises `Interrupted` or `TryAgain` at the end of a block that one ended."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self) for number in numbers}
        if settings.is_supervised():  # by a block of a search
            at_its_end(sys.stdin, partial(self, signal.SIGTERM))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.number is not None:
            raise (Interrupted if self.number == signal.SIGINT else TryAgain)(message)


def hold_port(host: str = "", port: int = 0) -> socket.socket:
    """Returns a socket that holds a port until it is closed.

    Args:
        host: Address to bind; empty: all of IPv4.
        port: Number; 0: a free one.

    Raises:
        OSError: Another process has the port.
    """
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.bind((host, port))  # before it may be shared: it shares no other server's port
    except OSError:
        held.close()
        raise
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


def number_of(held: socket.socket) -> int:
    """Returns the number of a held port."""
    return int(held.getsockname()[1])


def tail_lines(path: Path, is_over: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yields the lines of a file, including an unterminated last line.

    Args:
        path: The file.
        is_over: Returns whether the writer has finished; None reads the present content only.
    """
    with path.open("rb") as file:
        rest = b""
        while True:
            over = is_over is None or is_over()  # before the read, so that no last line is lost
            *lines, rest = (rest + file.read()).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            if over:
                break
            time.sleep(_POLL_SECONDS)
    if rest:
        yield rest.decode(errors="replace")


def last_lines(text: str) -> str:
    """Returns the end of a message about a process that failed: the last lines that it wrote, if any."""
    lines = text.splitlines()[-_LAST_LINES:]
    return "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
