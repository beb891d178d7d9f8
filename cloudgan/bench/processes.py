"""Processes that measure: programs that run to their end, and children that yield a row on request.

TensorFlow reads threads and libraries once on import, so each variant has its own process. A child is
`python -m cloudgan.bench.processes`: the first line of its standard input is a task, each further one asks for
a row; answers are JSON lines. It exits when the pipe closes, also if the parent is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.tail import last_lines

_CHILD_SECONDS = 5.0
_PROGRAM_SECONDS = 90.0  # a step of the paper preset, and its checkpoint


class Process:
    """Context manager of a process in its own session, without the terminal's Ctrl-C; it ends with the context."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cores: frozenset[int] = frozenset(),
        answers: bool = False,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Describes the process.

        Args:
            name: What it is, for errors.
            command: Its words.
            environment: Additional variables.
            cores: To which it is pinned; empty: to none.
            answers: It reads requests and writes answers, and ends with its standard input.
            descriptors: Which it inherits.
        """
        self._name, self._command, self._answers = name, command, answers
        self._environment, self._cores = dict(environment or {}), cores
        self._descriptors = descriptors

    def __enter__(self) -> Self:
        """Starts the process."""
        self._said = tempfile.TemporaryFile()
        try:
            with _deferred_signals(), pinned(self._cores):
                self._process = subprocess.Popen(  # noqa: S603
                    self._command,
                    env=settings.child_environment(
                        **{"TF_CONFIG": None, "CLOUDGAN_SUPERVISED": None, **self._environment}
                    ),
                    stdin=subprocess.PIPE if self._answers else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if self._answers else self._said,
                    stderr=self._said,
                    pass_fds=self._descriptors,
                    encoding="utf-8",
                    start_new_session=True,
                )
        except KeyboardInterrupt:
            if hasattr(self, "_process"):
                self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Asks it to end, and kills it if it does not, or at a second Ctrl-C."""
        process = self._process
        if process.stdin and process.stdout:
            with suppress(BrokenPipeError):  # it died before it read the last request
                process.stdin.close()
        elif process.poll() is None:
            process.terminate()  # so that it ends its own workers
        try:
            process.wait(_CHILD_SECONDS if self._answers else _PROGRAM_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        self._said.close()

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
            raise CloudganError(f"{self._name} did not end within {seconds:.0f} s") from error

    def death(self) -> CloudganError:
        """Returns the error of a process that ended: how, and its last lines."""
        code = self._process.wait()
        how = (
            f"died with {signal.Signals(-code).name}"
            if code < 0
            else f"ended with exit code {code}"
        )
        self._said.seek(0)
        said = last_lines(self._said.read().decode(errors="replace"))
        return CloudganError(f"{self._name} {how}{said}")


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
        name: str,
        work: str,
        *,
        environment: Mapping[str, str] | None = None,
        cores: frozenset[int] = frozenset(),
        **given: Any,
    ) -> None:
        """Describes it: `work`, a generator function as ``module:function``, yields facts, then rows."""
        self._variant, self._task = name, {"work": work, "given": given}
        super().__init__(
            f"the process that measures {name}",
            (sys.executable, "-m", "cloudgan.bench.processes"),
            environment=environment,
            cores=cores,
            answers=True,
        )

    def __enter__(self) -> Self:
        """Starts the process with its task."""
        super().__enter__()
        self._send(self._task)
        return self

    def facts(self) -> dict[str, Any]:
        """Waits until the variant is built and returns its facts; raises what a call raises."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line.endswith("\n"):
            raise self.death()
        answer: dict[str, Any] = parse_json(line, self._variant)
        if "missing" in answer:
            raise ModuleNotFoundError(answer["error"], name=answer["missing"])
        if "error" in answer:
            kind = ConfigError if answer["exit_code"] == ConfigError.exit_code else CloudganError
            raise kind(f"{self._variant}: {answer['error']}")
        return answer

    def __call__(self) -> dict[str, Any]:
        """Measures the next row."""
        self._send(None)
        return self.facts()

    def _send(self, request: Any) -> None:
        try:
            self._process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise self.death() from None


def named_function(name: str) -> Callable[..., Any]:
    """Imports a function by its name, ``module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def main() -> None:
    """Serves requests until standard input ends, then exits at once, even within a turn."""
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
    task = parse_json(requests.get(), "task")
    rows: Iterator[dict[str, Any]] | None = None
    while True:
        try:
            rows = rows or named_function(task["work"])(**task["given"])
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
