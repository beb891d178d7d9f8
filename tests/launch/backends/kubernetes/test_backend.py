"""Runs on a cluster with exactly the permissions that deploy/kubernetes grants."""

import base64
import functools
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfigError,
    CredentialsError,
    Interrupted,
    LaunchError,
    PlanError,
)
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.lifecycle.log_merging import merge_logs
from cloudgan.launch.lifecycle.run_monitor import raise_for_outcome
from cloudgan.schema.plan import Target
from emulators.kubernetes.objects import Resource
from launch.backends.kubernetes.lab import NAMESPACE, ON_DOUBLE, admin, finish, plan_of

POLICY = Resource("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy")


def running(lab, plan):
    """Waits until all workers run."""
    for index in range(plan.workers.nodes):
        lab.pod(plan.run, index)


def job_of(lab):
    """Returns the Job among the steps of a run."""
    return next(step.body for step in lab.backend.steps(plan_of()) if step.body["kind"] == "Job")


def test_a_run_is_created_watched_and_deleted_completely(lab, begin, follow, launch_log):
    plan = plan_of()
    lab.backend.check(plan)
    assert begin(lab, plan)
    made = lab.remaining()
    assert not begin(lab, plan), "a second deploy creates nothing"
    running(lab, plan)
    assert [one for one in made if not one.startswith("pods/")] == [
        one for one in lab.remaining() if not one.startswith("pods/")
    ]
    finish(lab, plan)
    state = follow(lab, plan)
    assert state.phase == "finished"
    assert [worker.phase for worker in state.workers] == ["done", "done"]
    assert state.started_at
    assert state.ended_at
    sent = [request.operation for request in launch_log(plan).read().attempts[0].requests]
    assert [one.rpartition("/")[2] for one in sent] == [
        "configmaps",
        "networkpolicies",
        "services",
        "jobs",
        "secrets",
    ]
    assert lab.backend.list_runs() == ("gan",)
    assert len(list(lab.backend.destroy("gan"))) == 4
    assert lab.remaining() == []
    assert list(lab.backend.destroy("gan")) == []
    assert lab.backend.state("gan").phase == "absent"


def logs_of(lab, *, follow):
    sources = functools.partial(lab.backend.log_sources, "gan")
    return merge_logs(sources, lambda: lab.backend.state("gan").is_over, follow=follow)


def test_the_logs_of_all_workers_are_followed_to_the_end(lab, begin):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    threading.Timer(0.5, finish, (lab, plan)).start()
    lines = [(line.index, line.text) for line in logs_of(lab, follow=True)]
    wanted = [(rank, text) for rank in (0, 1) for text in (f"worker {rank} of 2", "exit with 0")]
    assert sorted(lines) == sorted(wanted)
    again = [(line.index, line.text) for line in logs_of(lab, follow=False)]
    assert sorted(again) == sorted(wanted)


def secrets_of(lab):
    return [
        base64.b64decode(one["data"]["key"]).decode()
        for one in lab.cluster.select("secrets", NAMESPACE)
        if one["metadata"]["name"] == "gan"
    ]


def test_a_run_has_a_secret_that_ends_with_its_job_and_that_the_launcher_cannot_read(lab, begin):
    plan = plan_of()
    begin(lab, plan)
    (first,) = secrets_of(lab)
    assert len(first) == 64
    others = ("configmaps", "jobs", "pods", "services")
    objects = [one for kind in others for one in lab.cluster.select(kind, NAMESPACE)]
    assert first not in json.dumps(objects)
    with pytest.raises(CredentialsError, match="secrets"):
        lab.backend._api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/gan")
    assert not begin(lab, plan)
    assert secrets_of(lab) == [first]
    lab.backend.stop("gan")
    assert (lab.backend.state("gan").phase, lab.pods("gan")) == ("stopped", [])
    assert secrets_of(lab) == []
    begin(lab, plan)
    (second,) = secrets_of(lab)
    assert second != first


