"""The trainer process, the timeouts of its worker, the watchdog that detects a stall, and the worker's log."""

from __future__ import annotations

import contextlib
import signal
import statistics
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import MOST_RESTARTS, ConfigError
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.masking import masked
from cloudgan.core.progress import Progress
from cloudgan.schema.options.runs import WorkerOptions

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


class Timeouts(WorkerOptions):
    """Timeouts and intervals in seconds: those of the flags of `cloudgan worker`, and others.

    Attributes:
        barrier_seconds: Until all workers are ready. The Job controller replaces a pod that was lost often
            after 10 min (MaxJobPodFailureBackOff in kubernetes/pkg/controller/job/job_controller.go, read
            2026-11-25), which then has the gang timeout of 20 min to start: workers that gave up earlier
            would be replaced later and later themselves.
        stall_seconds: Until the next step, at least `stall_medians` times the median step time.
        store_seconds: Until the store works, and the identity of this pod, which may take minutes to be
            ready (https://cloud.google.com/iam/docs/access-change-propagation, read 2026-11-22).
        smoke_seconds: Until the smoke step prints another line or ends.
        end_seconds: For a trainer to exit by itself when a restart is needed.
        chief_timeout_seconds: Without a response of the chief.
        upload_seconds: For the final uploads.
        notice_every_seconds: Polling interval for preemption notices; None: the cloud's default.
    """

    store_seconds: float = 600.0
    smoke_seconds: float = 60.0
    stall_medians: float = 20.0
    end_seconds: float = 15.0
    chief_timeout_seconds: float = 20.0
    upload_seconds: float = 20.0
    fresh_seconds: float = 5.0
    join_every_seconds: float = 1.0
    resolve_every_seconds: float = 2.0
    record_every_seconds: float = 2.0
    heartbeat_every_seconds: float = 15.0
    log_every_seconds: float = 60.0
    store_retry_seconds: float = 5.0
    notice_every_seconds: float | None = None
    dump_seconds: float = 2.0
    poll_seconds: float = 0.1
    max_restarts: int = MOST_RESTARTS

    @property
    def trainer_grace_seconds(self) -> float:
        """The trainer's share of the grace period; the rest is for uploads."""
        return self.trainer_share_seconds(self.grace_seconds)

    def trainer_share_seconds(self, remaining_seconds: float) -> float:
        """The trainer's share of a remaining time."""
        return 0.6 * remaining_seconds


_REMEMBERED = 100


class Watchdog:
    """Detects a stalled trainer by its steps and their usual duration."""

    def __init__(self, timeouts: Timeouts, now_seconds: float) -> None:
        self._timeouts = timeouts
        self._step: int | None = None
        self._lines = self._blocks = 0
        self._moved = now_seconds
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)

    def saw_output(self, lines: int, now_seconds: float) -> None:
        """Counts output as progress until the first step is finished."""
        if self._step is None and lines != self._lines:
            self._lines, self._moved = lines, now_seconds

    def saw_step(self, step: int, now_seconds: float, blocks: int = 0) -> None:
        """Records that `step` is finished, and the `blocks` of a validation after it."""
        if step == self._step:
            if blocks != self._blocks:
                self._blocks, self._moved = blocks, now_seconds
            return
        if self._step is not None:
            self._intervals.append(now_seconds - self._moved)
        self._step, self._moved = step, now_seconds

    @property
    def limit_seconds(self) -> float:
        """Timeout of the next step; includes tracing until two steps are finished."""
        if not self._intervals:
            return self._timeouts.first_step_seconds
        usual = statistics.median(self._intervals)
        return max(self._timeouts.stall_seconds, self._timeouts.stall_medians * usual)

    def is_stalled(self, now_seconds: float) -> bool:
        """Whether the timeout has passed without progress."""
        return now_seconds - self._moved > self.limit_seconds


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
