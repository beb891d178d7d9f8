"""Runs on a cluster, by the official client with exactly the rights that deploy/kubernetes grants."""

from __future__ import annotations

import json
import sys
import threading
import time

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
from cloudgan.launching.ending import raise_for
from cloudgan.launching.following import Follower
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.log_merging import merged
from cloudgan.launching.starting import start
from cloudgan.providers.kubernetes.provider import KubernetesProvider
from cloudgan.run_folder import RunFolder
from providers.kubernetes.lab import IMAGE, NAMESPACE, plan_of

LETS_IN = "of-the-registry"


@pytest.fixture
def ledger(tmp_path):
    return lambda plan: Ledger(RunFolder(tmp_path / "runs" / plan.run), plan)


@pytest.fixture
def begin(ledger):
    """Starts a plan in a lab."""

    def run(lab, plan):
        return start(plan, lab.provider, ledger(plan), lab.said.append)

    return run


@pytest.fixture
def follow():
    """Follows a plan to its end in a lab."""

    def run(lab, plan, **options):
        seen = []
        follower = Follower(lab.provider, plan, lab.said.append, seen.append, **options)
        return follower.follow()

    return run


def running(lab, plan):
    """Waits until all workers run."""
    for index in range(plan.workers.nodes):
        lab.pod(plan.run, index)


def finish(lab, plan):
    for index in range(plan.workers.nodes):
        lab.tell(plan.run, index, "0")


def test_a_run_is_made_followed_and_removed_without_a_trace(lab, begin, follow, ledger):
    plan = plan_of()
    lab.provider.check(plan)
    assert begin(lab, plan)
    running(lab, plan)
    finish(lab, plan)
    state = follow(lab, plan)
    assert state.phase == "finished"
    assert [worker.phase for worker in state.workers] == ["done", "done"]
    assert state.began
    assert state.ended
    sent = [request.operation for request in ledger(plan).read().attempts[0].requests]
    assert [one.rpartition("/")[2] for one in sent] == [
        "configmaps",
        "networkpolicies",
        "services",
        "jobs",
    ]
    assert lab.provider.runs() == ("gan",)
    assert len(list(lab.provider.remove("gan"))) == 4
    assert lab.left() == []
    assert list(lab.provider.remove("gan")) == []
    assert lab.provider.state("gan").phase == "absent"


def test_the_lines_of_all_workers_are_followed_to_the_end(lab, begin):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    threading.Timer(0.5, finish, (lab, plan)).start()
    lines = [(line.index, line.text) for line in merged(lab.provider, "gan", follow=True)]
    wanted = [(rank, text) for rank in (0, 1) for text in (f"worker {rank} of 2", "told to 0")]
    assert sorted(lines) == sorted(wanted)
    again = [(line.index, line.text) for line in merged(lab.provider, "gan", follow=False)]
    assert sorted(again) == sorted(wanted)


def test_a_second_deploy_makes_nothing(lab, begin):
    plan = plan_of()
    assert begin(lab, plan)
    made = lab.left()
    assert not begin(lab, plan)
    running(lab, plan)
    assert len([one for one in lab.left() if one.startswith("jobs/")]) == 1
    assert set(made) <= set(lab.left())


def test_another_machine_finds_the_run_by_its_name_alone(lab, begin):
    begin(lab, plan_of())
    found = lab.provider.intent("gan")
    assert found is not None
    assert found.model_copy(update={"steps": ()}) == plan_of().model_copy(update={"steps": ()})
    assert lab.provider.intent("other") is None


def test_the_same_name_with_other_settings_is_refused(lab, begin):
    begin(lab, plan_of())
    with pytest.raises(ConfigError, match=r"other settings.*cloudgan down gan"):
        begin(lab, plan_of(workers={"nodes": 1}))


