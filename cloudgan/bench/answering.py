"""Child side of `MeasuringProcess`: `python -m cloudgan.bench.answering`."""

from __future__ import annotations

import importlib
import json
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from cloudgan.core import settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Work(Protocol):
    """One measurable workload, created by the first request."""

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the request `question` and returns its results by name."""


_WORKS = {
    "step": "cloudgan.bench.step_work:StepWork",
    "generate": "cloudgan.bench.generate_work:GenerateWork",
    "onnx": "cloudgan.bench.onnx_work:OnnxWork",
    "geant4": "cloudgan.bench.simulation_work:Geant4Work",
    "simulate": "cloudgan.bench.simulation_work:ParametricWork",
}


def main() -> None:
    """Serves requests until standard input ends, then exits at once, even within a step."""
    settings.quiet_tensorflow()
    # Libraries write to standard output, so answers get a pipe of their own.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    questions: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    work: Work | None = None
    while True:
        given = parse_json(questions.get(), "request")
        question = given.pop("question")
        try:
            if question == "begin":
                work = _restore(given)
                answer: dict[str, Any] = {}
            elif work is None:
                raise RuntimeError("request before `begin`")
            else:
                answer = work.answer(question, given)
        except CloudganError as error:
            answer = {"error": str(error), "exit_code": error.exit_code}
        except ModuleNotFoundError as error:
            answer = {"error": str(error), "missing": error.name}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _listen(questions: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


def _restore(given: dict[str, Any]) -> Work:
    core = given.pop("core", None)
    if core is not None:
        os.sched_setaffinity(0, {core})  # inherited by the threads of libraries
    module, _, name = _WORKS[given.pop("work")].partition(":")
    work: Work = getattr(importlib.import_module(module), name)(**given)
    return work


if __name__ == "__main__":
    main()
