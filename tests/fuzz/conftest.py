"""The folder of the fuzz suite, and the property that all its cases share."""

import hypothesis
import pytest

from fuzz.harness import Workplace
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "cloudgan.launch.operations.check._CONTACT_SECONDS", 120.0
        )  # a busy machine loads SDKs slowly
        yield Workplace(tmp_path_factory.mktemp("place") / "place", project)


@pytest.fixture(params=[1, pytest.param(MANY, marks=pytest.mark.long_fuzz)], ids=["short", "long"])
def holds(request, workplace):
    """Runs cases of a strategy."""

    def check(cases, count, run_case=workplace.run):
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
            run_case(case)

        run()

    return check
