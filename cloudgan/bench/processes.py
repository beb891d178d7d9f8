"""Processes that measure: programs that run to their end, and children that yield a row on request.

TensorFlow reads threads and libraries once on import, so each variant has its own process. A child is
`python -m cloudgan.bench.processes TASK`; each line of its standard input asks for a row, and answers are JSON
lines. It exits when the pipe closes, also if the parent is killed.
"""

from __future__ import annotations

import json
import os
import pkgutil
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from cloudgan.core import settings
from cloudgan.core.children import last_lines
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError

_END_SECONDS = 90.0  # a step of the paper preset, and its checkpoint


@dataclass
class Process:
    """Context manager of a process in its own session, without the terminal's Ctrl-C; it ends with the context.

    Attributes:
        name: What it is, for errors.
        command: Its words.
        environment: Additional variables.
        cores: To which it is pinned; empty: to none.
        descriptors: Which it inherits.
        answers: It reads requests and writes answers.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    cores: frozenset[int] = frozenset()
    descriptors: Sequence[int] = ()
    answers: bool = False

    def __enter__(self) -> Self:
        """Starts the process."""
        self._said = tempfile.TemporaryFile()
        own = {"TF_CONFIG": None, "CLOUDGAN_SUPERVISED": None, **(self.environment or {})}
        try:
            with _deferred_signals(), pinned(self.cores):
                self._process = subprocess.Popen(  # noqa: S603
                    self.command,
                    env=settings.child_environment(**own),
                    stdin=subprocess.PIPE if self.answers else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if self.answers else self._said,
                    stderr=self._said,
                    pass_fds=self.descriptors,
                    encoding="utf-8",
                    start_new_session=True,
                )
        except KeyboardInterrupt:
            if hasattr(self, "_process"):
                self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Asks it to end, so that it ends its own workers; kills it if it does not, or at a second Ctrl-C."""
        process = self._process
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, self._said):
            with suppress(BrokenPipeError):  # it died before it read the last request
                if pipe:
                    pipe.close()

    @property
    def process_id(self) -> int:
        """Process ID."""
        return self._process.pid

    def wait(self, seconds: float | None = None) -> None:
        """Waits for its end; another exit code than 0, and more than so many seconds, are a CloudganError."""
        try:
            if self._process.wait(seconds):
                raise self.death()
        except subprocess.TimeoutExpired as error:
            raise CloudganError(f"{self.name} did not end within {seconds:.0f} s") from error

    def death(self) -> CloudganError:
        """Returns the error of a process that ended: how, and its last lines."""
        code = self._process.wait()
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"died with {signal.Signals(-code).name}"
        self._said.seek(0)
        said = last_lines(self._said.read().decode(errors="replace"))
        return CloudganError(f"{self.name} {how}{said}")


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defers Ctrl-C and SIGTERM to the end of the block: in the middle of `Popen` its process would stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for one in asked:
        signal.raise_signal(one)


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Pins this thread, and the processes that it starts, to `cores`; an empty set changes nothing."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


class Child(Process):
    """A process that measures one variant and begins to build it at once. Calling it measures a row."""

    def __init__(
        self,
        variant: str,
        work: str,
        *,
        environment: Mapping[str, str] | None = None,
        cores: frozenset[int] = frozenset(),
        **given: Any,
    ) -> None:
        """Describes it: `work`, a generator function as ``module:function``, yields facts, then rows."""
        self.variant, task = variant, json.dumps({"work": work, "given": given})
        command = (sys.executable, "-m", "cloudgan.bench.processes", task)
        name = f"the process that measures {variant}"
        super().__init__(name, command, environment, cores, answers=True)

    def facts(self) -> dict[str, Any]:
        """Waits until the variant is built and returns its facts; raises what a call raises."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line.endswith("\n"):
            raise self.death()
        answer: dict[str, Any] = parse_json(line, self.variant)
        if "missing" in answer:
            raise ModuleNotFoundError(answer["error"], name=answer["missing"])
        if "error" in answer:
            kind = ConfigError if answer["exit_code"] == ConfigError.exit_code else CloudganError
            raise kind(f"{self.variant}: {answer['error']}")
        return answer

    def __call__(self) -> dict[str, Any]:
        """Measures the next row."""
        try:
            self._process.stdin.write("\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise self.death() from None
        return self.facts()


def main() -> None:
    """Answers with facts, then with a row per request until standard input ends; then exits, even within a turn."""
    settings.quiet_tensorflow()
    # Libraries write to standard output, so answers get a pipe of their own.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    task = parse_json(sys.argv[1], "task")
    rows: Iterator[dict[str, Any]] | None = None
    while True:
        try:
            rows = rows or pkgutil.resolve_name(task["work"])(**task["given"])
            answer = next(rows)
        except CloudganError as error:
            answer = {"error": str(error), "exit_code": error.exit_code}
        except ModuleNotFoundError as error:
            answer = {"error": str(error), "missing": error.name}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        requests.get()


if __name__ == "__main__":
    main()
