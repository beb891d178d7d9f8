"""`setup` on the emulated Azure: who gets access to the store, and refusals that no waiting changes."""

import pytest

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure.planner import BLOB_CONTRIBUTOR
from emulators.azure.arm import ASSIGNMENTS
from emulators.azure.cloud import SUBSCRIPTION
from emulators.azure.entra import OBJECT
from emulators.azure.faults import Refusal
from launch.clouds.azure.lab import ACCOUNT_ID, CONTAINER_ID, PLACE

OTHER = OBJECT.replace("cc", "dd")
ROLE = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{BLOB_CONTRIBUTOR}"


def with_access(lab):
    """The principals with access to the store."""
    found = lab.azure.arm.of_kind(ASSIGNMENTS)
    return sorted(one.body["properties"]["principalId"] for one in found)


def pods(lab):
    address = ids.identity_id(PLACE).lower()
    return lab.azure.arm.resources[address].body["properties"]["principalId"]


def puts(lab, part):
    return [path for method, path in lab.azure.arm.calls if method == "PUT" and part in path]


def test_each_user_who_runs_setup_gets_access_to_the_store(lab):
    assert with_access(lab) == sorted([pods(lab), OBJECT])
    lab.azure.login.who = OTHER
    lab.setup()
    assert with_access(lab) == sorted([pods(lab), OBJECT, OTHER])
    lab.setup()
    assert len(with_access(lab)) == 3, "once each"


def test_a_pod_identity_that_was_created_again_gets_access_to_the_store(lab):
    before = pods(lab)
    identity = next(one for one in lab.cloud().list_resources() if one.kind == "managed identity")
    list(lab.engine().destroy([identity]))
    lab.setup()
    assert pods(lab) != before
    assert pods(lab) in with_access(lab)


def test_setup_waits_until_the_role_of_the_user_works(lab):
    lab.azure.login.who = OTHER
    lab.azure.blobs.refusals = 5
    lab.setup()
    assert lab.azure.blobs.refusals == 0
    (line,) = (one for one in lab.said if "not in effect yet" in one)
    assert "up to 10 minutes" in line


def test_a_role_that_never_works_is_reported_after_15_minutes(lab, monkeypatch):
    clock = iter(range(0, 10**6, 60))
    monkeypatch.setattr(
        "cloudgan.launch.clouds.azure.client.monotonic_seconds", lambda: next(clock)
    )
    lab.azure.blobs.refusals = 10**6
    with pytest.raises(
        LaunchError, match=r"still refuses this login.*AuthorizationPermissionMismatch"
    ):
        lab.setup()


@pytest.mark.parametrize("scope", [CONTAINER_ID, ids.group_id(PLACE)])
def test_access_that_an_owner_gave_before_is_found(lab, scope):
    lab.azure.login.who = OTHER
    name = "00000000-0000-0000-0000-0000000000ee"
    lab.azure.arm.put(
        f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}",
        {"properties": {"roleDefinitionId": ROLE, "principalId": OTHER, "scope": scope}},
    )
    lab.setup()
    assert with_access(lab).count(OTHER) == 1


def test_access_that_another_setup_gives_at_the_same_time_is_no_error(lab):
    exists = Refusal(409, "RoleAssignmentExists", "The role assignment already exists.")
    lab.azure.login.who = OTHER
    create = lab.azure.faults.strike

    def meet(method, path):
        if method == "PUT" and "roleassignments" in path.lower() and OTHER not in with_access(lab):
            scope = CONTAINER_ID
            lab.azure.arm.put(
                f"{scope}/providers/Microsoft.Authorization/roleAssignments/another",
                {"properties": {"roleDefinitionId": ROLE, "principalId": OTHER, "scope": scope}},
            )
            raise exists
        create(method, path)

    lab.azure.faults.strike = meet
    lab.setup()
    assert with_access(lab).count(OTHER) == 1
    assert not [one for one in lab.said if "waits" in one]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("StorageAccountAlreadyTaken", "pass another --region, or your own --store"),
        ("InvalidResourceLocation", "delete it, or pass its location as --region"),
        ("MissingSubscriptionRegistration", "az provider register"),
        ("ScopeLocked", "az lock list"),
    ],
)
def test_a_conflict_that_no_waiting_changes_ends_setup_at_once(lab, code, advice):
    del lab.azure.arm.resources[ACCOUNT_ID.lower()]
    if code == "StorageAccountAlreadyTaken":
        lab.azure.arm.taken_accounts = (ids.store_account(PLACE),)
    else:
        refusal = Refusal(409, code, "it cannot be changed")
        lab.azure.faults.refuse("PUT", "/storageAccounts/[^/]+$", refusal, times=99)
    before = len(puts(lab, "storageAccounts"))
    with pytest.raises(ConfigError, match=advice):
        lab.setup()
    assert len(puts(lab, "storageAccounts")) == before + 1
    assert not [one for one in lab.said if "waits" in one]


def test_a_locked_resource_is_not_deleted_again_and_again(lab):
    locked = Refusal(409, "ScopeLocked", "Please remove the lock and try again.")
    lab.azure.faults.refuse("DELETE", "/storageAccounts/", locked, times=99)
    bucket = next(one for one in lab.cloud().list_resources() if one.shared == "bucket")
    with pytest.raises(Exception, match="az lock list"):
        list(lab.engine(gone_seconds=20).destroy([bucket]))
    assert len([one for one in lab.azure.arm.calls if one[0] == "DELETE"]) <= 2
