"""The Azure planner: requests of a plan, offline."""

import json
import re
import string

from hypothesis import given
from hypothesis import strategies as st

from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.plan import fill_placeholders
from launch.clouds.azure.lab import PLACE, SUBSCRIPTION, azure_plan
from launch.clouds.lab import of_cloud

KNOWN = {
    ids.SUBSCRIPTION: SUBSCRIPTION,
    ids.ACCOUNT: ids.account_name(SUBSCRIPTION, "eastus"),
    ids.CLIENT: "00000000-0000-0000-0000-0000000000cc",
}


def test_each_request_names_what_it_creates_and_carries_its_labels():
    rows = {one.name: one for one in kinds.KINDS}
    for step in (*of_cloud(azure_plan()), *requests.setup_steps(PLACE)):
        kind = rows[step.kind]
        assert step.path == f"{kind.name_of(step.ref)}?api-version={kind.request}"
        found = kind.resource(kind.name_of(step.ref), step.body)
        assert (found.run == "gan") == (kind is kinds.POOL)
        assert found.run or found.shared, f"{kind.name} could not be found again"
        assert kind.may_be_foreign == (kind is not kinds.POOL)


def test_when_all_is_known_no_placeholder_is_left_but_what_is_made_on_the_way():
    made = fill_placeholders(
        azure_plan(), KNOWN | {ids.ZONE: "2", ids.SYSTEM_SIZE: "Standard_D2s_v3"}
    )
    steps = all_steps(made)
    left = set(re.findall(r"<[-a-z]+>", json.dumps([one.model_dump() for one in steps])))
    assert not left
    pool = next(one for one in steps if "/agentPools/" in one.path)
    assert pool.body["properties"]["availabilityZones"] == ["2"]
    assert made.store == f"https://{KNOWN[ids.ACCOUNT]}.blob.core.windows.net/cloudgan"
    assert made.store == requests.store_url(made.target)


def test_a_cluster_of_ones_own_is_named_with_its_group():
    place = requests.target(SUBSCRIPTION, "eastus", None, "lab/physics")
    assert ids.cluster_id(place).endswith(
        "/resourceGroups/lab/providers/Microsoft.ContainerService/managedClusters/physics"
    )
    assert kinds.CREDENTIAL.name_of(ids.credential(place)).endswith(
        "/federatedIdentityCredentials/lab-physics"
    )


@given(st.text(string.printable), st.text(string.ascii_lowercase + string.digits))
def test_a_storage_account_has_a_name_that_azure_takes(subscription, region):
    name = ids.account_name(subscription, region)
    assert re.fullmatch("[a-z0-9]{3,24}", name)
    assert name == ids.account_name(subscription, region)
