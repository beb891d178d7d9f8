"""The folder of the fuzz suite, and the property that all its cases share."""

from __future__ import annotations

import hypothesis
import pytest

from fuzz.harness import Findings, Workplace
from fuzz.project import make_project

MANY = 10
"""The long mode has this many times the cases of the default mode, with fresh random numbers."""


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A valid project."""
    return make_project(tmp_path_factory.mktemp("fuzz") / "project")


@pytest.fixture(scope="session")
def workplace(tmp_path_factory, project):
    """A folder with a copy of the project for each case, and a guarded folder around it."""
    return Workplace(tmp_path_factory.mktemp("place") / "place", project)


@pytest.fixture(params=[1, pytest.param(MANY, marks=pytest.mark.long_fuzz)], ids=["short", "long"])
def holds(request, workplace):
    """Runs cases of a strategy; fails with one example for each cause of a fault."""

    def check(cases, count, run_case=workplace.run):
        findings = Findings()

        @hypothesis.settings(
            max_examples=count * request.param,
            derandomize=request.param == 1,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(cases)
        def run(case):
            findings.tried += 1
            fault = run_case(case)
            if fault:
                findings.add(fault)

        run()
        print(f"{request.node.name}: {findings.tried} tried")
        findings.raise_if_any()

    return check
