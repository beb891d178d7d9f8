"""Killed at any call, and nodes that wait for the next run: `down` leaves nothing in the account."""

import contextlib
import datetime as dt
import itertools

import pytest

from cloudgan.core.clock import utc_moment
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.launch.lifecycle.apply import deprovision
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.operations.inventory import OrphanDetector, RunView
from cloudgan.launch.plan.build import all_steps
from crashing import AT_EACH, DIED, moments
from launch.clouds.lab import opened

DEVICE_PLUGIN = "/apis/apps/v1/namespaces/kube-system/daemonsets/cloudgan-device-plugin"
ALL = pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])


@pytest.fixture
def fresh(cluster, tmp_path):
    """Opens accounts after `setup` with one test cluster, which is empty at the end of each."""
    numbers = itertools.count()
    client = connect_by_token(cluster.url, cluster.ca.read_text(), cluster.token)

    @contextlib.contextmanager
    def account(cloud):
        with opened(cloud, tmp_path / f"account-{next(numbers)}", cluster) as lab:
            lab.reserved = lab.reserve() or None
            yield lab
        # With a cluster of the cloud its objects go.
        for path in ("/api/v1/namespaces/cloudgan", DEVICE_PLUGIN):
            ClusterApi(client).delete(path)
        cluster.wait_for(lambda: not cluster.find("namespaces", None, "cloudgan"))

    yield account
    client.close()


def keeping(plan, seconds=1800.0):
    """Returns a plan whose nodes wait for the next run."""
    pool = plan.node_pool.model_copy(update={"keep_seconds": seconds, "served_runs": 2})
    plan = plan.model_copy(update={"node_pool": pool})
    return plan.model_copy(update={"steps": all_steps(plan)})


def begin(lab, name):
    """Starts a run, on nodes that wait for it or on its own."""
    launcher = lab.launcher()
    plan = launcher.on_kept_nodes(keeping(lab.plan(name=name)))
    plan = plan.model_copy(update={"steps": launcher.steps(plan)})
    return plan, lab.start(plan)


def run(lab, name):
    """Starts a run that keeps its nodes, and ends it as `deploy` does; returns its newest attempt."""
    plan, log = begin(lab, name)
    deprovision(lab.launcher(), log, "finished", lab.said.append)
    return plan, log.read().attempts[-1]


def killed(lab, program, number, when):
    """Kills a program, or runs it to its end where it polls less often than before."""
    died = lab.killed(program, number, when)
    assert died.code == DIED or (died.code == 0 and len(died.calls) <= number), died.said
    return died


def without_objects(calls, found):
    """Leaves out the moments after a run's objects in the cluster other than its last, the Job.

    They are created in the same way on each cloud, so the tests kill a run at each of them on one.
    """
    return [
        (number, when)
        for number, when in found
        if number == 0
        or calls[number].endswith(("/jobs", "/configmaps"))
        or not any(part in calls[number] for part in ("/api/", "/apis/"))
    ]


def pools_of(lab):
    return [one for one in lab.left() if "pool" in one or "node group" in one]


@pytest.mark.parametrize("cloud", [pytest.param("aws", marks=pytest.mark.slow), "azure", "gcp"])
@AT_EACH
def test_resources_of_a_killed_deploy_are_found_and_deleted(fresh, cloud, at_each):
    def program(lab):
        lab.deploy(reservation=lab.reserved)

    with fresh(cloud) as lab:
        whole = lab.killed(program)
        assert whole.code == 0, whole.said
        assert lab.listed() == lab.left() != []
        assert (lab.down(), lab.in_cluster()) == ([], [])
    crashes, found = moments(whole.calls, at_each=at_each), 0
    if cloud != "gcp" and not at_each:
        crashes = without_objects(whole.calls, crashes)
    for number, when in crashes:
        with fresh(cloud) as lab:
            died = killed(lab, program, number, when)
            where = f"call {number} {when}: {died.calls[-1]}"
            assert lab.listed() == lab.left(), where
            found += len(lab.left())
            assert (lab.down(), lab.in_cluster()) == ([], []), where
    assert found


@pytest.mark.slow
@ALL
@AT_EACH
def test_a_killed_deploy_on_waiting_nodes_leaves_nothing_after_down(fresh, cloud, at_each):
    def program(lab):
        run(lab, "two")

    with fresh(cloud) as lab:
        run(lab, "one")
        pools = pools_of(lab)
        whole = lab.killed(program)
        assert whole.code == 0, whole.said
        assert pools_of(lab) == pools, "no new pool"
        assert lab.down("one", "two") == []
    crashes = without_objects(whole.calls, moments(whole.calls, at_each=False))
    # The last change makes the nodes wait again.
    for number, when in crashes if at_each else crashes[-1:]:
        with fresh(cloud) as lab:
            run(lab, "one")
            died = killed(lab, program, number, when)
            assert lab.down("one", "two") == [], f"call {number} {when}: {died.calls[-1]}"


