from __future__ import annotations

import pytest

pytest.importorskip("google.auth", reason="needs pip install '.[gcp]'")
pytest.importorskip("googleapiclient", reason="its discovery documents check what is sent")

from cloudgan.launch.clouds.engine import Engine
from emulators.gcp.project import project
from launch.clouds.gcp.lab import POLL_SECONDS, cloud_of, cloud_steps, known


@pytest.fixture
def google():
    """An emulated project after `setup`."""
    with project() as google:
        yield google


@pytest.fixture
def cloud(google):
    return cloud_of(google)


@pytest.fixture
def said():
    return []


@pytest.fixture
def make(cloud, said):
    """Makes all cloud steps of a plan, as launching does; returns the plan with its values."""

    def run(plan, maker_of=Engine):
        found = known(cloud, plan)
        maker = maker_of(cloud, said.append, POLL_SECONDS)
        for step in cloud_steps(found):
            maker.ensure(step, found)
        return found

    return run