def test_objects_without_the_runs_label_are_neither_used_nor_deleted(lab, begin):
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gan"},
        "data": {"a": "b"},
    }
    lab.backend._api.create(path, body)
    with pytest.raises(ConfigError, match="not managed by cloudgan"):
        begin(lab, plan_of())
    assert list(lab.backend.destroy("gan")) == []
    assert lab.remaining() == ["configmaps/gan"]


def test_a_field_that_the_cluster_does_not_know_is_refused_instead_of_dropped(lab):
    job = job_of(lab)
    job["spec"]["backoffLimitPerRank"] = 6
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    with pytest.raises(ConfigError, match=r'manifest.*unknown field "spec.backoffLimitPerRank"'):
        lab.backend._api.create(path, job)
    assert lab.remaining() == []


@pytest.mark.parametrize(
    "lose",
    [
        lambda lab, pod: lab.cluster.evict(NAMESPACE, pod["metadata"]["name"]),
        lambda lab, pod: lab.cluster.lose_node(pod["spec"]["nodeName"]),
    ],
    ids=["evicted", "its node is lost"],
)
def test_a_lost_worker_is_replaced_and_the_run_continues(make_lab, begin, follow, lose):
    lab, plan = make_lab(nodes=3), plan_of()
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 0)
    lose(lab, next(one for one in lab.pods("gan") if one["metadata"]["name"] == before))
    lab.cluster.wait_for(lambda: lab.pod("gan", 0) != before)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_an_error_of_the_program_fails_the_run_at_once(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.end_worker("gan", 1, "2")
    state = follow(lab, plan)
    assert (state.phase, state.cause) == ("failed", "program")
    named = r"worker 1 on node .*: its devices .*exit code 2.*cloudgan logs gan"
    with pytest.raises(CloudganError, match=named):
        raise_for_outcome(state, plan, None)


def test_an_exceeded_quota_is_a_capacity_error(lab, begin, follow):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    admin(lab).create(f"/api/v1/namespaces/{NAMESPACE}/resourcequotas", quota)
    plan = plan_of(gang_timeout_seconds=2.0)
    begin(lab, plan)
    with pytest.raises(CapacityError, match="exceeded quota"):
        follow(lab, plan)


def test_a_job_at_its_deadline_keeps_its_checkpoints(lab, begin, follow):
    plan = plan_of(max_hours=2 / 3600)
    begin(lab, plan)
    state = follow(lab, plan)
    assert (state.phase, state.cause) == ("failed", "deadline")
    with pytest.raises(CloudganError, match=r"checkpoints are in the store.*--max-hours"):
        raise_for_outcome(state, plan, None)


@ON_DOUBLE
@pytest.mark.slow
def test_a_frozen_pod_is_killed_by_its_probe_and_replaced(make_lab, begin, follow):
    lab, plan = make_lab(probe_scale=0.01), plan_of()
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 1)
    lab.cluster.freeze(NAMESPACE, before)
    lab.cluster.wait_for(lambda: lab.pod("gan", 1) != before)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


