"""Runs the scenarios of the paid test in order, with a bounded cost, and deletes everything.

`command_runner` runs the commands of a user and causes failures; `__main__` has the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError
from cloudgan.schema.price_row import Text

FILE_NAME = "report.json"


class ScenarioReport(BaseModel):
    """Result of one scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    proves: Text
    expects: Text
    max_minutes: float = Field(ge=0, description="with both nodes up")
    max_usd: float = Field(ge=0, allow_inf_nan=False)
    outcome: Literal["passed", "failed", "not run"] = "not run"
    observed: str = ""
    seconds: float | None = Field(default=None, ge=0)


class LiveTestReport(BaseModel):
    """Result of a live test, also of an interrupted one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: Text
    provider: Text
    account: str | None = None
    region: str | None = None
    accelerator: Text
    started_at: Text = Field(description="UTC, ISO 8601")
    cloudgan_version: Text = Field(description="version")
    usd_per_hour: float = Field(ge=0, allow_inf_nan=False, description="of nodes and cluster")
    unpriced: tuple[str, ...] = Field(default=(), description="without a known price")
    scenarios: tuple[ScenarioReport, ...]
    remaining: tuple[str, ...] = Field(default=(), description="resources not deleted")

    @property
    def has_passed(self) -> bool:
        """Whether all scenarios passed and no resource remains."""
        return all(one.outcome == "passed" for one in self.scenarios) and not self.remaining

    @property
    def max_usd(self) -> float:
        """Maximum cost: every scenario at its time limit."""
        return sum(one.max_usd for one in self.scenarios)


T = TypeVar("T")
NODES = 2


class LiveTestError(CloudganError):
    """A scenario observed something other than expected."""


class CommandResult(NamedTuple):
    """Exit code and JSON output of a command."""

    exit_code: int
    output: dict[str, Any]

    def error(self) -> str:
        """Returns the error message."""
        return str(self.output.get("error") or f"exit code {self.exit_code}")


@dataclass(frozen=True)
class LiveTestOptions:
    """Options of a live test; its name is the prefix of its runs, its folder has data and report."""

    name: str
    provider: str
    account_flags: tuple[str, ...]
    accelerator: str
    folder: Path
    usd_per_hour: float
    unattended_minutes: float = 6.0
    watch_minutes: float = 10.0
    poll_seconds: float = 10.0


@dataclass
class LiveTestContext:
    """Shared state of the scenarios: names and costs of the runs that they started."""

    options: LiveTestOptions
    command_runner: Any
    runs: list[str] = field(default_factory=list)
    usd: dict[str, float] = field(default_factory=dict)

    def run(self, which: str) -> str:
        """Returns the full name of a run."""
        return f"{self.options.name}-{which}"

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
            self.command_runner.pause(self.options.poll_seconds)


class Scenario(NamedTuple):
    """One scenario; it takes at most `max_minutes` with both nodes (0: without nodes), and returns what it saw."""

    name: str
    proves: str
    expects: str
    max_minutes: float
    execute: Callable[[LiveTestContext], str]

    def report(self, usd_per_hour: float) -> ScenarioReport:
        """Returns its initial entry in the report."""
        return ScenarioReport(
            name=self.name,
            proves=self.proves,
            expects=self.expects,
            max_minutes=self.max_minutes,
            max_usd=self.max_minutes / 60 * usd_per_hour,
        )


@dataclass
class LiveTest:
    """Runs scenarios until one fails and always deletes the resources; each change of the report is saved."""

    context: LiveTestContext
    scenarios: Sequence[Scenario]
    report: LiveTestReport
    say: Callable[[str], None]
    save: Callable[[LiveTestReport], None]

    def run(self) -> LiveTestReport:
        """Returns the report; resources are deleted also on Ctrl-C, which propagates."""
        try:
            for number, scenario in enumerate(self.scenarios):
                self.say(f"{number + 1} of {len(self.scenarios)}: {scenario.name}")
                if not self._do(number, scenario):
                    break
        finally:
            self._clean()
        return self.report

    def _do(self, number: int, scenario: Scenario) -> bool:
        began, outcome = monotonic_seconds(), "failed"
        observed = "interrupted"
        try:
            observed = scenario.execute(self.context)
            outcome = "passed"
        except CloudganError as error:
            observed = str(error)
        finally:
            self._note(
                number, outcome=outcome, observed=observed, seconds=monotonic_seconds() - began
            )
        self.say(f"{outcome}: {observed}")
        return outcome == "passed"

    def _note(self, number: int, **changes: Any) -> None:
        lines = list(self.report.scenarios)
        lines[number] = lines[number].model_copy(update=changes)
        self._change(scenarios=tuple(lines))

    def _clean(self) -> None:
        remaining: list[str] = []
        for run in self.context.runs:
            try:
                if self.context.command_runner.list_resources(run):
                    self.say(f"deleting {run}")
                    self.context.command_runner.run("down", run)
                remaining += self.context.command_runner.list_resources(run)
            except CloudganError as error:
                remaining.append(f"run {run} (unknown: {error})")
        self._change(remaining=tuple(remaining))

    def _change(self, **changes: Any) -> None:
        self.report = self.report.model_copy(update=changes)
        self.save(self.report)
