"""The paid self-test: ten exercises on a real cloud, in an order, with a bound on what they cost.

It drives the same commands that people type. What it adds are the accidents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from cloudgan.auditing.drill_report import DrillReport, ExerciseReport
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")
NODES = 2


class DrillError(CloudganError):
    """The cloud, or cloudgan on it, did not do what was expected."""


class Answer(NamedTuple):
    """What a command ended with: exit code, and the JSON that it printed."""

    code: int
    said: dict[str, Any]

    def why(self) -> str:
        """The error's sentence."""
        return str(self.said.get("error") or f"exit code {self.code}")


class Hands(Protocol):
    """What a drill can do beside waiting."""

    def type(self, *words: str) -> Answer:
        """Runs a command of cloudgan with --json, as if it had been typed."""

    def evict(self, run: str, index: int, grace_seconds: int | None) -> None:
        """Takes a worker's pod away: None with the grace that it has, 0 as if its machine died."""

    def machines(self, run: str) -> int:
        """Returns how many nodes of a run its cluster sees."""

    def things(self, run: str) -> tuple[str, ...]:
        """Returns what the cloud has of a run, by kind and name."""

    def pause(self, seconds: float) -> None:
        """Waits."""


@dataclass(frozen=True)
class Setting:
    """What was asked of a drill.

    Attributes:
        name: Of the drill; its runs begin with it.
        provider: Which cloud.
        where: Flags that name the account and the region.
        accelerator: Of each of the two nodes.
        folder: For data and report.
        usd_per_hour: Of nodes and cluster.
        alone_minutes: The run that nobody watches may compute for so long.
        watch_minutes: For so long its nodes must stay away.
        poll_seconds: Between two looks.
    """

    name: str
    provider: str
    where: tuple[str, ...]
    accelerator: str
    folder: Path
    usd_per_hour: float
    alone_minutes: float = 6.0
    watch_minutes: float = 10.0
    poll_seconds: float = 10.0


@dataclass
class Ground:
    """What the exercises of one drill share.

    Attributes:
        setting: What was asked.
        hands: That do it.
        runs: Names of the runs that were begun.
        usd: What each cost, by its own times.
    """

    setting: Setting
    hands: Hands
    runs: list[str] = field(default_factory=list)
    usd: dict[str, float] = field(default_factory=dict)

    def run(self, which: str) -> str:
        """Returns the name of one of the drill's runs."""
        return f"{self.setting.name}-{which}"

    def must(self, *words: str) -> dict[str, Any]:
        """Runs a command that has to do what it is asked.

        Raises:
            DrillError: It did not.
        """
        answer = self.hands.type(*words)
        if answer.code:
            raise DrillError(f"cloudgan {words[0]}: {answer.why()}")
        return answer.said

    def wait(self, what: str, minutes: float, holds: Callable[[], T | None]) -> T:
        """Looks again and again; returns what it saw when that was true.

        Raises:
            DrillError: It was not within so many minutes.
        """
        end = monotonic_seconds() + 60 * minutes
        while True:
            seen = holds()
            if seen:
                return seen
            if monotonic_seconds() > end:
                raise DrillError(f"{what} did not happen within {minutes:g} min")
            self.hands.pause(self.setting.poll_seconds)


class Exercise(NamedTuple):
    """One step.

    Attributes:
        name: A few words.
        proves: What nobody knows without it.
        expects: What has to be seen.
        most_minutes: With both nodes up; 0: none is.
        do: Does it and returns what was seen.
    """

    name: str
    proves: str
    expects: str
    most_minutes: float
    do: Callable[[Ground], str]

    def report(self, usd_per_hour: float) -> ExerciseReport:
        """Returns its line in the report, before it ran."""
        return ExerciseReport(
            name=self.name,
            proves=self.proves,
            expects=self.expects,
            most_minutes=self.most_minutes,
            most_usd=self.most_minutes / 60 * usd_per_hour,
        )


@dataclass
class Drill:
    """Does exercises until one fails; whatever happens, nothing stays.

    Attributes:
        ground: Of all of them.
        exercises: In their order.
        report: So far.
        say: Is told each one.
        keep: Is given the report whenever it changes.
    """

    ground: Ground
    exercises: Sequence[Exercise]
    report: DrillReport
    say: Callable[[str], None]
    keep: Callable[[DrillReport], None]

    def run(self) -> DrillReport:
        """Returns what was done and seen; Ctrl-C too removes what is there, and goes on upwards."""
        try:
            for number, exercise in enumerate(self.exercises):
                self.say(f"{number + 1} of {len(self.exercises)}: {exercise.name}")
                if not self._do(number, exercise):
                    break
        finally:
            self._clean()
        return self.report

    def _do(self, number: int, exercise: Exercise) -> bool:
        began, outcome = monotonic_seconds(), "failed"
        saw = "broken off"
        try:
            saw = exercise.do(self.ground)
            outcome = "passed"
        except CloudganError as error:
            saw = str(error)
        finally:
            self._note(number, outcome=outcome, saw=saw, seconds=monotonic_seconds() - began)
        self.say(f"{outcome}: {saw}")
        return outcome == "passed"

    def _note(self, number: int, **changes: Any) -> None:
        lines = list(self.report.exercises)
        lines[number] = lines[number].model_copy(update=changes)
        self._change(exercises=tuple(lines))

    def _clean(self) -> None:
        left: list[str] = []
        for run in self.ground.runs:
            try:
                if self.ground.hands.things(run):
                    self.say(f"removing {run}")
                    self.ground.hands.type("down", run)
                left += self.ground.hands.things(run)
            except CloudganError as error:
                left.append(f"run {run}, perhaps: {error}")
        self._change(left=tuple(left))

    def _change(self, **changes: Any) -> None:
        self.report = self.report.model_copy(update=changes)
        self.keep(self.report)
