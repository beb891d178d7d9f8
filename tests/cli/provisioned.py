"""Shared parts of the tests of provisioned runs: the real commands on clouds in memory, and a few showers."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cloudgan.cli.main import main
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.schema import launch
from cloudgan.schema.launch import Attempt
from cloudgan.schema.plan import Plan
from cloudgan.storage.folder import FolderStore
from data.conftest import make_any_store
from launch.lifecycle.cloud_double import CloudDouble, install

RUN = "gan"


def basis(plan: dict[str, Any] | str) -> str:
    """Returns the lines below a plan (JSON) with -v."""
    made = Plan.model_validate(json.loads(plan) if isinstance(plan, str) else plan)
    return "\n".join(map(str, PlanResult(plan=made).view().basis)) + "\n"


@dataclass
class Desk:
    """A user's folder, and clouds in memory that answer the commands.

    Attributes:
        folder: In which commands are typed.
        buckets: In which all clouds have their buckets.
        doubles: The clouds by name.
        rules: Planners that differ from those of the doubles.
    """

    folder: Path
    buckets: Path
    capsys: Any
    monkeypatch: Any
    doubles: dict[str, CloudDouble] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("aws", "azure", "gcp"):
            self.doubles[name] = CloudDouble(name, self.buckets)

    def type(self, verb: str, *flags: str, exits: int = 0) -> tuple[str, str]:
        """Runs a command; returns its standard output and standard error."""
        for name, double in self.doubles.items():
            install(self.monkeypatch, double, self.rules.get(name))
        with pytest.raises(SystemExit) as ended:
            main([verb, *flags])
        said = self.capsys.readouterr()
        assert (ended.value.code or 0) == exits, said.out + said.err
        return said.out, said.err

    def plan(self, *flags: str) -> dict[str, Any]:
        """Returns a plan as JSON."""
        return json.loads(self.type("plan", *flags, "--json")[0])

    def deploy(self, *flags: str, exits: int = 0) -> str:
        """Deploys the run; returns its standard error as one line."""
        data = f"--data={self.folder / 'showers'}"
        given = (data, f"--name={RUN}", "--yes", "--allow-stale-price", *flags)
        return " ".join(self.type("deploy", *given, exits=exits)[1].split())

    def attempts(self) -> tuple[Attempt, ...]:
        """Returns the attempts in launch.json."""
        return launch.read(self.folder / "runs" / RUN / "launch.json").attempts

    def bill(self) -> int:
        """How many machines of all clouds bill."""
        return sum(double.nodes for double in self.doubles.values())


def few_showers(folder: Path, records: int = 8) -> None:
    """Writes a store as `cloudgan convert` does, of files that nobody reads."""
    make_any_store(folder, 1, records=records)


def showers_in_bucket(monkeypatch: Any, folder: Path, records: int = 8) -> None:
    """Puts a few showers into a folder that replaces the bucket of `--data`."""
    few_showers(folder, records)
    monkeypatch.setattr(
        "cloudgan.storage.bucket_showers.open_store", lambda url: FolderStore(folder)
    )
