"""A run in a queue of Kueue: it waits for the quota, is preempted and resumed, and leaves nothing.

On the real control plane Kueue is a second program with its own webhooks.
"""

import threading
import time
from contextlib import closing

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, OpenPortsError
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.extensions import KUEUE
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.schema.plan import Target
from launch.backends.kubernetes.lab import NAMESPACE, admin, finish, plan_of, rules
from launch.backends.kubernetes.queues import LACKING, QUEUE, WORKLOADS, other_job, queue
from launch.backends.kubernetes.test_port_probe import NO_ENGINE, SUSPENDED, probed

QUEUED = Target(provider="kubernetes", namespace=NAMESPACE, queue=QUEUE)


@pytest.fixture
def lab(make_lab):
    lab = make_lab()
    with queue(lab.cluster):
        yield lab


def remove(lab, job):
    admin(lab).delete(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}")


def is_running(lab, job):
    return lambda: (lab.cluster.find("jobs", NAMESPACE, job).get("status") or {}).get("active")


def test_a_run_waits_for_the_quota_of_its_queue_says_so_and_leaves_nothing(lab, begin, follow):
    lab.cluster.put("jobs", other_job("other"))
    lab.cluster.wait_for(is_running(lab, "other"))
    plan = plan_of(target=QUEUED)
    lab.backend.check(plan)
    begin(lab, plan)
    waits = f"waits in queue {QUEUE} until Kueue admits it ({LACKING.format(1)})"
    lab.cluster.wait_for(lambda: lab.backend.state("gan").reason == waits)
    state = lab.backend.state("gan")
    assert (state.phase, state.workers, state.started_at) == ("waiting", (), None)
    assert not begin(lab, plan), "a second deploy creates nothing"
    remove(lab, "other")
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"
    assert waits not in lab.backend.state("gan").reason
    list(lab.backend.destroy("gan"))
    lab.cluster.wait_for(lambda: not lab.remaining() and not lab.cluster.select(WORKLOADS))


def test_a_run_that_waits_is_stopped_and_deleted(lab, begin):
    lab.cluster.put("jobs", other_job("other", cpus=2))
    lab.cluster.wait_for(is_running(lab, "other"))
    plan = plan_of(target=QUEUED)
    begin(lab, plan)
    lab.cluster.wait_for(lambda: LACKING.format(2) in lab.backend.state("gan").reason)
    lab.backend.stop("gan")
    assert lab.backend.state("gan").phase == "stopped"
    list(lab.backend.destroy("gan"))
    remove(lab, "other")
    lab.cluster.wait_for(lambda: not lab.remaining() and not lab.cluster.select(WORKLOADS))


def test_a_run_that_kueue_preempts_waits_again_and_is_resumed(lab, begin, follow):
    plan = plan_of(target=QUEUED)
    begin(lab, plan)
    first = [lab.pod("gan", index) for index in range(2)]
    lab.cluster.put("jobs", other_job("urgent", priority="urgent"))
    lab.cluster.wait_for(is_running(lab, "urgent"))
    lab.cluster.wait_for(lambda: "waits in queue" in lab.backend.state("gan").reason)
    assert lab.backend.state("gan").phase == "waiting"
    remove(lab, "urgent")
    assert not {lab.pod("gan", index) for index in range(2)} & set(first)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_the_deadline_of_a_preempted_run_counts_all_its_starts(lab, begin, follow):
    """The Job's own deadline would start again with each."""
    seconds = 16
    plan = plan_of(target=QUEUED, max_hours=seconds / 3600)
    assert plan.limits.deadline_seconds == seconds
    begin(lab, plan)
    for index in range(2):
        lab.pod("gan", index)
    time.sleep(seconds / 2)
    lab.cluster.put("jobs", other_job("urgent", priority="urgent"))
    lab.cluster.wait_for(is_running(lab, "urgent"))
    remove(lab, "urgent")
    lab.pod("gan", 0)
    resumed = time.monotonic()
    state = follow(lab, plan)
    assert time.monotonic() - resumed < seconds - 2
    assert (state.phase, state.cause) == ("failed", "deadline")
    lab.backend.clear("gan")
    assert lab.backend.state("gan").phase == "stopped", "a second deploy starts it anew"


def test_a_queue_that_the_namespace_lacks_is_refused_with_the_ones_that_it_has(lab):
    wanted = plan_of(target=QUEUED.model_copy(update={"queue": "chemistry"}))
    with pytest.raises(ConfigError, match=f"no such queue of Kueue; it has {QUEUE}"):
        lab.backend.check(wanted)


def test_a_login_without_rights_on_kueue_is_refused_with_them_and_sees_only_that_a_run_waits(
    lab, begin
):
    role, cluster_role = rules("role", "clusterrole")
    earlier = role | {"rules": [one for one in role["rules"] if KUEUE not in one["apiGroups"]]}
    token = lab.cluster.token(rules=[earlier, cluster_role])
    lab.cluster.put("jobs", other_job("other", cpus=2))
    lab.cluster.wait_for(is_running(lab, "other"))
    plan = plan_of(target=QUEUED)
    with closing(
        connect_by_token(lab.cluster.url, lab.cluster.ca.read_text(), lambda: token)
    ) as api:
        limited = KubernetesBackend(ClusterApi(api), NAMESPACE)
        limited.check(plan_of())
        with pytest.raises(CredentialsError, match="list localqueues, list workloads"):
            limited.check(plan)
        begin(lab, plan)
        waits = f"waits in queue {QUEUE} until Kueue admits it"
        lab.cluster.wait_for(lambda: limited.state("gan").reason == waits)


MANAGES_ALL = {"manageJobsWithoutQueueName": True}


def test_the_port_probe_waits_in_the_queue_of_its_run_longer_than_the_gang_timeout(make_lab, begin):
    """Also where Kueue manages every Job and every pod."""
    lab = make_lab(**NO_ENGINE)
    with queue(lab.cluster, **MANAGES_ALL):
        lab.cluster.put("jobs", other_job("other", cpus=2))
        lab.cluster.wait_for(is_running(lab, "other"))
        api, seconds = admin(lab), 6.0
        others = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/other"
        timer = threading.Timer(seconds, api.delete, [others])
        timer.start()
        plan = probed(target=QUEUED, gang_timeout_seconds=seconds / 2)
        with pytest.raises(OpenPortsError, match="does not enforce NetworkPolicy"):
            begin(lab, plan)
        timer.join()
        waits = f"Job gan-ports waits in queue {QUEUE} until Kueue admits it"
        assert lab.said.count(waits) == 1
        lab.cluster.wait_for(lambda: not lab.remaining() and not lab.cluster.select(WORKLOADS))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["real"], indirect=True)
def test_without_a_queue_the_port_probe_is_refused_where_kueue_manages_every_job(make_lab, begin):
    lab = make_lab()
    with queue(lab.cluster, **MANAGES_ALL):
        with pytest.raises(OpenPortsError, match=SUSPENDED):
            begin(lab, probed())
        lab.cluster.wait_for(lambda: not lab.remaining())
