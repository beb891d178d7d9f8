"""The Azure planner: requests of a plan, offline."""

from __future__ import annotations

import json
import re
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core import machines
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.azure.bodies import size_of
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.plan import fill_placeholders
from emulators.azure.contract import complaint
from launch.clouds.azure.write_golden import GOLDEN, OFFERS, plan, render

SUBSCRIPTION = "00000000-0000-0000-0000-0000000000bb"
KNOWN = {
    ids.SUBSCRIPTION: SUBSCRIPTION,
    ids.ACCOUNT: ids.account_name(SUBSCRIPTION, "eastus"),
    ids.CLIENT: "00000000-0000-0000-0000-0000000000cc",
}


def wanted(node_type, **changes):
    return NodePoolRequest(
        **{"run": "gan", "spec_hash": "x", "node_type": node_type, "nodes": 1} | changes
    )


def test_a_plan_yields_the_golden_requests():
    golden = GOLDEN.read_text(encoding="utf-8")
    assert render("spot") == golden, "if the change is intended: make golden, and read the diff"


def test_each_request_names_what_it_creates_and_carries_its_labels():
    rows = {one.name: one for one in kinds.KINDS}
    place = requests.target(SUBSCRIPTION, "eastus", None, None)
    steps = [one for one in plan("gpu").steps if one.at == "cloud"]
    for step in (*steps, *requests.setup_steps(place)):
        kind = rows[step.kind]
        assert step.path == f"{kind.name_of(step.ref)}?api-version={kind.request}"
        found = kind.resource(kind.name_of(step.ref), step.body)
        assert (found.run == "gpu") == (kind is kinds.POOL)
        assert found.run or found.shared, f"{kind.name} could not be found again"
        assert kind.may_be_foreign == (kind is not kinds.POOL)


@pytest.mark.parametrize("name", sorted(OFFERS))
def test_what_is_asked_of_aks_has_its_fields_its_types_and_its_words(name):
    made = {one.kind: one.body for one in plan(name).steps}
    cluster, pool = "microsoft.containerservice/managedclusters", "agentpools"
    assert not complaint(cluster, made[kinds.CLUSTER.name])
    assert not complaint(f"{cluster}/{pool}", made[kinds.POOL.name])


@pytest.mark.parametrize(
    ("node_type", "words"),
    [
        ("Standard_NC6s_v3", ("V100", "since 2025-09-30", "--accelerator=A100-80GB:1")),
        ("Standard_NC24rs_v3", ("V100", "since 2025-03-31", "--accelerator=A100-80GB:4")),
        ("Standard_NC6s_v2", ("P100", "since 2023-08-31", "--accelerator=T4:1")),
        ("Standard_ND40rs_v2", ("V100-32GB", "availability is unconfirmed", "A100-40GB:8")),
    ],
)
def test_what_is_retired_is_refused_in_one_sentence_with_the_nearest_that_is_sold(node_type, words):
    with pytest.raises(PlanError) as refused:
        requests.node_pool(wanted(node_type, market="spot"))
    for word in words:
        assert word in str(refused.value)
    name, count = re.search(r"--accelerator=([^:]+):(\d)", str(refused.value)).groups()
    assert [
        size
        for size in machines.sold("azure").values()
        if (size.accelerator, size.accelerators) == (name, int(count))
    ]


def test_an_unknown_machine_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'Standard_NC4as_T4_v3'"):
        size_of("Standard_NC4as_T4_v4")


def test_what_other_clouds_have_is_refused():
    with pytest.raises(PlanError, match="--flex-start is only valid with --provider=gcp"):
        requests.node_pool(wanted("Standard_NC4as_T4_v3", market="spot", flex_start=True))
    with pytest.raises(ConfigError, match="--subscription=Physics is not an id"):
        requests.target("Physics", "eastus", None, None)
    with pytest.raises(ConfigError, match="1, 2, 3"):
        requests.target(None, "eastus", "us-east-1a", None)


