"""Faults of Azure and their messages for the user, one row each."""

from __future__ import annotations

import re

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
    ResourcesLeftError,
    StockOutError,
)
from cloudgan.launch.clouds.azure.bodies import system_sizes
from cloudgan.launch.clouds.azure.errors import MissingError
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder
from emulators.azure.faults import Refusal
from launch.clouds.azure.lab import plan_for

POOL, CLUSTER = "/agentPools/", "/managedClusters/cloudgan$"
STOCK = (
    "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions:"
    " Standard_NC4as_T4_v3' is currently not available in location 'eastus'."
)
ALLOCATION = (
    'Provisioning of resource(s) for Agent Pool failed. Error: Code="OverconstrainedAllocation'
    'Request" Message="Allocation failed. VM(s) with the following constraints cannot be allocated"'
)
QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardNCASv3_T4Family"
    " Cores quota."
)
RUNNING = "Operation is not allowed because there's an in progress operation"
UNAUTHORIZED = (
    "The client 'x' does not have authorization to perform action 'Microsoft.A/b/write' over"
)


def deploy(lab, **changes):
    plan = lab.plan(**changes)
    ledger = LaunchLog(RunFolder(lab.folder / "runs" / plan.run), plan)
    apply(plan, lab.provider(), ledger, lab.said.append)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ((400, "SkuNotAvailable", STOCK), StockOutError, "Try another --region"),
        ((400, "BadRequest", STOCK), StockOutError, "Try another --region"),
        ((409, "OperationNotAllowed", QUOTA), CapacityError, "Quotas, Compute"),
        ((403, "QuotaExceeded", "too many"), CapacityError, "too many"),
        ((400, "ErrCode_InsufficientVCPUQuota", "left 0"), CapacityError, "Quotas, Compute"),
        (
            (403, "AuthorizationFailed", UNAUTHORIZED),
            CredentialsError,
            "lacks the permission Microsoft.A/b/write",
        ),
        ((401, "InvalidAuthenticationToken", "bad"), CredentialsError, "az login"),
        (
            (403, "AuthorizationFailed", f"{UNAUTHORIZED} scope '/subscriptions/QuotaExceeded'"),
            CredentialsError,
            "lacks the permission Microsoft.A/b/write",
        ),
        ((404, "ResourceGroupNotFound", "no group 'SkuNotAvailable'"), MissingError, "404"),
        ((400, "InvalidParameter", "The value is wrong"), LaunchError, "InvalidParameter"),
    ],
)
def test_a_pool_that_is_refused_at_once(lab, answer, kind, words):
    lab.azure.faults.refuse("PUT", POOL, Refusal(*answer))
    with pytest.raises(kind, match=re.escape(words)) as refused:
        deploy(lab)
    assert type(refused.value) is kind


@pytest.mark.parametrize(
    "in_resource", [True, False], ids=["error in the pool", "error in the operation"]
)
@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [
        ("AllocationFailed", "no capacity", "capacity"),
        ("CreateVMSSAgentPoolFailed", ALLOCATION, "capacity"),
        ("QuotaExceeded", QUOTA, "quota"),
        ("InternalServerError", "sorry", ""),
    ],
)
def test_a_pool_that_fails_in_the_middle_says_why_and_is_removed(
    lab, code, message, cause, in_resource
):
    lab.azure.faults.fail(POOL, code, message, in_resource=in_resource)
    with pytest.raises(
        CapacityError if cause else LaunchError, match="cloudgan down gan"
    ) as failed:
        deploy(lab)
    assert message[:40] in str(failed.value)
    assert not lab.cloud().list_resources("gan")


def test_a_cluster_that_fails_is_no_lack_of_machines(lab):
    lab.azure.faults.fail(CLUSTER, "ControlPlaneError", "no reason")
    with pytest.raises(LaunchError, match="failed: ControlPlaneError: no reason"):
        deploy(lab)


def test_throttling_is_waited_out_as_long_as_azure_asks(lab):
    slow = Refusal(429, "TooManyRequests", "slow down", Retry_After="0")
    for path in (POOL, CLUSTER, "/resources$"):
        lab.azure.faults.refuse("*", path, slow, times=2)
    lab.azure.faults.refuse("POST", "listClusterUserCredential", slow, times=4)
    lab.azure.faults.refuse("GET", "/agentPools/", Refusal(503, "ServerBusy", "busy"), times=3)
    deploy(lab)
    assert list(lab.provider().destroy("gan"))


