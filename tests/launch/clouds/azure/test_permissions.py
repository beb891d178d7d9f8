"""deploy/azure: each role, on its scope, grants the requests that cloudgan sends, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.azure.bodies import BLOB_CONTRIBUTOR
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder
from emulators.azure.cloud import SUBSCRIPTION
from emulators.azure.rights import Assignment, action_of, is_allowed
from launch.clouds.azure.lab import REGION, plan_for

FOLDER = Path(__file__).parents[4] / "deploy" / "azure"
TARGET = requests.target(SUBSCRIPTION, REGION, None, None)
ROOT, GROUP = f"/subscriptions/{SUBSCRIPTION}", ids.group_id(TARGET)
IDENTITY, CONDITION = ids.identity_id(TARGET), (FOLDER / "setup-condition.txt").read_text("utf-8")


def role(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


LAUNCHER = [
    Assignment(role("reader-role"), ROOT),
    Assignment(role("role"), GROUP),
    Assignment(role("credential-role"), IDENTITY),
]
SETUP = [Assignment(role("reader-role"), ROOT), Assignment(role("setup-role"), GROUP, CONDITION)]


SHARED = f"{ROOT}/resourceGroups/lab/providers/Microsoft.ContainerService/managedClusters/shared"
SMALL = {"properties": {"agentPoolProfiles": []}}


def launched(lab):
    """Runs deploy, check, status, doctor and down with the roles of a launcher, after `setup`."""
    azure = lab.azure
    azure.arm.calls.clear()
    azure.server.grants = LAUNCHER
    plan = lab.plan()
    azure.faults.fail("/agentPools/", "AllocationFailed", "none", in_resource=False)
    for _ in range(2):  # the first try fails; only its operation has the error
        provider = lab.provider()
        provider.check(plan)
        ledger = LaunchLog(RunFolder(lab.folder / "runs" / plan.run), plan)
        try:
            apply(plan, provider, ledger, lab.said.append)
        except Exception:  # noqa: BLE001  as planned
            list(provider.destroy("gan"))
    provider.state("gan")
    lab.cloud().list_resources()
    return provider


def unused(assignments, calls):
    """Returns the actions of roles that no request takes."""
    return {
        (one.role["Name"], action)
        for one in assignments
        for action in one.role["Actions"]
        if not any(
            action_of(*call) == action.lower() and one.grants(*call, allow_all(call))
            for call in calls
        )
    }


def allow_all(call):
    """The body of a role assignment that `setup` sends; other requests need no check of their body."""
    del call
    return {"properties": {"roleDefinitionId": f"/roleDefinitions/{BLOB_CONTRIBUTOR}"}}


def test_a_launcher_uses_exactly_the_permissions_of_its_roles(lab):
    provider = launched(lab)
    list(provider.destroy("gan"))
    scale_set = f"{GROUP}-nodes/providers/Microsoft.Compute/virtualMachineScaleSets/aks-x-vmss"
    lab.azure.arm.put(f"{GROUP}-nodes", {"location": REGION})
    lab.azure.arm.put(scale_set, {"location": REGION, "tags": {"cloudgan-run": "gan"}})
    (left,) = lab.cloud().list_resources("gan")
    assert lab.cloud().refresh(left)
    lab.azure.arm.reserve("lab/week", "Standard_NC4as_T4_v3", 1)
    lab.azure.arm.put(SHARED, {"location": REGION, "identity": {"type": "UserAssigned"}} | SMALL)
    lab.plan(cluster="lab/shared", reservation="lab/week")
    with pytest.raises(CredentialsError, match="deleted with its cluster, or by an owner"):
        lab.cloud().delete(left)
    assert unused(LAUNCHER, lab.azure.arm.calls) == set()


def test_what_a_launcher_may_not_delete_goes_with_its_cluster(lab):
    provider = launched(lab)
    (scale_set,) = (one for one in lab.azure.arm.held() if "virtualMachineScaleSets" in one)
    kept = lab.azure.arm.resources[scale_set.lower()]
    lab.azure.server.grants = None
    for pool in lab.cloud().list_resources("gan"):
        list(names_of_gone(Engine(lab.cloud(), lab.said.append, 0.002).destroy([pool])))
    lab.azure.server.grants = LAUNCHER
    lab.azure.arm.resources[scale_set.lower()] = kept
    gone = list(provider.destroy("gan"))
    assert any("AKS cluster" in one for one in gone)
    assert not [one for one in lab.azure.arm.held() if "Containers" in one or "Compute" in one]


def test_setup_uses_exactly_the_permissions_of_its_role(lab):
    azure = lab.azure
    azure.server.grants = SETUP
    cloud = lab.cloud()
    for purged in (True, False):
        if purged:
            ours = [one for one in cloud.list_resources() if one.shared]
            assert list(names_of_gone(Engine(cloud, lab.said.append, 0.002).destroy(ours)))
            assert cloud.list_resources() == ()
            azure.arm.put(GROUP, {"location": REGION})  # an administrator creates it
        maker = Engine(cloud, lab.said.append, 0.001)
        for step in requests.setup_steps(TARGET):
            maker.ensure(step, plan_for(lab.plan_of))
    azure.arm.calls.append(("PUT", GROUP))  # where the group lacks its tag
    assert unused(SETUP[1:], azure.arm.calls) == set()


def below(scope, path):
    return f"{scope}/providers/{path}"


OTHERS = f"{ROOT}/resourceGroups/physics"
OTHER_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/admin"
CREDENTIAL = "federatedIdentityCredentials/x"
AKS, VMSS = (
    "Microsoft.ContainerService/managedClusters/x",
    "Microsoft.Compute/virtualMachineScaleSets/x",
)
STORAGE = "Microsoft.Storage/storageAccounts/x"
OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
ASSIGNMENT = "Microsoft.Authorization/roleAssignments/x"
NO_ONE_MAY = (
    ("PUT", below(OTHERS, f"{OTHER_IDENTITY}/{CREDENTIAL}")),
    ("PUT", below(GROUP, f"{OTHER_IDENTITY}/{CREDENTIAL}")),
    ("DELETE", below(OTHERS, AKS)),
    ("DELETE", below(OTHERS, f"{AKS}/agentPools/y")),
    ("PUT", below(OTHERS, AKS)),
    ("POST", below(OTHERS, f"{AKS}/listClusterUserCredential")),
    ("POST", below(GROUP, f"{AKS}/listClusterAdminCredential")),
    ("POST", below(GROUP, f"{AKS}/runCommand")),
    ("DELETE", below(OTHERS, VMSS)),
    ("DELETE", below(OTHERS, STORAGE)),
    ("PUT", below(OTHERS, STORAGE)),
    ("POST", below(GROUP, f"{STORAGE}/listKeys")),
    ("DELETE", OTHERS),
    ("PUT", f"{ROOT}/resourceGroups/new"),
    ("PUT", below(ROOT, ASSIGNMENT)),
    ("PUT", below(OTHERS, ASSIGNMENT)),
    ("PUT", below(ROOT, "Microsoft.Authorization/roleDefinitions/x")),
    ("POST", below(GROUP, f"{OTHER_IDENTITY}/assign")),
    ("PUT", below(OTHERS, "Microsoft.ContainerRegistry/registries/x")),
)
ONLY_SETUP_MAY = (
    ("PUT", below(ids.container_id(TARGET), ASSIGNMENT)),
    ("PUT", IDENTITY),
    ("DELETE", IDENTITY),
    ("DELETE", ids.account_id(TARGET)),
    ("PUT", ids.account_id(TARGET)),
    ("DELETE", GROUP),
)
DENIED = [
    *((who, call) for who in ("LAUNCHER", "SETUP") for call in NO_ONE_MAY),
    *(("LAUNCHER", call) for call in ONLY_SETUP_MAY),
    ("SETUP", ("PUT", f"{IDENTITY}/{CREDENTIAL}")),
    ("SETUP", ("DELETE", ids.cluster_id(TARGET))),
]


@pytest.mark.parametrize(
    ("who", "call"), DENIED, ids=lambda one: one if isinstance(one, str) else action_of(*one)
)
def test_the_roles_deny(who, call):
    assert not is_allowed(globals()[who], *call, allow_all(call))


def test_setup_assigns_the_role_of_the_container_and_no_other():
    call = ("PUT", below(ids.container_id(TARGET), ASSIGNMENT))
    assert is_allowed(SETUP, *call, allow_all(call))
    owner = {"properties": {"roleDefinitionId": f"/roleDefinitions/{OWNER}"}}
    assert not is_allowed(SETUP, *call, owner)
    assert re.findall(r"[0-9a-f-]{36}", CONDITION) == [BLOB_CONTRIBUTOR]


def test_only_what_is_read_may_be_assigned_on_a_subscription():
    for path in FOLDER.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        assert found["Actions"] == sorted(found["Actions"])
        assert not found["DataActions"], "blobs are allowed on the container alone, by setup"
        assert not [action for action in found["Actions"] if "*" in action]
        (scope,) = found["AssignableScopes"]
        if not scope.endswith("/resourceGroups/cloudgan-REGION"):
            assert all(action.endswith("/read") for action in found["Actions"]), path.name


def test_check_looks_at_the_scope_of_each_role(lab):
    lab.azure.server.grants = LAUNCHER
    plan = lab.plan()
    assert [one for one in lab.cloud().check(plan) if one.status == "missing"] == []
    lab.azure.server.grants = [*LAUNCHER[:2], Assignment(LAUNCHER[2].role, f"{GROUP}/other")]
    lacking = [one for one in lab.cloud().check(plan) if one.status == "missing"]
    assert {one.subject.rpartition("/")[2] for one in lacking} == {"read", "write"}
    assert all("credential-role.json on" in one.message for one in lacking)
