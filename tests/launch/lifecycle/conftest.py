import pytest

from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder


@pytest.fixture
def ledger_of(tmp_path):
    """Returns the launch.json of a plan, in a folder of the test."""
    return lambda plan: LaunchLog(RunFolder(tmp_path / "runs" / plan.run), plan)
