"""One subscription of Azure: sizes and zones for sale, clocks and tokens, resources of others, lost nodes."""

import re

import pytest

from cloudgan.core.errors import CredentialsError, LaunchError, PlanError
from cloudgan.launch.clouds.azure.planner import system_sizes
from launch.clouds.azure.lab import azure_plan


def test_a_page_that_is_gone_does_not_end_a_list(lab):
    lab.make()
    lab.azure.lists.page, lab.azure.lists.loses_pages = 1, True
    assert "shared resources (" in "".join(lab.cloud().list_resources().silent)


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
    lab.make()
    lab.remove("gan")
    assert [one for one in lab.azure.arm.held() if one.endswith("/theirs")]


def test_machines_whose_pool_is_gone_are_found_and_removed(whole_lab):
    lab = whole_lab
    lab.deploy()
    left = next(one for one in lab.azure.arm.held() if "virtualMachineScaleSets" in one)
    kept = lab.azure.arm.resources[left.lower()]
    assert lab.down() == []
    group = left.partition("/providers/")[0]
    lost = {"location": "eastus", "tags": {"cloudgan-shared": "cluster"}, "managedBy": "AKS"}
    lab.azure.arm.put(group, lost)
    lab.azure.arm.resources[left.lower()] = kept
    (found,) = lab.cloud().list_resources("gan")
    assert (found.kind, found.run) == ("scale set of a pool", "gan")
    (nodes,) = (one for one in lab.cloud().list_resources() if one.name == group)
    assert (nodes.kind, nodes.shared) == ("group of a lost cluster", "leftover")
    assert lab.down() == [group.lower()]
    assert list(lab.engine().destroy([nodes]))
    assert lab.left() == []


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
    lab.make()
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


def test_the_first_zone_that_has_the_machine_is_taken_and_another_refused(lab):
    assert lab.cloud().resolve_placeholders(azure_plan())["<zones>"] == "1 2 3"
    closed = {"type": "Zone", "restrictionInfo": {"zones": ["1", "3"]}}
    lab.azure.lists.restrictions = [closed]
    assert lab.plan().target.zone == "2"
    assert lab.cloud().resolve_placeholders(azure_plan())["<zones>"] == "2"
    with pytest.raises(PlanError, match="is available in eastus in zones 2"):
        lab.plan(zone="3")
    lab.azure.lists.restrictions, lab.azure.lists.zones = [], ()
    plan = lab.plan()
    assert not plan.target.zone
    assert "availabilityZones" not in lab.step("/agentPools/", plan).body["properties"]


def test_a_cluster_that_was_created_again_has_pods_with_an_identity_too(lab):
    for number in (1, 2):
        lab.make()
        resources = lab.azure.arm.resources.items()
        credential = next(one for name, one in resources if "federated" in name)
        assert credential.body["properties"]["issuer"].endswith(f"/{number}/")
        ours = [one for one in lab.cloud().list_resources() if one.shared in (None, "cluster")]
        list(lab.engine().destroy(ours))