@ON_DOUBLE
def test_an_unreachable_api_server_is_retried(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.cluster.away(3)
    for index in range(2):
        lab.end_worker("gan", index, "0")
    assert follow(lab, plan).phase == "finished"
    assert any("unreachable" in line for line in lab.said)
    assert any("reachable again" in line for line in lab.said)


@ON_DOUBLE
def test_a_cut_watch_and_an_expired_resource_version_are_handled(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    done, cut, forget = threading.Event(), lab.cluster.cut_watches, lab.cluster.forget_history

    def disturb():
        for _ in range(5):
            cut()
            forget()
            done.wait(0.2)
        finish(lab, plan)

    thread = threading.Thread(target=disturb)
    thread.start()
    assert follow(lab, plan).phase == "finished"
    thread.join()


@ON_DOUBLE
@pytest.mark.parametrize("kind", ["configmaps", "networkpolicies", "services", "jobs"])
def test_a_lost_response_creates_no_duplicate(lab, begin, kind):
    plan = plan_of()
    lab.cluster.lose_answer(method="POST", path=f"/{kind}$")
    begin(lab, plan)
    assert len([one for one in lab.remaining() if one.startswith(f"{kind}/")]) == 1


@pytest.mark.parametrize("number", [0, 3, 6, 9])
def test_after_ctrl_c_at_any_request_down_deletes_and_deploy_completes(
    lab, begin, monkeypatch, number
):
    plan = plan_of()
    api, asked = lab.backend._api, []
    real = api._once

    def interrupted(*arguments):
        asked.append(arguments)
        acted = len(asked) > 1 and number % 2 == 1
        if len(asked) == number + 1:
            if acted:
                real(*arguments)  # the server acted, but its response is lost
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(api, "_once", interrupted)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        begin(lab, plan)
    monkeypatch.setattr(api, "_once", real)
    if number < 5:
        list(lab.backend.destroy("gan"))
        assert lab.remaining() == []
    else:
        begin(lab, plan)
        running(lab, plan)
        assert len([one for one in lab.remaining() if one.startswith("jobs/")]) == 1


def test_a_deletion_that_does_not_finish_is_an_error(lab, begin):
    """A finalizer holds the Service, as a load balancer's controller does."""
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    path = f"/api/v1/namespaces/{NAMESPACE}/services/gan"
    administrator = admin(lab)
    administrator.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    lab.backend.stop("gan")  # its pods may take longer than the impatient one waits
    impatient = KubernetesBackend(lab.backend._api, NAMESPACE, gone_seconds=1.0)
    with pytest.raises(LaunchError, match="does not finish"):
        list(impatient.destroy("gan"))
    release = threading.Timer(1.0, administrator.patch, (path, {"metadata": {"finalizers": None}}))
    release.start()
    assert begin(lab, plan)
    running(lab, plan)
    release.join()
    list(lab.backend.destroy("gan"))
    assert lab.remaining() == []


def test_a_run_that_is_being_stopped_starts_again_when_its_workers_have_ended(lab, begin):
    plan = plan_of(workers={"grace_seconds": 60})
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 0)
    folder = lab.store / "runs" / "gan"
    # A pod runs from the start of its process on, before Python could set the signal's handler.
    lab.cluster.wait_for(lambda: len(list(folder.glob("handles-*"))) == plan.workers.nodes)
    hold = folder / "hold"
    hold.touch()
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(lab.backend.stop, "gan")
        lab.cluster.wait_for(lambda: lab.backend.state("gan").phase == "stopping")
        starting = threads.submit(begin, lab, plan)
        try:
            lab.cluster.wait_for(
                lambda: starting.done() or "is being stopped" in " ".join(lab.said)
            )
        finally:
            hold.unlink()
        assert starting.result()
        stopping.result()
    assert "is being stopped" in " ".join(lab.said)
    running(lab, plan)
    assert lab.pod("gan", 0) != before


def test_a_missing_permission_is_named(make_lab, begin):
    lab = make_lab(roles=("clusterrole",))
    with pytest.raises(CredentialsError, match=r"missing permissions.*create jobs.*role.yaml"):
        lab.backend.check(plan_of())
    assert lab.remaining() == []


AGENT = [{"toEntities": ["host"], "toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}]}]


def test_where_cilium_runs_the_pods_of_a_run_reach_the_pod_identity_agent(make_lab, begin):
    lab = make_lab(cilium=True)
    plan = plan_of(store="s3://bucket/runs")
    lab.backend.check(plan)
    begin(lab, plan)
    (made,) = lab.cluster.select(POLICY, NAMESPACE)
    assert made["spec"] == {
        "endpointSelector": {"matchLabels": {"cloudgan-run": "gan"}},
        "egress": AGENT,
    }
    assert [one["metadata"]["name"] for one in lab.cluster.select("networkpolicies")] == ["gan"]
    begin(lab, plan)  # a second launcher finds it
    list(lab.backend.destroy("gan"))
    lab.cluster.wait_for(lambda: not lab.cluster.select(POLICY, NAMESPACE))
    assert lab.remaining() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"store": "gs://bucket/runs"},
        {"workers": {"kubernetes_secrets": ("s3-login",)}},
        {"store": "pvc:runs"},
    ],
    ids=str,
)
def test_pods_that_do_not_ask_the_agent_may_not_reach_it(changes):
    plan = plan_of(**{"store": "s3://bucket/runs"} | changes)
    assert not [step for step in plan.steps if step.ensure.startswith("CiliumNetworkPolicy")]