def test_what_belongs_to_somebody_else_is_neither_used_nor_removed(lab, begin):
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gan"},
        "data": {"a": "b"},
    }
    lab.provider._api.create(path, body)
    with pytest.raises(ConfigError, match="no run's of cloudgan"):
        begin(lab, plan_of())
    assert list(lab.provider.remove("gan")) == []
    assert lab.left() == ["configmaps/gan"]


def test_an_evicted_pod_is_replaced_and_the_run_goes_on(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 1)
    lab.cluster.evict(NAMESPACE, before)
    lab.cluster.wait_for(
        lambda: (
            before
            not in [
                p["metadata"]["name"]
                for p in lab.pods("gan")
                if p["status"].get("phase") == "Running"
            ]
        )
    )
    assert lab.pod("gan", 1) != before
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_a_lost_node_costs_one_worker_and_the_run_goes_on(make_lab, begin, follow):
    lab, plan = make_lab(nodes=3), plan_of()
    begin(lab, plan)
    running(lab, plan)
    pod = next(p for p in lab.pods("gan") if p["metadata"]["name"] == lab.pod("gan", 0))
    lab.cluster.lose_node(pod["spec"]["nodeName"])
    lab.cluster.wait_for(
        lambda: any(
            p["metadata"]["name"].startswith("gan-0-")
            and p["spec"].get("nodeName") != pod["spec"]["nodeName"]
            and p["status"].get("phase") == "Running"
            for p in lab.pods("gan")
        )
    )
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_a_worker_that_says_try_again_is_replaced(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 0)
    lab.tell("gan", 0, "75")
    lab.cluster.wait_for(lambda: lab.pod("gan", 0) != before)
    finish(lab, plan)
    state = follow(lab, plan)
    assert state.phase == "finished"


