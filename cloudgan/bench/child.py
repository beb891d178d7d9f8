"""A child process that measures one variant: a generator of rows, advanced on request.

TensorFlow reads threads and libraries once on import, so each variant has its own process,
`python -m cloudgan.bench.child`. The first line of its standard input is a task, each further one asks for a
row; answers are JSON lines. It exits when the pipe closes, also if the parent is killed.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.tail import last_lines

_GRACE_SECONDS = 5.0


def named_function(name: str) -> Callable[..., Any]:
    """Imports a function by its name, ``module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


class Child:
    """Context manager of a measuring process, which ends with the context. Calling it measures a row."""

    def __init__(
        self,
        name: str,
        work: str,
        *,
        environment: Mapping[str, str] | None = None,
        core: int | None = None,
        **given: Any,
    ) -> None:
        """Describes the process.

        Args:
            name: Of the variant, for errors.
            work: Generator function as ``module:function``. It yields the facts of the variant, then rows.
            environment: Additional variables.
            core: To which it is pinned; None: to none.
            **given: Keywords of the generator function.
        """
        self._name, self._environment = name, dict(environment or {})
        self._task = {"work": work, "core": core, "given": given}

    def __enter__(self) -> Self:
        """Starts the process in its own session, without the terminal's Ctrl-C; it begins to build."""
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            (sys.executable, "-m", "cloudgan.bench.child"),
            env=settings.child_environment(**self._environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            encoding="utf-8",
            start_new_session=True,
        )
        self._send(self._task)
        return self

    def __exit__(self, *_: object) -> None:
        """Closes its standard input, which ends it, and waits."""
        process = self._process
        with suppress(BrokenPipeError):  # it died before it read the last request
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(_GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        self._said.close()

    @property
    def process_id(self) -> int:
        """Process ID."""
        return self._process.pid

    def facts(self) -> dict[str, Any]:
        """Waits until the variant is built and returns its facts; raises what a call raises."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line.endswith("\n"):
            raise self._death()
        answer: dict[str, Any] = parse_json(line, self._name)
        if "missing" in answer:
            raise ModuleNotFoundError(answer["error"], name=answer["missing"])
        if "error" in answer:
            kind = ConfigError if answer["exit_code"] == ConfigError.exit_code else CloudganError
            raise kind(f"{self._name}: {answer['error']}")
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
            raise self._death() from None

    def _death(self) -> CloudganError:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._said.seek(0)
        said = last_lines(self._said.read().decode(errors="replace"))
        return CloudganError(
            f"the process that measures {self._name} ({self._process.pid}) died with {how}{said}"
        )


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
    if task["core"] is not None:
        os.sched_setaffinity(0, {task["core"]})  # inherited by the threads of libraries
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