def test_without_cilium_no_right_to_its_policies_is_needed_and_none_is_made(make_lab, begin):
    lab = make_lab()
    plan = plan_of(store="s3://bucket/runs")
    assert [step for step in plan.steps if step.ensure == "CiliumNetworkPolicy gan"]
    lab.backend.check(plan)
    begin(lab, plan)
    list(lab.backend.destroy("gan"))
    assert lab.remaining() == []


def test_without_permission_to_list_nodes_a_launch_warns(make_lab, begin):
    lab = make_lab(roles=("role",))
    assert "no permission to list nodes" in " ".join(lab.backend.check(plan_of()))
    begin(lab, plan_of())
    running(lab, plan_of())


def test_a_missing_accelerator_is_refused_with_those_available(make_lab):
    lab = make_lab(gpus=2)
    lab.backend.check(plan_of(workers={"accelerator": "v100", "accelerators_per_node": 2}))
    wanted = plan_of(workers={"accelerator": "v100", "accelerators_per_node": 8})
    with pytest.raises(PlanError, match=r"room for 0: node-0 has 2 x"):
        lab.backend.check(wanted)
    with pytest.raises(PlanError, match="pool=gpu"):
        lab.backend.check(plan_of(workers={"node_selector": {"pool": "gpu"}}))


@pytest.mark.parametrize("options", [{}, {"gang": True}], ids=str)
def test_a_gang_is_requested_where_the_cluster_supports_gangs(make_lab, options):
    assert ("scheduling" in job_of(make_lab(**options))["spec"]) is bool(options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"store": "pvc:nothing"}, "no such PersistentVolumeClaim"),
        (
            {"target": Target(provider="kubernetes", namespace=NAMESPACE, queue="physics")},
            "no Kueue",
        ),
    ],
    ids=["claim", "queue"],
)
def test_what_the_cluster_does_not_have_is_refused_before_the_start(lab, change, message):
    with pytest.raises(ConfigError, match=message):
        lab.backend.check(plan_of(**change))


@ON_DOUBLE
def test_a_token_is_renewed_when_it_expires(lab, begin, tmp_path, monkeypatch):
    """The credential plugin returns tokens that are valid for two seconds."""
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect

    tokens = tmp_path / "tokens"
    tokens.mkdir()
    for number in range(12):
        (tokens / f"{number:02}").write_text(lab.cluster.token(seconds=2 + 2 * number))
    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable}\n"
        "import datetime, json, pathlib\n"
        f"folder = pathlib.Path({str(tokens)!r})\n"
        "first = sorted(folder.iterdir())[0]\n"
        "end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',\n"
        "  'kind': 'ExecCredential', 'status': {'token': first.read_text(),\n"
        "  'expirationTimestamp': end.strftime('%Y-%m-%dT%H:%M:%SZ')}}))\n"
        "first.unlink()\n"
    )
    program.chmod(0o755)
    content = yaml.safe_load(lab.kubeconfig.read_text())
    content["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(program),
            "interactiveMode": "Never",
        }
    }
    config = tmp_path / "exec-kubeconfig"
    config.write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(config))
    with connect(None) as client:
        backend = KubernetesBackend(ClusterApi(client), NAMESPACE)
        until = time.monotonic() + 4.5
        while time.monotonic() < until:
            assert backend.state("gan").phase == "absent"
            time.sleep(0.3)
    assert len(list(tokens.iterdir())) < 11