def test_a_users_mistake_fails_the_run_at_once(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.tell("gan", 1, "2")
    state = follow(lab, plan)
    assert (state.phase, state.cause) == ("failed", "program")
    with pytest.raises(
        CloudganError, match=r"worker 1: it ended with exit code 2.*cloudgan logs gan"
    ):
        raise_for(state, plan, None)


def test_no_progress_in_three_restarts_is_told(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.tell("gan", 0, "76")
    state = follow(lab, plan)
    assert (state.phase, state.cause) == ("failed", "no progress")
    with pytest.raises(CloudganError, match="no newer checkpoint"):
        raise_for(state, plan, None)


def test_a_worker_out_of_memory_ends_the_run_with_what_to_type(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.cluster.oom(NAMESPACE, lab.pod("gan", 1))
    with pytest.raises(LaunchError, match=r"more memory than its limit.*--memory_gib=2"):
        follow(lab, plan)
    assert not lab.pods("gan")


def test_pods_of_a_private_image_show_the_secret_of_its_registry(lab, begin, follow):
    kubernetes = pytest.importorskip("kubernetes")
    lab.cluster.images[IMAGE] = lab.cluster.images[IMAGE]._replace(pull_secret=LETS_IN)
    secret = {"metadata": {"name": LETS_IN}, "type": "kubernetes.io/dockerconfigjson"}
    secret["stringData"] = {".dockerconfigjson": '{"auths": {}}'}
    kubeconfig = str(lab.kubeconfig.with_name("admin"))
    with kubernetes.config.new_client_from_config(kubeconfig) as admin:
        kubernetes.client.CoreV1Api(admin).create_namespaced_secret(NAMESPACE, secret)
    plan = plan_of(workers={"pull_secret": LETS_IN})
    begin(lab, plan)
    running(lab, plan)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"
    without = plan_of("without")
    begin(lab, without)
    with pytest.raises(LaunchError, match="cannot be pulled"):
        follow(lab, without, image_seconds=0.5)


def test_an_image_that_cannot_be_pulled_is_told_and_nothing_waits(lab, begin, follow):
    plan = plan_of(workers={"image": "registry.example/nothing:1"})
    begin(lab, plan)
    with pytest.raises(LaunchError, match=r"registry.example/nothing:1 cannot be pulled.*--image"):
        follow(lab, plan, image_seconds=0.5)
    assert not lab.pods("gan")
    list(lab.provider.remove("gan"))
    assert lab.left() == []


def test_workers_that_find_no_place_are_ended_after_the_gang_timeout(lab, begin, follow):
    plan = plan_of(workers={"cpus": 500}, gang_timeout_seconds=1.0)
    begin(lab, plan)
    with pytest.raises(CapacityError, match=r"only 0 of 2 workers.*Insufficient cpu"):
        follow(lab, plan)
    assert not lab.pods("gan")


def test_a_quota_that_is_used_up_is_told(lab, begin, follow):
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


def test_a_job_at_its_deadline_says_that_what_was_trained_is_kept(lab, begin, follow):
    plan = plan_of(max_hours=2 / 3600)
    begin(lab, plan)
    state = follow(lab, plan)
    assert (state.phase, state.cause) == ("failed", "deadline")
    with pytest.raises(CloudganError, match=r"kept.*--max_hours"):
        raise_for(state, plan, None)


def test_a_frozen_pod_is_killed_by_its_probe_and_replaced(make_lab, begin, follow):
    lab, plan = make_lab(probe_scale=0.01), plan_of()
    begin(lab, plan)
    running(lab, plan)
    before = lab.pod("gan", 1)
    lab.cluster.freeze(NAMESPACE, before)
    lab.cluster.wait_for(lambda: lab.pod("gan", 1) != before)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_an_api_server_that_is_away_is_waited_for(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.cluster.away(3)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"
    assert any("away" in line for line in lab.said)
    assert any("back" in line for line in lab.said)


def test_a_cut_watch_and_a_forgotten_history_are_taken_up_again(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    done = threading.Event()

    def disturb():
        for _ in range(5):
            lab.cluster.cut_watches()
            lab.cluster.forget_history()
            done.wait(0.2)
        finish(lab, plan)

    thread = threading.Thread(target=disturb)
    thread.start()
    assert follow(lab, plan).phase == "finished"
    thread.join()


@pytest.mark.parametrize("code", [429, 500, 503])
def test_answers_that_pass_are_asked_again(lab, begin, follow, code):
    plan = plan_of()
    lab.cluster.answer(code, times=3)
    begin(lab, plan)
    running(lab, plan)
    lab.cluster.answer(code, times=2)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


@pytest.mark.parametrize("kind", ["configmaps", "networkpolicies", "services", "jobs"])
def test_a_lost_answer_makes_nothing_twice(lab, begin, kind):
    plan = plan_of()
    lab.cluster.lose_answer(method="POST", path=f"/{kind}$")
    begin(lab, plan)
    assert len([one for one in lab.left() if one.startswith(f"{kind}/")]) == 1


@pytest.mark.parametrize("number", range(10))
def test_ctrl_c_at_any_request_leaves_what_down_removes_and_deploy_completes(
    lab, begin, monkeypatch, number
):
    plan = plan_of()
    api, asked = lab.provider._api, []
    real = api._once

    def interrupted(*arguments):
        asked.append(arguments)
        acted = len(asked) > 1 and number % 2 == 1
        if len(asked) == number + 1:
            if acted:
                real(*arguments)  # the server acted, and we never heard
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(api, "_once", interrupted)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        begin(lab, plan)
    monkeypatch.setattr(api, "_once", real)
    if number < 5:
        list(lab.provider.remove("gan"))
        assert lab.left() == []
    else:
        begin(lab, plan)
        running(lab, plan)
        assert len([one for one in lab.left() if one.startswith("jobs/")]) == 1


def test_a_half_deleted_run_is_waited_for_and_told_where_it_does_not_go(lab, begin):
    """A finalizer holds the Service, as a load balancer's controller does."""
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    path = f"/api/v1/namespaces/{NAMESPACE}/services/gan"
    administrator = admin(lab)
    administrator.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    impatient = KubernetesProvider(lab.provider._api, NAMESPACE, gone_seconds=1.0)
    with pytest.raises(LaunchError, match="does not go away"):
        list(impatient.remove("gan"))
    release = threading.Timer(1.0, administrator.patch, (path, {"metadata": {"finalizers": None}}))
    release.start()
    assert begin(lab, plan)
    running(lab, plan)
    release.join()
    list(lab.provider.remove("gan"))
    assert lab.left() == []


def test_a_stopped_run_goes_on_when_it_is_deployed_again(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)
    running(lab, plan)
    lab.provider.stop("gan")
    assert lab.provider.state("gan").phase == "stopped"
    assert not lab.pods("gan")
    assert begin(lab, plan)
    running(lab, plan)
    finish(lab, plan)
    assert follow(lab, plan).phase == "finished"


def test_a_login_without_a_right_is_told_which_one(make_lab, begin):
    lab = make_lab(roles=("clusterrole",))
    with pytest.raises(CredentialsError, match=r"may not.*create jobs.*role.yaml"):
        lab.provider.check(plan_of())
    assert lab.left() == []


def test_a_login_that_may_not_look_at_nodes_is_warned_and_can_launch(make_lab, begin):
    lab = make_lab(roles=("role",))
    assert "may not look at nodes" in " ".join(lab.provider.check(plan_of()))
    begin(lab, plan_of())
    running(lab, plan_of())


def test_a_login_that_is_not_accepted_is_told(lab, monkeypatch):
    lab.provider._api._client.configuration.api_key["BearerToken"] = "Bearer old"
    lab.provider._api._client.configuration.refresh_api_key_hook = None
    with pytest.raises(CredentialsError, match="Log in again"):
        lab.provider.check(plan_of())


def test_an_accelerator_that_the_cluster_lacks_is_refused_with_what_it_has(make_lab):
    lab = make_lab(gpus=2)
    lab.provider.check(plan_of(workers={"accelerator": "v100", "accelerators_per_node": 2}))
    wanted = plan_of(workers={"accelerator": "v100", "accelerators_per_node": 8})
    with pytest.raises(PlanError, match=r"room for 0: node-0 has 2 x"):
        lab.provider.check(wanted)
    with pytest.raises(PlanError, match="pool=gpu"):
        lab.provider.check(plan_of(workers={"node_selector": {"pool": "gpu"}}))


def test_a_gang_is_asked_for_only_where_the_cluster_has_gangs(make_lab):
    def gang(lab):
        body = lab.provider.steps(plan_of())[-1].body
        return "scheduling" in body["spec"]

    assert gang(make_lab(gang=True, version="1.37"))


def test_no_gang_is_asked_for_elsewhere(lab):
    assert "scheduling" not in lab.provider.steps(plan_of())[-1].body["spec"]


def test_a_queue_needs_kueue(lab):
    place = plan_of().place.model_copy(update={"queue": "physics"})
    with pytest.raises(ConfigError, match="no Kueue"):
        lab.provider.check(plan_of(place=place))


def test_a_claim_that_is_not_there_is_told(lab):
    with pytest.raises(ConfigError, match="no such claim"):
        lab.provider.check(plan_of(store="pvc:nothing"))


def test_a_token_is_renewed_when_it_expires(lab, begin, tmp_path, monkeypatch):
    """The login program gives tokens of two seconds; following outlives them."""
    from cloudgan.kubernetes.access import connect
    from cloudgan.kubernetes.api import ClusterApi

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
        provider = KubernetesProvider(ClusterApi(client), NAMESPACE)
        until = time.monotonic() + 4.5
        while time.monotonic() < until:
            assert provider.state("gan").phase == "absent"
            time.sleep(0.3)
    assert len(list(tokens.iterdir())) < 11


def admin(lab):
    from cloudgan.kubernetes.access import connect
    from cloudgan.kubernetes.api import ClusterApi

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(lab.kubeconfig.with_name("admin")))
        return ClusterApi(connect(None))
