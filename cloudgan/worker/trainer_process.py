"""The trainer process and the worker's log."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import ConfigError
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.masking import masked
from cloudgan.core.progress import Progress

_LIBTPU = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
_MOST_LINE_BYTES = 65536
_LAST_LINES_SECONDS = 2.0
_ERROR_PREFIX = "cloudgan: "


def pjrt_library() -> dict[str, str]:
    """Returns the variable that names libtpu to TensorFlow, if the plan selects the PJRT runtime.

    An image with its own libtpu sets the variable itself, and it is kept.
    """
    if not settings.uses_pjrt() or settings.variable(_LIBTPU):
        return {}
    found = find_spec("libtpu")
    for folder in found.submodule_search_locations or () if found else ():
        if (path := Path(folder, "libtpu.so")).is_file():
            return {_LIBTPU: str(path)}
    raise ConfigError(
        f"TensorFlow finds this TPU only with libtpu, which is not installed here; use an image with"
        f" cloudgan[tpu], or one that sets {_LIBTPU} to the path of its libtpu.so"
    )


class TrainerProcess:
    """A process that the agent watches, in its process group so that signals to the pod reach both."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        tell: Callable[[str], None],
        network: LoopbackNetwork | None = None,
    ) -> None:
        """Starts it in a network; its input closes when the agent dies, and `tell` gets each line of its output."""
        self._tell = tell
        self._last_error = ""
        self.line_count = 0
        """Number of output lines."""
        self.was_killed = False
        """Whether the agent killed it."""
        self._process = subprocess.Popen(  # noqa: S603  cloudgan's own command
            network.command(command) if network else list(command),
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=network.descriptors if network else (),
        )
        self._reader = threading.Thread(
            target=self._listen, args=(self._process.stdout,), name="child", daemon=True
        )
        self._reader.start()

    @property
    def last_error(self) -> str:
        """The last error line of cloudgan."""
        return self._last_error

    def poll(self) -> int | None:
        """Returns the exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        self._process.send_signal(number)

    def request_stop(self, *, stepped: bool) -> None:
        """Requests a checkpoint and exit, as SIGTERM does.

        After the first step, closing standard input has the same effect and is idempotent: a
        second SIGTERM, after one to the whole group, would end it without a checkpoint.
        """
        if stepped:
            self.close_input()
        else:
            self.send_signal(signal.SIGTERM)

    def send(self, line: str) -> None:
        """Writes a line to its standard input; a process that has ended reads nothing."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def close_input(self) -> None:
        """Closes its standard input."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def dump_stacks(self) -> None:
        """Makes all threads print their stack traces, also while blocked in C++."""
        self.send_signal(signal.SIGUSR1)
        self.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills it without waiting, so that a signal handler can call this."""
        self.was_killed = self.was_killed or self.poll() is None
        self._process.kill()

    def close(self, patience_seconds: float = 0.0) -> None:
        """Kills it if it still runs after a time, and reads its last lines."""
        if patience_seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_seconds)
        if self.poll() is None:
            self.kill()
            self._process.wait()
        self._reader.join(_LAST_LINES_SECONDS)
        self.close_input()
        if self._process.stdout and not self._reader.is_alive():
            self._process.stdout.close()

    def _listen(self, output: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while raw := output.readline(_MOST_LINE_BYTES):
                text = raw.decode(errors="replace").rstrip("\r\n")
                if text.startswith(_ERROR_PREFIX):
                    self._last_error = masked(text.removeprefix(_ERROR_PREFIX))
                self.line_count += 1
                self._tell(text)


class WorkerLog:
    """Log of worker and trainer in order of arrival, with times in the file; thread-safe."""

    def __init__(self, path: Path, show: Callable[[str], None]) -> None:
        """Appends lines to `path` and passes each to `show`."""
        self.path = path
        self._show = show
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def line(self, text: str) -> None:
        """Logs a line, its secrets masked. A full disk or a closed pipe does not end the training."""
        text = masked(text)
        with self._lock:
            with contextlib.suppress(OSError), self.path.open("a", encoding="utf-8") as file:
                file.write(f"{utc_now()} {text}\n")
            with contextlib.suppress(OSError, ValueError):
                self._show(text)

    def say(self, text: str) -> None:
        """Logs a message of the worker itself."""
        self.line(f"cloudgan worker: {text}")


class LogProgress(Progress):
    """Writes the tasks to the log."""

    def __init__(self, log: WorkerLog) -> None:
        self._log = log

    def start(
        self,
        task: str,
        total: float | None = None,
        unit: str = "",
        *,
        done: float = 0,
        count: str = "",
    ) -> None:
        """Logs the start of a task."""
        del done, count
        self._log.say(task if total is None else f"{task}, {total:,.0f} {unit}".rstrip())

    def say(self, line: str) -> None:
        """Logs a line."""
        self._log.say(line)