def test_spot_is_evicted_for_capacity_only_and_costs_nothing_when_it_is_idle():
    (pool,) = (one for one in plan("spot").steps if "/agentPools/" in one.path)
    found = pool.body["properties"]
    assert (found["scaleSetPriority"], found["scaleSetEvictionPolicy"]) == ("Spot", "Delete")
    assert (found["spotMaxPrice"], found["enableAutoScaling"], found["minCount"]) == (-1, True, 0)
    (pool,) = (one for one in plan("gpu").steps if "/agentPools/" in one.path)
    assert "scaleSetPriority" not in pool.body["properties"]
    assert pool.body["properties"]["minCount"] == 0


def test_the_store_and_the_desired_state_are_created_before_resources_that_bill():
    steps = plan("gpu").steps
    assert [one.kind or one.at for one in steps[:8]] == [
        *("resource group", "storage account", "blob container", "store"),
        *("AKS cluster", "cluster", "credential of an identity", "AKS pool"),
    ]
    assert steps[8].ensure == "DaemonSet cloudgan-device-plugin"


def test_a_store_of_ones_own_is_used_and_none_is_made():
    own = plan("gpu").model_copy(update={"store": "https://mine.blob.core.windows.net/runs"})
    assert not [one for one in all_steps(own) if "Microsoft.Storage" in one.path]


def test_when_all_is_known_no_placeholder_is_left_but_what_is_made_on_the_way():
    made = fill_placeholders(
        plan("gpu"), KNOWN | {ids.ZONE: "2", ids.SYSTEM_SIZE: "Standard_D2s_v3"}
    )
    steps = all_steps(made)
    left = set(re.findall(r"<[-a-z]+>", json.dumps([one.model_dump() for one in steps])))
    assert not left
    pool = next(one for one in steps if "/agentPools/" in one.path)
    assert pool.body["properties"]["availabilityZones"] == ["2"]
    assert made.store == f"https://{KNOWN[ids.ACCOUNT]}.blob.core.windows.net/cloudgan"
    assert made.store == requests.store_url(made.target)


def test_a_region_without_zones_is_asked_for_none():
    made = fill_placeholders(plan("gpu"), KNOWN | {ids.ZONE: ""})
    pool = next(one for one in all_steps(made) if "/agentPools/" in one.path)
    assert "availabilityZones" not in pool.body["properties"]


def test_a_cluster_of_ones_own_is_named_with_its_group():
    place = requests.target(SUBSCRIPTION, "eastus", None, "lab/physics")
    assert ids.cluster_id(place).endswith(
        "/resourceGroups/lab/providers/Microsoft.ContainerService/managedClusters/physics"
    )
    assert ids.credential_id(place).endswith("/federatedIdentityCredentials/lab-physics")


@given(st.text(string.printable), st.text(string.ascii_lowercase + string.digits))
def test_a_storage_account_has_a_name_that_azure_takes(subscription, region):
    name = ids.account_name(subscription, region)
    assert re.fullmatch("[a-z0-9]{3,24}", name)
    assert name == ids.account_name(subscription, region)


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,46}[a-z0-9])?", fullmatch=True), st.text())
def test_a_pool_has_a_name_that_aks_takes(run, spec):
    found = requests.node_pool(
        wanted("Standard_NC4as_T4_v3", market="spot", run=run, spec_hash=spec)
    )
    assert re.fullmatch("[a-z][a-z0-9]{0,11}", found.name)


def test_nothing_of_this_needs_an_sdk():
    code = (
        "import sys; from cloudgan.launch.clouds.planner import cloud_planner; cloud_planner('azure');"
        "print([one for one in sys.modules if one.split('.')[0] in ('azure', 'kubernetes')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert cloud_planner("azure").node_pool is requests.node_pool


def test_no_system_pod_keeps_the_nodes_of_a_run_alive_and_they_scale_to_zero():
    """Only the launcher ends the nodes: AKS has no maximum lifetime of a node."""
    bodies = {step.path.partition("?")[0]: step.body for step in plan("gpu").steps if step.body}
    (cluster,) = [
        body for path, body in bodies.items() if path.endswith("/managedClusters/cloudgan")
    ]
    (pool,) = [body for path, body in bodies.items() if "/agentPools/" in path]
    profile = cluster["properties"]["autoScalerProfile"]
    assert profile["skip-nodes-with-system-pods"] == "false"
    assert pool["properties"]["minCount"] == 0
    assert pool["properties"]["enableAutoScaling"]
