"""A run whose nodes GKE starts together: its Job owns the request, and only its pods use the nodes."""

import pytest

from cloudgan.core.labels import RUN
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.schema.plan import NodePool, Toleration
from emulators.kubernetes.controllers import FLEX, REQUEST
from launch.backends.kubernetes.lab import NAMESPACE, ON_DOUBLE, plan_of
from launch.backends.kubernetes.lab import rules as roles

pytestmark = ON_DOUBLE
POOL = NodePool(
    node_type="a3-highgpu-1g", market="on_demand", name="pool", flex_start=True, queued=True
)


@pytest.fixture
def lab(make_lab):
    """A launcher with the rights of deploy/kubernetes and those on the two objects of a request."""
    lab = make_lab(nodes=0)
    rules = [
        {"apiGroups": [group], "resources": [kind], "verbs": ["get", "create"]}
        for group, kind in (("", "podtemplates"), ("autoscaling.x-k8s.io", "provisioningrequests"))
    ]
    token = lab.cluster.token(rules=[*roles("role", "clusterrole"), *rules])
    client = connect_by_token(lab.cluster.url, lab.cluster.ca.read_text(), lambda: token)
    yield lab._replace(backend=KubernetesBackend(ClusterApi(client), NAMESPACE))
    client.close()


def planned():
    taints = (Toleration(key="cloud.google.com/gke-queued"), Toleration(key=RUN))
    workers = {
        "accelerators_per_node": 1,
        "accelerator": "H100",
        "tolerations": taints,
        "node_selector": {FLEX: "true"},
    }
    plan = plan_of(workers=workers, node_pool=POOL)
    return plan.model_copy(update={"steps": manifest_steps(plan)})


def begin(lab, plan):
    for step in plan.steps:
        lab.backend.ensure(step, plan)


def requests(lab):
    return lab.cluster.select(REQUEST, NAMESPACE)


def test_all_nodes_come_at_once_and_the_request_goes_with_the_job(lab):
    plan = planned()
    begin(lab, plan)
    assert lab.cluster.wait_for(lambda: requests(lab)[0].get("status"))
    assert not any(
        one["reason"] == "InvalidRequest" for one in requests(lab)[0]["status"]["conditions"]
    )
    lab.cluster.wait_for(lambda: len(lab.pods("gan")) == 2)
    state = lab.backend.state("gan")
    assert (state.phase, state.cause) == ("waiting", "placement")
    assert state.reason == "nodes are requested: NotProvisioned: capacity is not available yet"
    lab.cluster.add_node("other", gpus=1, labels={FLEX: "true", RUN: "gan"})
    assert lab.backend.state("gan").phase == "waiting", "only its own nodes serve the request"
    lab.cluster.provide("gan", {RUN: "gan"})
    lab.cluster.wait_for(lambda: lab.backend.state("gan").phase == "running")
    assert {one.node for one in lab.backend.state("gan").workers} == {"gan-0", "gan-1"}
    list(lab.backend.destroy("gan"))
    lab.cluster.wait_for(lambda: not requests(lab))
    assert not lab.cluster.select("podtemplates", NAMESPACE)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["Failed", "CapacityRevoked", "BookingExpired"])
def test_a_request_that_cannot_be_served_is_missing_capacity(lab, condition):
    begin(lab, planned())
    lab.cluster.wait_for(lambda: requests(lab)[0].get("status"))
    lab.cluster.wait_for(lambda: len(lab.pods("gan")) == 2)
    lab.cluster.end_request("gan", condition, "OutOfCapacity", "no H100")
    state = lab.backend.state("gan")
    assert state.cause == "capacity"
    assert state.reason.endswith(f"condition {condition}: OutOfCapacity: no H100")


@pytest.mark.slow
def test_a_second_start_keeps_the_request_and_a_new_job_has_its_own(lab):
    plan = planned()
    begin(lab, plan)
    (first,) = requests(lab)
    begin(lab, plan)
    assert requests(lab)[0]["metadata"]["uid"] == first["metadata"]["uid"]
    lab.backend.stop("gan")
    begin(lab, plan)
    (second,) = requests(lab)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
