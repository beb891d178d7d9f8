"""--network, --subnet and --internal-ips in requests, and networks that do not exist."""

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.schema.plan import INTERNAL_IPS, NETWORK, SUBNET
from emulators.gcp.refusal import Refusal
from launch.clouds.gcp.lab import gcp_plan
from launch.clouds.lab import of_cloud

LAB = {NETWORK: "lab", SUBNET: "gpus"}
ONE_OF_EACH = ("g2-standard-4", "v5litepod-8")


def requested(plan):
    """The network fields of the request for the cluster, or for TPU VMs."""
    body = next(
        step.body
        for step in of_cloud(plan)
        if "cluster" in (step.body or {}) or "tpu" in (step.body or {})
    )
    if "cluster" in body:
        return body["cluster"]
    return body["tpu"]["nodeSpec"][0]["node"]["networkConfig"]


def plan_of(node_type, details=None):
    return gcp_plan(node_type, details=details)


def network_finding(cloud, plan):
    return next(one for one in cloud.check(plan) if one.subject.startswith("network"))


@pytest.fixture
def lab_network(google):
    """An organization without automatic networks."""
    google.compute.networks = {"lab": ("us-central1/gpus", "europe-west4/cpus")}


@pytest.mark.parametrize("node_type", ONE_OF_EACH)
def test_requests_name_the_network_and_the_subnet(node_type):
    found = requested(plan_of(node_type, LAB))
    assert (found["network"], found["subnetwork"]) == ("lab", "gpus")
    assert not {"network", "subnetwork"} & requested(plan_of(node_type)).keys()


def test_nodes_without_public_addresses_are_requested_priced_and_explained():
    plan = gcp_plan(details={INTERNAL_IPS: "only"})
    assert requested(plan)["networkConfig"]["defaultEnablePrivateNodes"] is True
    pool = next(step.body["nodePool"] for step in of_cloud(plan) if "/nodePools" in step.path)
    assert pool["networkConfig"] == {"enablePrivateNodes": True}
    assert "public_ip" in {fee.kind for fee in gcp_plan().node_pool.fees}
    assert "public_ip" not in {fee.kind for fee in plan.node_pool.fees}
    assert "Cloud NAT" in plan.node_pool.notes[0]
    assert "internal addresses only" in plan.target.describe()
    tpu = plan_of("v5litepod-8", {INTERNAL_IPS: "only"})
    assert requested(tpu)["enableExternalIps"] is False
    assert requested(plan_of("v5litepod-8"))["enableExternalIps"] is True


@pytest.mark.usefixtures("lab_network")
@pytest.mark.parametrize("node_type", ONE_OF_EACH)
@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, "project lab has no network 'default'; pass --network=NAME"),
        ({NETWORK: "lab"}, "are not automatic; pass --subnet, which can be: gpus"),
        (
            {NETWORK: "lab", SUBNET: "cpus"},
            "no subnet 'cpus' in us-central1; --subnet can be: gpus",
        ),
    ],
)
def test_a_network_that_does_not_exist_is_refused_before_anything_is_made(
    google, cloud, node_type, details, words
):
    plan = plan_of(node_type, details)
    with pytest.raises(PlanError, match=words):
        cloud.resolve_placeholders(plan)
    found = network_finding(cloud, plan)
    assert (found.status, words in found.message) == ("missing", True)
    assert google.left() == []


@pytest.mark.usefixtures("lab_network")
def test_a_run_is_made_in_a_project_without_the_network_default(lab, google, cloud):
    assert network_finding(cloud, gcp_plan(details=LAB)).status == "ok"
    lab.make(details=LAB)
    assert len(google.left()) == 2
    with pytest.raises(PlanError, match="in the network 'lab', not in 'other'; omit --network"):
        lab.resolved(gcp_plan(details={NETWORK: "other"}))
    lab.resolved(gcp_plan())  # an existing cluster has its network


@pytest.mark.usefixtures("lab_network")
def test_a_login_that_may_not_read_networks_is_no_error_before_google_refuses(lab, google, cloud):
    for _ in range(2):
        google.server.refuse(
            "networks.get", Refusal(403, "not you", reason="IAM_PERMISSION_DENIED")
        )
    assert network_finding(cloud, gcp_plan(details=LAB)).status == "unknown"
    lab.plan(details=LAB)
