"""deploy/azure: each role, on its scope, grants the requests that cloudgan sends, and no others."""

import json
import re
from pathlib import Path

import pytest

from cloudgan.core.errors import CapacityError, CredentialsError
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure.planner import BLOB_CONTRIBUTOR
from emulators.azure.cloud import SUBSCRIPTION
from emulators.azure.rights import Assignment, action_of, is_allowed
from launch.clouds.azure.lab import ACCOUNT_ID, CONTAINER_ID, PLACE, REGION

FOLDER = Path(__file__).parents[4] / "deploy" / "azure"
ROOT, GROUP = f"/subscriptions/{SUBSCRIPTION}", ids.group_id(PLACE)
IDENTITY, CONDITION = ids.identity_id(PLACE), (FOLDER / "setup-condition.txt").read_text("utf-8")


def role(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


LAUNCHER = [
    Assignment(role("reader-role"), ROOT),
    Assignment(role("role"), GROUP),
    Assignment(role("credential-role"), IDENTITY),
]
SETUP = [Assignment(role("reader-role"), ROOT), Assignment(role("setup-role"), GROUP, CONDITION)]


def launched(lab):
    """Runs deploy, check, status, doctor and down with the roles of a launcher, after `setup`."""
    azure = lab.azure
    azure.arm.calls.clear()
    azure.server.grants = LAUNCHER
    plan = lab.plan()
    azure.faults.fail("/agentPools/", "AllocationFailed", "none", in_resource=False)
    lab.launcher().check(plan)
    with pytest.raises(CapacityError):  # only its operation has the error
        lab.start(plan)
    lab.down()
    lab.start(plan)
    lab.launcher().state("gan")
    lab.cloud().list_resources()


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


def test_a_launcher_uses_exactly_the_permissions_of_its_roles(whole_lab):
    lab = whole_lab
    launched(lab)
    lab.down()
    scale_set = f"{GROUP}-nodes/providers/Microsoft.Compute/virtualMachineScaleSets/aks-x-vmss"
    lab.azure.arm.put(f"{GROUP}-nodes", {"location": REGION})
    lab.azure.arm.put(scale_set, {"location": REGION, "tags": {"cloudgan-run": "gan"}})
    (left,) = lab.cloud().list_resources("gan")
    assert lab.cloud().refresh(left)
    lab.azure.arm.reserve("physics/week", "Standard_NC4as_T4_v3", 1)
    lab.share_cluster()
    lab.plan(cluster="physics/shared", reservation="physics/week")
    with pytest.raises(CredentialsError, match="deleted with its cluster, or by an owner"):
        lab.cloud().delete(left)
    assert unused(LAUNCHER, lab.azure.arm.calls) == set()


def test_what_a_launcher_may_not_delete_goes_with_its_cluster(whole_lab):
    lab = whole_lab
    launched(lab)
    (scale_set,) = (one for one in lab.azure.arm.held() if "virtualMachineScaleSets" in one)
    kept = lab.azure.arm.resources[scale_set.lower()]
    lab.azure.server.grants = None
    lab.remove("gan")
    lab.azure.server.grants = LAUNCHER
    lab.azure.arm.resources[scale_set.lower()] = kept
    gone = list(lab.launcher().destroy("gan"))
    assert any("AKS cluster" in one for one in gone)
    assert lab.left() == []


def test_setup_uses_exactly_the_permissions_of_its_role(lab):
    azure = lab.azure
    azure.server.grants = SETUP
    cloud = lab.cloud()
    for purged in (True, False):
        if purged:
            ours = [one for one in cloud.list_resources() if one.shared]
            assert list(lab.engine().destroy(ours))
            assert cloud.list_resources() == ()
            azure.arm.put(GROUP, {"location": REGION})  # an administrator creates it
        lab.setup()
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
    ("PUT", below(CONTAINER_ID, ASSIGNMENT)),
    ("PUT", IDENTITY),
    ("DELETE", IDENTITY),
    ("DELETE", ACCOUNT_ID),
    ("PUT", ACCOUNT_ID),
    ("DELETE", GROUP),
)
DENIED = [
    *((who, call) for who in ("LAUNCHER", "SETUP") for call in NO_ONE_MAY),
    *(("LAUNCHER", call) for call in ONLY_SETUP_MAY),
    ("SETUP", ("PUT", f"{IDENTITY}/{CREDENTIAL}")),
    ("SETUP", ("DELETE", ids.cluster_id(PLACE))),
]


@pytest.mark.parametrize(
    ("who", "call"), DENIED, ids=lambda one: one if isinstance(one, str) else action_of(*one)
)
def test_the_roles_deny(who, call):
    assert not is_allowed(globals()[who], *call, allow_all(call))


def test_setup_assigns_the_role_of_the_container_and_no_other():
    call = ("PUT", below(CONTAINER_ID, ASSIGNMENT))
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
