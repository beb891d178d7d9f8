"""Nodes that wait for the next run on AKS: a Job holds them, and the autoscaler ends them after it."""

from __future__ import annotations

import pytest

from crashing import AT_EACH, DIED, run_killed
from launch.clouds import kept
from launch.clouds.azure.test_crash import bills


def run_on_nodes(lab, name, folder="runs"):
    provider = lab.provider()
    plan, log = kept.started(kept.keeping(lab.plan(name=name)), provider, lab.folder / folder)
    return plan, kept.finished(plan, provider, log)


def pools(lab):
    return [one for one in lab.azure.arm.held() if "/agentpools/" in one.lower()]


def down(lab):
    for run in ("one", "two"):
        list(lab.provider().destroy(run))
    return len(bills(lab))


def test_a_second_run_uses_the_nodes_of_the_first_and_down_deletes_them(lab):
    first, attempt = run_on_nodes(lab, "one")
    assert attempt.kept.nodes == 1
    there = pools(lab)
    second, attempt = run_on_nodes(lab, "two")
    assert pools(lab) == there, "no new pool"
    assert second.node_pool.name == first.node_pool.name
    (node,) = attempt.nodes
    assert node.started_at == second.node_pool.reused.since
    (cluster,) = lab.azure.aks.clusters.values()
    hold = cluster.find("jobs", "cloudgan", "two-keep")
    assert hold["spec"]["activeDeadlineSeconds"] == 1800
    pod = hold["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloudgan-run": "one"}
    assert "nvidia.com/gpu" in {one["key"] for one in pod["tolerations"]}
    assert down(lab) == 0


@pytest.mark.slow
@AT_EACH
def test_a_deploy_on_waiting_nodes_that_is_killed_leaves_nothing_after_down(lab, tmp_path, at_each):
    def program(number):
        return lambda: run_on_nodes(lab, "two", f"runs-{number}")

    run_on_nodes(lab, "one")
    whole = run_killed(program("whole"), tmp_path)
    assert whole.code == 0, whole.said
    assert down(lab) == 0
    crashes = kept.crash_moments(whole.calls, at_each=at_each)
    for turn, (number, when) in enumerate(crashes):
        run_on_nodes(lab, "one", f"first-{turn}")
        done = run_killed(program(turn), tmp_path, number, when)
        assert done.code == DIED, done.said
        assert down(lab) == 0, (done.calls[-1], when)
    print(f"\nazure, waiting nodes: {len(crashes)} crashes, 0 left after down")
