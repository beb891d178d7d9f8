from __future__ import annotations

import pytest

from cloudgan.launching.ledger import Ledger
from cloudgan.run_folder import RunFolder


@pytest.fixture
def ledger_of(tmp_path):
    """Returns the launch.json of a plan, in a folder of the test."""
    return lambda plan: Ledger(RunFolder(tmp_path / "runs" / plan.run), plan)
