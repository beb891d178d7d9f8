"""Rights in the cluster of a cloud, which are checked before nodes are created, and the nodes of a run."""

import pytest

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CapacityError, CredentialsError
from cloudgan.core.labels import RUN
from cloudgan.launch.backends.kubernetes.checks import (
    check_rights,
    list_nodes,
    review_step,
    wait_for_nodes,
    wait_step,
)
from cloudgan.launch.kubernetes.manifests import manifest_steps
from cloudgan.schema.plan import NodePool

pytest.importorskip("kubernetes", reason="needs pip install '.[kubernetes]'")

from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token


class Reviews:
    """Answers reviews; a right is granted from its nth review on."""

    new_until = 0.0

    def __init__(self, granted_from=1, exists=(), *, cilium=True):
        self.granted_from, self.exists, self.cilium = granted_from, exists, cilium
        self.asked = {}

    def create(self, path, body):
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        spec = body["spec"]["resourceAttributes"]
        name = " ".join((spec["verb"], spec["resource"], spec.get("subresource", ""))).strip()
        self.asked[name] = self.asked.get(name, 0) + 1
        return {"status": {"allowed": self.asked[name] >= self.granted_from}}

    def groups(self):
        return frozenset({"batch/v1", *(["cilium.io/v2"] if self.cilium else [])})

    def get(self, path):
        return {} if path in self.exists else None


@pytest.fixture
def plan(plan_of):
    place = {"provider": "aws", "account": "1", "region": "us-east-1", "zone": "us-east-1a"}
    place |= {"cluster": "physics", "context": None, "server": None}
    pool = NodePool(node_type="g4dn.xlarge", market="spot", name="gan-1")
    return plan_of(
        target=place | {"namespace": "cloudgan", "service_account": "cloudgan"},
        node_pool=pool,
        requests=lambda plan: (review_step(plan.target), *manifest_steps(plan)),
    )


def test_each_object_of_the_plan_is_asked_for_and_what_the_launcher_reads(plan):
    reviews = Reviews()
    check_rights(reviews, plan)
    objects = {step.path.rpartition("/")[2] for step in plan.steps if step.method == "POST"}
    created = {name.split()[1] for name in reviews.asked if name.startswith("create ")}
    assert created == objects >= {"jobs", "configmaps", "services", "networkpolicies"}
    assert {"list pods", "get pods log", "list nodes", "delete jobs"} <= set(reviews.asked)


def test_the_rights_to_policies_of_cilium_are_asked_for_only_where_it_runs(plan):
    for cilium in (False, True):
        reviews = Reviews(cilium=cilium)
        check_rights(reviews, plan)
        assert ("create ciliumnetworkpolicies" in reviews.asked) is cilium


def test_missing_rights_are_named_with_the_command_that_grants_them(plan):
    with pytest.raises(CredentialsError) as refused:
        check_rights(Reviews(granted_from=99), plan)
    why = str(refused.value)
    assert "create jobs in namespace cloudgan" in why
    assert "get pods/log in namespace cloudgan" in why
    assert "list nodes in cluster physics" in why
    assert "aws eks create-access-entry" in why


def test_objects_that_all_runs_share_may_exist_instead(plan):
    shared = ("Namespace", "ServiceAccount")
    there = [step.find for step in plan.steps if step.ensure.startswith(shared)]

    class Denied(Reviews):
        def create(self, path, body):
            spec = body["spec"]["resourceAttributes"]
            return {
                "status": {"allowed": spec["resource"] not in ("namespaces", "serviceaccounts")}
            }

    check_rights(Denied(exists=there), plan)
    with pytest.raises(CredentialsError, match="may not create namespaces, create serviceacc"):
        check_rights(Denied(), plan)


def test_a_cluster_that_was_just_created_may_grant_rights_late(plan):
    reviews = Reviews(granted_from=3)
    reviews.new_until = monotonic_seconds() + 60
    check_rights(reviews, plan, 0.0)
    assert set(reviews.asked.values()) == {3}


@pytest.fixture
def made(tmp_path, cluster):
    with cluster(nodes=1, root=tmp_path) as running:
        yield running


@pytest.fixture
def api(made):
    with connect_by_token(made.url, made.ca.read_text(), made.token) as client:
        yield ClusterApi(client)


def two_gpus(plan_of, seconds=0.2):
    return plan_of(
        workers={"nodes": 2, "accelerator": "V100", "accelerators_per_node": 8},
        gang_timeout_seconds=seconds,
    )


def test_only_nodes_of_the_run_are_its_nodes(made, api):
    made.add_node("ours", labels={RUN: "gan"})
    made.add_node("others", labels={RUN: "other"})
    found = list_nodes(api, "gan")
    assert [node.name for node in found] == ["ours"]
    assert found[0].started_at is not None


def test_it_waits_until_each_node_shows_its_accelerators(made, api, plan_of):
    made.add_node("one", gpus=8, labels={RUN: "gan"})
    made.add_node("small", gpus=1, labels={RUN: "gan"})
    said = []

    def say(line):
        said.append(line)
        made.add_node("two", gpus=8, labels={RUN: "gan"})

    api.say = say
    wait_for_nodes(api, two_gpus(plan_of, 20), 0.01)
    assert said == [
        "1 of 2 ready nodes show nvidia.com/gpu: the driver or its device plugin is not ready"
    ]


def test_nodes_that_do_not_come_in_time_are_no_capacity(made, api, plan_of):
    made.add_node("one", gpus=8, labels={RUN: "gan"})
    with pytest.raises(CapacityError, match="1 of 2 nodes ready after 0 s; reduce --nodes"):
        wait_for_nodes(api, two_gpus(plan_of), 0.01)


def test_a_node_that_is_not_ready_does_not_count(made, api, plan_of):
    made.add_node("one", labels={RUN: "gan"})
    made.lose_node("one", remove_seconds=60)
    made.wait_for(
        lambda: made.find("nodes", None, "one")["status"]["conditions"][0]["status"] != "True"
    )
    with pytest.raises(CapacityError, match="0 of 1 node ready"):
        wait_for_nodes(api, plan_of(gang_timeout_seconds=0.1), 0.01)


def test_the_step_says_what_is_waited_for(plan_of):
    assert wait_step(plan_of()).ensure == "1 node ready"
    assert wait_step(two_gpus(plan_of)).ensure == "2 nodes ready with 8 nvidia.com/gpu"


def test_a_token_that_expired_is_renewed_for_the_next_request(made):
    tokens = iter([made.token(seconds=0.0), made.token(), made.token()])
    with connect_by_token(made.url, made.ca.read_text(), lambda: next(tokens)) as client:
        assert list_nodes(ClusterApi(client), "gan") == ()
