"""A child process that measures one variant on request.

TensorFlow reads threads and libraries once on import, so each variant has its own process. Requests
and answers are JSON lines on its standard input and output; it exits when the pipe closes, also if
the parent is killed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.settings import child_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

_GRACE_SECONDS = 5.0
_LAST_LINES = 12
PROGRAM = "cloudgan.bench.answering"


class MeasuringProcess:
    """Context manager of a measuring process, which ends with the context."""

    def __init__(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Describes the process.

        Args:
            name: Of the variant, for errors.
            environment: Additional variables.
        """
        self._name, self._environment = name, dict(environment or {})

    def __enter__(self) -> Self:
        """Starts the process in its own session, without the terminal's Ctrl-C."""
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603
            (sys.executable, "-m", PROGRAM),
            env=child_environment(**self._environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            encoding="utf-8",
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Closes its standard input, which ends it, and waits."""
        process = self._process
        if process.stdin:
            with suppress(BrokenPipeError):  # it died before it read the last question
                process.stdin.close()
        try:
            process.wait(_GRACE_SECONDS)
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

    def ask(self, question: str, **values: Any) -> dict[str, Any]:
        """Sends a request and returns its answer; raises what `send` and `receive` raise."""
        self.send(question, **values)
        return self.receive()

    def send(self, question: str, **values: Any) -> None:
        """Sends a request; `receive` returns its answer.

        Raises:
            CloudganError: The process died; the message has its last lines.
        """
        if self._process.stdin is None:
            raise RuntimeError("a process without pipes")
        try:
            self._process.stdin.write(json.dumps({"question": question} | values) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def receive(self) -> dict[str, Any]:
        """Waits for the answer to the oldest open request.

        Raises:
            CloudganError: The process died, or the request failed.
            ModuleNotFoundError: A package is missing.
        """
        if self._process.stdout is None:
            raise RuntimeError("a process without pipes")
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._death()
        answer: dict[str, Any] = parse_json(line, self._name)
        if "missing" in answer:
            raise ModuleNotFoundError(answer["error"], name=answer["missing"])
        if "error" in answer:
            kind = ConfigError if answer["exit_code"] == ConfigError.exit_code else CloudganError
            raise kind(f"{self._name}: {answer['error']}")
        return answer

    def _death(self) -> CloudganError:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
        said = "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return CloudganError(
            f"the process that measures {self._name} ({self._process.pid}) died with {how}{said}"
        )
