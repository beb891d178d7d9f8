"""Runs the scenarios of the paid test in order, with a bounded cost, and deletes everything.

`command_runner` runs the commands of a user and causes failures; `__main__` has the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

FILE_NAME = "report.json"
NODES = 2
T = TypeVar("T")


class LiveTestError(CloudganError):
    """A scenario observed something other than expected."""


class CommandResult(NamedTuple):
    """Exit code and JSON output of a command."""

    exit_code: int
    output: dict[str, Any]

    def error(self) -> str:
        """Returns the error message."""
        return str(self.output.get("error") or f"exit code {self.exit_code}")


@dataclass
class Scenario:
    """One scenario; it takes at most `max_minutes` with both nodes (0: without nodes), and returns what it saw."""

    name: str
    proves: str
    expects: str
    max_minutes: float
    execute: Callable[[LiveTest], str]
    outcome: str = "not run"
    observed: str = ""
    seconds: float | None = None


@dataclass
class LiveTest:
    """A test of one account: its limits, the runs that it started and their cost, and what each scenario saw.

    Attributes:
        name: Prefix of its runs.
        folder: Of data and report.
        facts: Further lines of the report.
        save: Gets each report.
    """

    name: str
    provider: str
    account_flags: tuple[str, ...]
    accelerator: str
    folder: Path
    usd_per_hour: float
    command_runner: Any = None
    scenarios: Sequence[Scenario] = ()
    unattended_minutes: float = 6.0
    watch_minutes: float = 10.0
    poll_seconds: float = 10.0
    facts: dict[str, Any] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None
    save: Callable[[dict[str, Any]], None] = lambda _: None
    runs: list[str] = field(default_factory=list)
    usd: dict[str, float] = field(default_factory=dict)
    remaining: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        """Whether all scenarios passed and no resource remains."""
        return all(one.outcome == "passed" for one in self.scenarios) and not self.remaining

    def most_usd(self, *scenarios: Scenario) -> float:
        """Returns the maximum cost of scenarios, all by default: each at its time limit."""
        minutes = sum(one.max_minutes for one in scenarios or self.scenarios)
        return minutes / 60 * self.usd_per_hour

    def report(self) -> dict[str, Any]:
        """Returns the report, also of an interrupted test."""
        lines = [vars(one) | {"max_usd": self.most_usd(one)} for one in self.scenarios]
        for line in lines:
            del line["execute"]
        known = {"name": self.name, "provider": self.provider, "accelerator": self.accelerator}
        known |= {"schema_version": 1, "usd_per_hour": self.usd_per_hour}
        return known | self.facts | {"scenarios": lines, "remaining": list(self.remaining)}

    def run_name(self, which: str) -> str:
        """Returns the full name of a run."""
        return f"{self.name}-{which}"

    def run_checked(self, *words: str) -> dict[str, Any]:
        """Runs a command that must succeed."""
        answer = self.command_runner.run(*words)
        if answer.exit_code:
            raise LiveTestError(f"cloudgan {words[0]}: {answer.error()}")
        return answer.output

    def wait_for(self, what: str, minutes: float, holds: Callable[[], T | None]) -> T:
        """Polls until `holds` returns a true value and returns it."""
        end = monotonic_seconds() + 60 * minutes
        while True:
            seen = holds()
            if seen:
                return seen
            if monotonic_seconds() > end:
                raise LiveTestError(f"{what} did not happen within {minutes:g} min")
            self.command_runner.pause(self.poll_seconds)

    def run(self) -> None:
        """Runs the scenarios until one fails; always deletes the resources, also on Ctrl-C, which propagates."""
        try:
            for number, scenario in enumerate(self.scenarios, start=1):
                self.say(f"{number} of {len(self.scenarios)}: {scenario.name}")
                if not self._do(scenario):
                    break
        finally:
            self._clean()

    def _do(self, scenario: Scenario) -> bool:
        began, outcome = monotonic_seconds(), "failed"
        observed = "interrupted"
        try:
            observed = scenario.execute(self)
            outcome = "passed"
        except CloudganError as error:
            observed = str(error)
        finally:
            scenario.outcome, scenario.observed = outcome, observed
            scenario.seconds = monotonic_seconds() - began
            self.save(self.report())
        self.say(f"{outcome}: {observed}")
        return outcome == "passed"

    def _clean(self) -> None:
        for run in self.runs:
            try:
                if self.command_runner.list_resources(run):
                    self.say(f"deleting {run}")
                    self.command_runner.run("down", run)
                self.remaining += self.command_runner.list_resources(run)
            except CloudganError as error:
                self.remaining.append(f"run {run} (unknown: {error})")
        self.save(self.report())
