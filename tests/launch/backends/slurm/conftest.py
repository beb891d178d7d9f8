"""A plan for Slurm, stubs of its programs, and a real cluster on this machine if Slurm is installed."""

import pytest

from cloudgan.launch.backends.slurm.client import SlurmError
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Forecast, Limits, Plan, Showers, Target, Workers
from emulators.slurm import local_slurm


@pytest.fixture
def make_plan(tmp_path):
    """Returns a plan of two nodes; arguments replace values of its parts."""

    def make(*, target=None, workers=None, limits=None, **parts):
        config = RunConfig.model_validate({"name": "gan", "model": {"preset": "smoke"}})
        values = {
            "run": "gan",
            "owner": "ada",
            "expires": "20261129t000000z",
            "spec_hash": "0123456789",
            "created_at": "2026-11-21",
            "store": str(tmp_path / "store"),
            "showers": Showers(source="none"),
            "forecast": Forecast(epochs=1),
            "config": config,
            "target": Target(provider="slurm", **(target or {})),
            "workers": Workers(**{"nodes": 2, "cpus": 1, "memory_gib": 0.5} | (workers or {})),
            "limits": Limits(
                **{"max_hours": 2, "deadline_seconds": 7200, "deadline_reason": "--max-hours=2"}
                | (limits or {})
            ),
        }
        return Plan(**(values | parts))

    return make


class Answers:
    """Stub of Slurm's programs: output or error by program name."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def require(self):
        pass

    def run(self, *command, without=(), done_already=None):
        self.asked.append(command)
        found = self.answers.get(command[0], "")
        found = found(*command[1:]) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def answers():
    return Answers


@pytest.fixture
def refused():
    return SlurmError


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    return write


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """Two nodes of a real Slurm on loopback; returns their folder."""
    folder = tmp_path_factory.mktemp("slurm")
    with local_slurm(folder):
        yield folder
