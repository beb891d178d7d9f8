"""Measures ways to compute against each other, each in a process of its own, in turns.

TensorFlow takes its settings once, when it is imported, so each candidate needs a process; and a
setting that ends a process, or hangs it, costs no more than that candidate. All processes are gone
when `race` returns, Ctrl-C included.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from cloudgan.core.presets import Preset
from cloudgan.core.settings import child_environment
from cloudgan.core.tuning import Choice, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.progress import Progress

PROBE = (sys.executable, "-m", "cloudgan.training.probe")
MARK = "cloudgan-probe "
"""Begins the lines that are meant for us: TensorFlow's libraries may write on the same stream."""

ROUNDS = 5
_HOPELESS = 1.5
_READY_SHARE = 0.6
_LEAST_PATIENCE_SECONDS = 2.0
_PATIENCE = 5.0  # times the longest pass so far


class Probe(BaseModel):
    """What a candidate's process is told, as its only argument."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: Choice
    preset: Preset
    precision: str
    kernels: str = "auto"
    batch: int
    most_seconds: float


class _Runner:
    """One candidate's process."""

    def __init__(self, probe: Probe, command: Sequence[str]) -> None:
        self.choice = probe.choice
        self.seconds: list[float] = []
        self.ended = ""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(  # noqa: S603  our own command
            [*command, probe.model_dump_json()],
            env=child_environment(TF_CONFIG=None, **probe.choice.environment()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C reaches us, and we end it
        )
        self._reader = threading.Thread(target=self._listen, name="probe", daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        output = self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            for line in output or ():
                if line.startswith(MARK):
                    self._lines.put(line.removeprefix(MARK).strip())
        self._lines.put(None)

    def wait_until_ready(self, seconds: float) -> None:
        """Waits for its first line; where there is none after `seconds`, it is ended."""
        try:
            if self._lines.get(timeout=max(0.0, seconds)) is None:
                self._end(self._how_it_ended())
        except queue.Empty:
            self._end("not ready in time")

    def measure(self, seconds: float, *, blamed: bool) -> bool:
        """Lets it run one pass, for at most `seconds`; if it takes longer it is ended if `blamed`.

        Returns:
            Whether there is time for others.
        """
        with contextlib.suppress(OSError):  # it is gone: the next line says so
            if self._process.stdin:
                self._process.stdin.write("\n")
                self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            if blamed:
                self._end(f"no answer in {seconds:.0f} s")
            return blamed
        if line is None:
            self._end(self._how_it_ended())
        else:
            self.seconds.append(float(line))
        return True

    def give_up(self, best_seconds: float) -> None:
        """Ends it where it is hopeless, to save its time for the others."""
        if self.seconds and min(self.seconds) > _HOPELESS * best_seconds:
            self._end(f"{min(self.seconds) / best_seconds:.1f} times slower than another")

    def trial(self) -> Trial:
        """What was measured."""
        return Trial(choice=self.choice, seconds=tuple(self.seconds), ended=self.ended)

    def close(self) -> None:
        """Kills it where it still runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def _end(self, why: str) -> None:
        self.ended = self.ended or why
        self._process.kill()

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        return f"died with {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def race(
    choices: Sequence[Choice],
    probe: Probe,
    progress: Progress,
    *,
    command: Sequence[str] = PROBE,
) -> tuple[Trial, ...]:
    """Measures every choice, in the order given; `probe` says with what, and for how long at most.

    The first is what the others are held against: it is never given up for being slow.
    """
    deadline = time.monotonic() + probe.most_seconds
    progress.start("finding the fastest way to compute", len(choices) * (1 + ROUNDS), "passes")
    runners: list[_Runner] = []
    try:
        for choice in choices:
            told = probe.model_copy(update={"choice": choice})
            runners.append(_Runner(told, command))
        ready_by = time.monotonic() + _READY_SHARE * probe.most_seconds
        for runner in runners:
            runner.wait_until_ready(ready_by - time.monotonic())
            progress.advance(1)
        _run_rounds(runners, deadline, progress)
    finally:
        for runner in runners:
            runner.close()
    return tuple(runner.trial() for runner in runners)


def _run_rounds(runners: list[_Runner], deadline: float, progress: Progress) -> None:
    for number in range(ROUNDS):
        for runner in [runner for runner in runners if not runner.ended]:
            left = deadline - time.monotonic()
            known = [seconds for other in runners for seconds in other.seconds]
            # A pass repeats short work, so its answer may take longer than the time it tells.
            patience = max(_LEAST_PATIENCE_SECONDS, _PATIENCE * max(known)) if known else left / 2
            if left <= 0 or not runner.measure(min(patience, left), blamed=patience <= left):
                return
            progress.advance(1, runner.choice.describe())
        best = min((min(r.seconds) for r in runners if r.seconds), default=0.0)
        if number == 0 and best:
            for runner in runners[1:]:
                runner.give_up(best)
