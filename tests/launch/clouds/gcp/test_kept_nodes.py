"""Nodes that wait for the next run on GKE: a Job holds them, and the autoscaler ends them after it."""

# ruff: noqa: F811  fixtures of another module
from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.clock import utc_moment
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.operations.inventory import OrphanDetector, RunView
from cloudgan.storage.folder import FolderStore
from crashing import AT_EACH, DIED, run_killed
from launch.clouds import kept
from launch.clouds.gcp.lab import cloud_of, gcp_plan, known
from launch.clouds.gcp.test_crashes import cluster, lab_of  # noqa: F401  fixtures
from launch.clouds.kept import finished, keeping, started

pytestmark = pytest.mark.slow


def plan_of(lab, name):
    return keeping(known(cloud_of(lab.google, lab.token), gcp_plan(name=name)))


def run_on_nodes(lab, name):
    plan, log = started(plan_of(lab, name), lab.provider(), lab.folder)
    return plan, log, finished(plan, lab.provider(), log)


def created(lab):
    return [one for one in lab.google.server.methods() if one.endswith("nodePools.create")]


def test_a_second_run_uses_the_nodes_of_the_first_and_down_deletes_them(lab_of):
    with lab_of() as lab:
        before = utc_moment()
        first, _, attempt = run_on_nodes(lab, "one")
        (node,) = attempt.nodes
        assert (attempt.kept.nodes, attempt.kept.until - attempt.kept.since) == (
            1,
            dt.timedelta(minutes=30),
        )
        assert node.terminated_at >= attempt.kept.since >= before, "waiting follows the run"
        hold = lab.cluster.find("jobs", "cloudgan", "one-keep")
        assert hold["spec"]["activeDeadlineSeconds"] == 1800
        assert hold["spec"]["template"]["spec"]["nodeSelector"] == {"cloudgan-run": "one"}
        assert lab.list_resources() == ["cluster cloudgan", f"pool {first.node_pool.name}"]
        assert lab.provider().state("one").reason.startswith("its nodes wait for the next run")

        second, _, attempt = run_on_nodes(lab, "two")
        assert len(created(lab)) == 1, "no new pool"
        assert second.node_pool.name == first.node_pool.name
        assert (second.node_pool.reused.run, second.node_pool.reused.previous) == ("one", "one")
        (node,) = attempt.nodes
        assert node.started_at == second.node_pool.reused.since, "not billed to it before"
        third = lab.provider().on_kept_nodes(plan_of(lab, "three"))
        assert (third.node_pool.reused.run, third.node_pool.reused.previous) == ("one", "two")
        list(lab.provider().destroy("two"))
        assert lab.google.left() == [], "at once, the nodes of run one and their cluster included"


def test_nodes_of_another_shape_or_in_use_are_not_taken(lab_of):
    with lab_of() as lab:
        first, *_ = run_on_nodes(lab, "one")
        provider = lab.provider()
        cloud = cloud_of(lab.google, lab.token)
        others = {
            "two nodes": gcp_plan(name="two", nodes=2),
            "spot": gcp_plan(name="two", market="spot"),
            "other type": gcp_plan("n1-standard-8+1xV100", name="two"),
        }
        for why, plan in others.items():
            plan = keeping(known(cloud, plan))  # noqa: PLW2901
            assert provider.on_kept_nodes(plan) == plan, why
        without = known(cloud, gcp_plan(name="two"))
        assert provider.on_kept_nodes(without) == without, "without --keep-nodes"
        started(plan_of(lab, "two"), provider, lab.folder)
        plan = plan_of(lab, "three")
        assert lab.provider().on_kept_nodes(plan) == plan, "in use"
        list(lab.provider().destroy("one"))
        assert f"pool {first.node_pool.name}" in lab.google.left(), "run two uses it"
        list(lab.provider().destroy("two"))
        assert (lab.google.left(), lab.in_cluster()) == ([], [])


def test_the_doctor_expects_waiting_nodes_until_they_end(lab_of):
    with lab_of() as lab:
        run_on_nodes(lab, "one")
        registry = RunRegistry(FolderStore(lab.folder / "store"), "a test")
        runs = {"one": RunView("one", registry.read("one"), is_alive=False)}
        resources = cloud_of(lab.google, lab.token).list_resources()

        def judged(minutes):
            detector = OrphanDetector(runs, utc_moment() + dt.timedelta(minutes=minutes))
            found = detector.classify(resources)
            return {one.kind: status for one, status in found if one.kind.startswith("GKE")}

        pool = judged(20)["GKE node pool"]
        assert pool.state == "expected"
        assert "waits for the next run until" in pool.reason
        assert judged(20)["GKE cluster"].state == "expected"
        assert {one.state for one in judged(40).values()} == {"orphaned"}
        list(lab.provider().destroy("one"))


def test_a_run_that_fails_keeps_no_nodes(lab_of):
    with lab_of() as lab:
        plan, _ = started(plan_of(lab, "one"), lab.provider(), lab.folder)
        list(lab.provider().deprovision(plan.run, "failed"))
        assert lab.google.left() == []
        list(lab.provider().destroy("one"))


@AT_EACH
def test_a_deploy_on_waiting_nodes_that_is_killed_leaves_nothing_after_down(
    lab_of, capsys, at_each
):
    def program(lab):
        def run():
            run_on_nodes(lab, "two")

        return run

    with lab_of() as lab:
        run_on_nodes(lab, "one")
        whole = run_killed(program(lab), lab.folder)
        assert whole.code == 0, whole.said
        assert len(created(lab)) == 1
        down(lab)
    crashes, left = kept.crash_moments(whole.calls, at_each=at_each), 0
    for number, when in crashes:
        with lab_of() as lab:
            run_on_nodes(lab, "one")
            outcome = run_killed(program(lab), lab.folder, number, when)
            assert outcome.code == DIED, outcome.said
            left += down(lab)
            assert not left, f"call {number} {when}: {outcome.calls[-1]}"
    with capsys.disabled():
        print(f"\ngcp, waiting nodes: {len(crashes)} crashes, {left} left after down")


def down(lab):
    for run in ("one", "two"):
        list(lab.provider().destroy(run))
    return len(lab.google.left())  # without a cluster, nothing is in it


def test_a_run_after_the_waiting_creates_its_own_nodes(lab_of, monkeypatch):
    with lab_of() as lab:
        run_on_nodes(lab, "one")
        plan = plan_of(lab, "two")
        later = utc_moment() + dt.timedelta(minutes=29)
        monkeypatch.setattr(
            "cloudgan.launch.lifecycle.provisioned_backend.utc_moment", lambda: later
        )
        assert lab.provider().on_kept_nodes(plan) == plan
        list(lab.provider().destroy("one"))