@pytest.mark.slow
@ALL
def test_a_second_run_uses_the_nodes_of_the_first_and_down_deletes_them(fresh, cloud):
    with fresh(cloud) as lab:
        before = utc_moment()
        first, attempt = run(lab, "one")
        (node,) = attempt.nodes
        assert (attempt.kept.nodes, attempt.kept.until - attempt.kept.since) == (
            1,
            dt.timedelta(minutes=30),
        )
        assert node.terminated_at >= attempt.kept.since >= before, "waiting follows the run"
        assert lab.launcher().state("one").reason.startswith("its nodes wait for the next run")
        pools = pools_of(lab)
        second, attempt = run(lab, "two")
        assert pools_of(lab) == pools, "no new pool"
        assert second.node_pool.name == first.node_pool.name
        assert (second.node_pool.reused.run, second.node_pool.reused.previous) == ("one", "one")
        (node,) = attempt.nodes
        assert node.started_at == second.node_pool.reused.since, "not billed to it before"
        third = lab.launcher().on_kept_nodes(keeping(lab.plan(name="three")))
        assert (third.node_pool.reused.run, third.node_pool.reused.previous) == ("one", "two")
        if cloud == "aws":
            lab.aws.pass_time(51 * 60)
            assert lab.aws.state.groups()[0].machines == [], "without a launcher"
        else:
            hold = lab.cluster.find("jobs", "cloudgan", "two-keep")["spec"]
            assert hold["activeDeadlineSeconds"] == 1800
            assert hold["template"]["spec"]["nodeSelector"] == {"cloudgan-run": "one"}
            assert "nvidia.com/gpu" in {
                one["key"] for one in hold["template"]["spec"]["tolerations"]
            }
        assert lab.down("two") == [], "at once, the nodes of run one and their cluster included"


@pytest.mark.slow
def test_nodes_of_another_shape_or_in_use_are_not_taken(fresh):
    with fresh("gcp") as lab:
        first, _ = run(lab, "one")
        others = {
            "two nodes": keeping(lab.plan(name="two", nodes=2)),
            "spot": keeping(lab.plan(name="two", market="spot")),
            "other type": keeping(lab.plan("n1-standard-8+1xV100", name="two")),
            "without --keep-nodes": lab.plan(name="two"),
        }
        for why, plan in others.items():
            assert lab.launcher().on_kept_nodes(plan) == plan, why
        begin(lab, "two")
        plan = keeping(lab.plan(name="three"))
        assert lab.launcher().on_kept_nodes(plan) == plan, "in use"
        assert f"pool {first.node_pool.name}" in lab.down("one"), "run two uses it"
        assert (lab.down("two"), lab.in_cluster()) == ([], [])


@pytest.mark.slow
def test_waiting_nodes_are_expected_and_taken_until_they_end(fresh, monkeypatch):
    with fresh("gcp") as lab:
        run(lab, "one")
        runs = {"one": RunView("one", RunRegistry(lab.store(), "").read("one"), is_alive=False)}
        resources = lab.cloud().list_resources()

        def judged(minutes):
            detector = OrphanDetector(runs, utc_moment() + dt.timedelta(minutes=minutes))
            found = detector.classify(resources)
            return {one.kind: status for one, status in found if one.kind.startswith("GKE")}

        pool = judged(20)["GKE node pool"]
        assert pool.state == judged(20)["GKE cluster"].state == "expected"
        assert "waits for the next run until" in pool.reason
        assert {one.state for one in judged(40).values()} == {"orphaned"}
        plan, later = keeping(lab.plan(name="two")), utc_moment() + dt.timedelta(minutes=29)
        monkeypatch.setattr(
            "cloudgan.launch.lifecycle.provisioned_backend.utc_moment", lambda: later
        )
        assert lab.launcher().on_kept_nodes(plan) == plan
        monkeypatch.undo()
        assert lab.down("one") == []


@pytest.mark.slow
def test_a_run_that_fails_keeps_no_nodes(fresh):
    with fresh("gcp") as lab:
        plan, _ = begin(lab, "one")
        list(lab.launcher().deprovision(plan.run, "failed"))
        assert lab.left() == []
