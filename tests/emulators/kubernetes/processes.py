"""Containers as local process groups with their child processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MARK = "CLUSTER_CONTAINER"
PROC = Path("/proc")
MOST_TRIES = 200
REAPER = Path(__file__).with_name("process_reaper.py")


class ProcessReaper:
    """Kills the containers that remain after the tests, even if the tests are killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def send(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._process is None:  # many clusters run no container
                command = [sys.executable, "-I", "-S", str(REAPER)]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, text=True, start_new_session=True
                )
            assert self._process.stdin
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


class ContainerProcess:
    """One container's first process, in a session of its own. `on_end` receives its exit code.

    A pod's processes end with their first one. Processes that left the group are found by a mark
    in its environment, where there is /proc.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        *,
        log: Path,
        reaper: ProcessReaper,
        on_end: Callable[[int], None],
    ) -> None:
        self._mark = f"{folder}#{time.monotonic_ns()}"
        self._reaper = reaper
        self._on_end = on_end
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env={**env, MARK: self._mark},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper.send(f"+{self.pid}")
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _wait(self) -> None:
        code = self._process.wait()
        for _ in range(MOST_TRIES):  # one that was being started is found the next time
            if not self._signal_all(signal.SIGKILL):
                break
            time.sleep(0.01)
        self._reaper.send(f"-{self.pid}")
        self._on_end(128 - code if code < 0 else code)

    def terminate(self) -> None:
        """Asks the first process to end, as a container's runtime does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills all processes of the container."""
        self._signal_all(signal.SIGKILL)

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def signal_children(self, number: signal.Signals) -> list[int]:
        """Sends a signal to the processes that the first one started itself; returns their ids."""
        children = [pid for pid in _processes() if _parent(pid) == self.pid]
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        return children

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _signal_all(self, number: signal.Signals) -> bool:
        """Signals the group and what left it; returns whether it found a process."""
        there = False
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)
        for pid in _marked(self._mark):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
                there = True
        return there


def _marked(mark: str) -> list[int]:
    """Returns the processes whose environment has a mark; none where there is no /proc."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in _processes():
        with contextlib.suppress(OSError):
            if wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def _processes() -> list[int]:
    return [int(folder.name) for folder in PROC.glob("[0-9]*")]


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        # The name in parentheses may hold anything, so count from its end.
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return 0
