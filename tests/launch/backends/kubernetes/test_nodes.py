"""Nodes of a run, as a real client reads them from a cluster."""

import pytest

from cloudgan.core.errors import CapacityError
from cloudgan.core.labels import RUN
from cloudgan.launch.backends.kubernetes.checks import list_nodes, wait_for_nodes, wait_step

pytest.importorskip("kubernetes", reason="needs pip install '.[kubernetes]'")

from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token


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
