"""Container logs, as clients read them."""

from __future__ import annotations

import pytest
from kubernetes import client


def test_logs_have_tails_and_can_be_followed(core, cluster, run_pod):
    run_pod(
        f"echo one; echo two; while [ ! -e {cluster.root}/go ]; do sleep 0.02; done; echo three"
    )
    cluster.wait_for(lambda: core.read_namespaced_pod("p", "default").status.phase == "Running")
    cluster.wait_for(lambda: "two" in cluster.log("default", "p"))
    assert core.read_namespaced_pod_log("p", "default", tail_lines=1) == "two\n"
    following = core.read_namespaced_pod_log("p", "default", follow=True, _preload_content=False)
    (cluster.root / "go").touch()
    assert following.read() == b"one\ntwo\nthree\n"
    following.release_conn()


def test_several_containers_need_a_name_for_their_logs(core, cluster):
    two = [{"name": name, "image": "busybox:1", "command": ["echo", name]} for name in ("a", "b")]
    spec = {"restartPolicy": "Never", "containers": two}
    core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": spec})
    cluster.wait_for(lambda: cluster.find("pods", "default", "p")["status"]["phase"] == "Succeeded")
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod_log("p", "default")
    assert "choose one of: [a b]" in refused.value.body
    assert core.read_namespaced_pod_log("p", "default", container="b") == "b\n"


def test_lines_have_times_where_they_are_asked_for(core, cluster, run_pod):
    run_pod("echo one two; echo three")
    cluster.wait_for(lambda: core.read_namespaced_pod("p", "default").status.phase == "Succeeded")
    lines = core.read_namespaced_pod_log("p", "default", timestamps=True).splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["one two", "three"]
    times = [line.partition(" ")[0] for line in lines]
    assert times == sorted(set(times))
    assert all(time.endswith("Z") for time in times)
