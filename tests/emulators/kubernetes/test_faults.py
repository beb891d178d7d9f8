"""Injected faults between a client and the API."""

from __future__ import annotations

import threading
import time

import pytest
import urllib3
from kubernetes import client, watch
from kubernetes.client import ApiException


@pytest.fixture
def once(connect):
    """A client that sends each request once."""
    return client.CoreV1Api(connect(retries=False))


def body(name):
    return {"metadata": {"name": name}}


def test_planned_answers_meet_the_next_requests_that_match(cluster, once):
    cluster.answer(429, method="POST", path="/configmaps$", times=2, retry_after_seconds=3)
    for _ in range(2):
        once.list_namespaced_config_map("default")
        with pytest.raises(ApiException) as refused:
            once.create_namespaced_config_map("default", body("a"))
        assert refused.value.status == 429
        assert refused.value.headers["Retry-After"] == "3"
        assert '"reason": "TooManyRequests"' in refused.value.body
    once.create_namespaced_config_map("default", body("a"))


@pytest.mark.parametrize("code", [409, 410, 500, 503])
def test_any_code_can_be_an_answer(cluster, once, code):
    cluster.answer(code, path="/configmaps/a")
    with pytest.raises(ApiException) as refused:
        once.read_namespaced_config_map("a", "default")
    assert refused.value.status == code


def test_a_connection_is_reset_before_or_after_the_deed(cluster, once):
    cluster.answer(0, method="POST")
    with pytest.raises(urllib3.exceptions.HTTPError):
        once.create_namespaced_config_map("default", body("a"))
    assert cluster.find("configmaps", "default", "a") is None
    cluster.lose_answer(method="POST")
    with pytest.raises(urllib3.exceptions.HTTPError):
        once.create_namespaced_config_map("default", body("a"))
    assert cluster.find("configmaps", "default", "a")
    with pytest.raises(ApiException) as refused:
        once.create_namespaced_config_map("default", body("a"))
    assert refused.value.status == 409


def test_requests_are_listed_with_their_answers(cluster, connect):
    api = client.CoreV1Api(connect(cluster.token(user="ada", rules=[])))
    with pytest.raises(ApiException):
        api.create_namespaced_config_map("default", body("a"))
    (request,) = cluster.requests
    assert request == ("POST", "/api/v1/namespaces/default/configmaps", 403, "ada")


def test_while_the_api_is_away_pods_run_on_without_a_status_update(
    cluster, once, make_job, wait_for_phase, wait_for_job
):
    make_job(f"while [ ! -e {cluster.root}/go ]; do sleep 0.02; done; touch {cluster.root}/gone")
    wait_for_phase("Running", 2)
    cluster.away(0.6)
    with pytest.raises(urllib3.exceptions.HTTPError):
        once.list_namespaced_pod("default")
    (cluster.root / "go").touch()
    cluster.wait_for((cluster.root / "gone").exists)
    assert {pod["status"]["phase"] for pod in cluster.select("pods")} == {"Running"}
    assert wait_for_job()["type"] == "Complete"
    assert len(once.list_namespaced_pod("default").items) == 2, "at the address of before"


def test_open_watches_can_be_cut(cluster, once):
    version = once.list_namespaced_config_map("default").metadata.resource_version
    watcher, seen, ended = watch.Watch(), [], threading.Event()

    def follow():
        events = watcher.stream(
            once.list_namespaced_config_map,
            "default",
            resource_version=version,
            timeout_seconds=20,
        )
        try:
            seen.extend(event["object"].metadata.name for event in events)
        except urllib3.exceptions.HTTPError:
            ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    once.create_namespaced_config_map("default", body("a"))
    cluster.wait_for(lambda: seen == ["a"])
    cluster.cut_watches()
    assert ended.wait(10), "a watch that ends in the middle is no watch that is over"
    thread.join()


def test_a_token_ends(cluster, connect):
    api = client.CoreV1Api(connect(cluster.token(seconds=1)))
    api.list_namespaced_pod("default")
    time.sleep(1.05)
    with pytest.raises(ApiException) as refused:
        api.list_namespaced_pod("default")
    assert refused.value.status == 401