def test_patience_with_throttling_ends(lab):
    lab.azure.faults.refuse(
        "GET", "/resources$", Refusal(429, "TooManyRequests", "slow", Retry_After="0"), times=99
    )
    found = lab.cloud().list_resources()
    assert "answered 429" in "".join(found.silent)
    assert [one.kind for one in found] == ["resource group"], "the other lists are there"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/managedClusters$", "AKS"),
        ("/resources$", "scale sets"),
        ("/resourcegroups$", "resource groups"),
    ],
)
def test_a_list_that_does_not_answer_is_named(lab, path, name):
    deploy(lab)
    lab.azure.faults.refuse("GET", path, Refusal(500, "InternalServerError", "no"), times=99)
    assert name in {one.partition(" (")[0] for one in lab.cloud().list_resources().silent}
    with pytest.raises(ResourcesLeftError, match=r"no answer from .*answered 500"):
        list(lab.provider().destroy("gan"))


def test_a_page_that_is_gone_does_not_end_a_list(lab):
    deploy(lab)
    lab.azure.lists.page, lab.azure.lists.loses_pages = 1, True
    assert "shared resources (" in "".join(lab.cloud().list_resources().silent)


def test_what_was_just_made_may_not_be_found_yet(lab):
    lab.azure.faults.late_gets = 3
    deploy(lab)
    assert lab.cloud().list_resources("gan")


def test_a_pool_waits_for_another_operation_on_its_cluster(lab):
    lab.azure.faults.refuse("PUT", POOL, Refusal(409, "OperationNotAllowed", RUNNING), times=3)
    deploy(lab)
    assert [said for said in lab.said if "waits:" in said]


def test_a_deletion_that_is_refused_for_a_while_is_asked_again(lab):
    deploy(lab)
    for path in (POOL, CLUSTER):
        lab.azure.faults.refuse(
            "DELETE", path, Refusal(409, "OperationNotAllowed", RUNNING), times=5
        )
    assert len(list(lab.provider().destroy("gan"))) > 1
    assert [said for said in lab.said if "cannot be deleted yet" in said]
    assert {one.shared for one in lab.cloud().list_resources()} == {"bucket", "identity", "group"}


def test_a_clock_that_differs_is_named(lab):
    lab.azure.server.skew_seconds = 7200
    with pytest.raises(CredentialsError, match="this machine's clock"):
        lab.cloud().list_resources()


def test_a_token_that_expired_is_renewed_before_azure_says_so(lab):
    lab.azure.login.seconds = 60
    cloud = lab.cloud()
    for _ in range(3):
        cloud.list_resources()
    assert len(lab.azure.login.asked) >= 3


def test_resources_of_others_are_never_changed(lab):
    root = f"/subscriptions/{lab.azure.arm.subscription}/resourceGroups"
    group, own = f"{root}/lab", f"{root}/cloudgan-eastus"
    account = "providers/Microsoft.Storage/storageAccounts/theirs"
    lab.azure.arm.put(group, {"location": "eastus", "tags": {}})
    for where in (group, own):
        lab.azure.arm.put(f"{where}/{account}", {"location": "eastus", "tags": {"of": "them"}})
    cloud = lab.cloud()
    assert not [one for one in cloud.list_resources() if "theirs" in one.name]
    (ours,) = (one for one in cloud.list_resources() if one.kind == "resource group")
    with pytest.raises(LaunchError, match="would delete its contents"):
        cloud.delete(ours)
    deploy(lab)
    assert list(lab.provider().destroy("gan"))
    assert [one for one in lab.azure.arm.held() if one.endswith("/theirs")]


def test_what_setup_made_goes_when_it_is_asked_for(lab):
    deploy(lab)
    remover = Engine(lab.cloud(), lab.said.append, 0.001)
    assert list(names_of_gone(remover.destroy(lab.cloud().list_resources())))
    assert lab.azure.arm.held() == []


