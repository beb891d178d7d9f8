"""The least role: what is called is in it, and what is in it is called."""

from __future__ import annotations

import json
from pathlib import Path

from cloudgan.launch.provisioning.apply import apply
from cloudgan.launch.provisioning.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder
from emulators.azure.rights import action_of

ROLE = Path(__file__).parents[4] / "deploy" / "azure" / "role.json"


def called(lab):
    """Rights that deploy, check, status, doctor and down of a run take, after `setup`."""
    lab.azure.arm.calls.clear()
    plan = lab.plan()
    lab.azure.faults.fail("/agentPools/", "AllocationFailed", "none", tells=False)
    for _ in range(2):  # the first try fails: why, its operation says
        provider = lab.provider()
        provider.check(plan)
        ledger = LaunchLog(RunFolder(lab.folder / "runs" / plan.run), plan)
        try:
            apply(plan, provider, ledger, lab.said.append)
        except Exception:  # noqa: BLE001  as planned
            list(provider.destroy("gan"))
    scale_set = next(name for name in lab.azure.arm.resources if "virtualmachinescalesets" in name)
    kept = lab.azure.arm.resources[scale_set]
    provider.state("gan")
    list(provider.destroy("gan"))
    lab.azure.arm.resources[scale_set] = kept  # what is left of a pool
    for thing in lab.cloud().list_resources("gan"):
        lab.cloud().refresh(thing)
        lab.cloud().delete(thing)
    lab.cloud().list_resources()
    return {action_of(*call) for call in lab.azure.arm.calls} - {""}


def test_the_role_holds_what_is_called_and_nothing_else(lab):
    role = json.loads(ROLE.read_text(encoding="utf-8"))
    allowed = {action.lower() for action in role["Actions"]}
    asked = called(lab)
    assert asked - allowed == set(), "called, and not in the role"
    assert allowed - asked == set(), "in the role, and never called"
    assert role["Actions"] == sorted(role["Actions"])
    assert not role["DataActions"], "blobs are allowed on the container alone, by setup"
    assert not [action for action in role["Actions"] if "*" in action]