def test_machines_whose_pool_is_gone_are_found_and_removed(lab):
    deploy(lab)
    left = next(one for one in lab.azure.arm.held() if "virtualMachineScaleSets" in one)
    kept = lab.azure.arm.resources[left.lower()]
    list(lab.provider().destroy("gan"))
    group = left.partition("/providers/")[0]
    lost = {"location": "eastus", "tags": {"cloudgan-shared": "cluster"}, "managedBy": "AKS"}
    lab.azure.arm.put(group, lost)
    lab.azure.arm.resources[left.lower()] = kept
    (found,) = lab.cloud().list_resources("gan")
    assert (found.kind, found.run) == ("scale set of a pool", "gan")
    (nodes,) = (one for one in lab.cloud().list_resources() if one.name == group)
    assert (nodes.kind, nodes.shared) == ("group of a lost cluster", "leftover")
    assert list(lab.provider().destroy("gan"))
    assert lab.cloud().list_resources("gan") == ()
    assert list(names_of_gone(Engine(lab.cloud(), lab.said.append, 0.001).destroy([nodes])))
    assert group.lower() not in lab.azure.arm.resources


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"unsold": ("Standard_NC4as_T4_v3",)}, PlanError, "Azure has no Standard_NC4as_T4_v3"),
        (
            {"restrictions": [{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]},
            PlanError,
            "is not available to subscription 00000000-0000-0000-0000-0000000000bb in eastus (NotAvailableForSubscription)",
        ),
    ],
)
def test_a_region_without_the_machine_is_reported_before_anything_is_created(
    lab, change, kind, words
):
    for name, value in change.items():
        setattr(lab.azure.arm if name == "unsold" else lab.azure.lists, name, value)
    with pytest.raises(kind, match=re.escape(words)):
        lab.plan()


def test_the_system_node_is_of_a_size_that_the_subscription_is_offered(lab):
    lab.azure.arm.unsold = ("Standard_D2_v2", "Standard_D2s_v3")
    deploy(lab)
    system = {one.node_type for one in lab.cloud().list_resources() if one.nodes and not one.run}
    assert system == {"Standard_D2s_v5"}
    lab.azure.arm.unsold = tuple(system_sizes())
    assert "one Standard_D2s_v5 " in lab.plan().model_dump_json(), "the cluster has its node"


def test_a_region_without_a_size_for_the_system_node_is_refused_before_anything_is_made(lab):
    lab.azure.arm.unsold = tuple(system_sizes())
    before = lab.azure.arm.held()
    with pytest.raises(PlanError, match="is offered none of them in eastus; give another --region"):
        lab.plan()
    assert lab.azure.arm.held() == before


def values_of(lab):
    return lab.cloud().resolve_placeholders(plan_for(lab.plan_of))


def test_all_zones_that_have_the_machine_are_tried_in_order(lab):
    assert values_of(lab)["<zones>"] == "1 2 3"


def test_the_first_zone_that_has_the_machine_is_taken_and_another_refused(lab):
    closed = {"type": "Zone", "restrictionInfo": {"zones": ["1", "3"]}}
    lab.azure.lists.restrictions = [closed]
    assert lab.plan().target.zone == "2"
    assert values_of(lab)["<zones>"] == "2"
    with pytest.raises(PlanError, match="is available in eastus in zones 2"):
        lab.plan(zone="3")
    lab.azure.lists.restrictions, lab.azure.lists.zones = [], ()
    assert not lab.plan().target.zone


def test_a_store_that_everybody_could_read_is_refused(lab):
    account = next(
        one for one in lab.azure.arm.resources.values() if one.kind.endswith("storageaccounts")
    )
    account.body["properties"]["allowBlobPublicAccess"] = True
    with pytest.raises(ConfigError, match="allows public access"):
        deploy(lab)


def test_a_cluster_that_was_created_again_has_pods_with_an_identity_too(lab):
    for _ in range(2):
        deploy(lab)
        credential = next(
            one for name, one in lab.azure.arm.resources.items() if "federated" in name
        )
        number = lab.azure.aks.made
        assert credential.body["properties"]["issuer"].endswith(f"/{number}/")
        list(lab.provider().destroy("gan"))
