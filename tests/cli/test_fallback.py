"""`deploy` without capacity: deletes its resources, reports in one sentence, and tries the next offer."""

import shutil

import pytest

from cli.provisioned import RUN
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.operations.targets import open_backend
from cloudgan.schema.run_state import RunState, WorkerState
from cloudgan.storage.folder import FolderStore
from launch.lifecycle.cloud_double import POOL, RulesDouble
from launch.lifecycle.place_double import PlaceDouble

V100 = ("--provider=gcp", "--accelerator=v100:8")
HERE = ("--region=us-central1",)
ON_DEMAND = ("--market=on_demand",)
SAME = (*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")


@pytest.fixture
def gcp(desk):
    return desk.doubles["gcp"]


def place_of(attempt):
    return attempt.provider, attempt.region, attempt.market


def test_a_run_that_finds_room_is_one_attempt_and_leaves_no_node(desk, gcp):
    desk.deploy(*V100, *HERE)
    (attempt,) = desk.attempts()
    assert place_of(attempt) == ("gcp", "us-central1", "spot")
    assert attempt.end_reason == "finished"
    assert attempt.price_rows[0].offer == "gcp/n1-standard-64+8xV100/us-central1/spot"
    assert desk.bill() == 0
    assert gcp.kinds() == ["bucket"], "its results stay in it"


@pytest.mark.parametrize(
    ("zones", "why", "refused", "flags", "exits"),
    [
        ("a", "no V100 to give", {}, HERE, 5),
        ("abc", "no V100", {"zone": "us-central1-b"}, ("--zone=us-central1-b",), 5),
        ("abc", "quota V100 is 0", {"cause": "quota"}, HERE, 5),
        ("abc", "no addresses left", {"how": "broken"}, ("--fallback=any",), 1),
    ],
    ids=["no fallback", "a requested zone", "missing quota", "another failure"],
)
def test_what_no_other_place_helps_ends_the_command_and_nothing_bills(
    *, desk, gcp, zones, why, refused, flags, exits
):
    gcp.zones = zones
    gcp.refuse(POOL, why, **refused)
    said = desk.deploy(*V100, *ON_DEMAND, *flags, exits=exits)
    assert why in said
    assert "Next zone" not in said
    (attempt,) = desk.attempts()
    assert attempt.end_reason == ("failed" if exits == 1 else f"failed: {why}")
    assert desk.bill() == 0


def test_without_fallback_a_market_that_was_named_is_kept(desk, gcp):
    gcp.refuse(POOL, "no spot V100 now", market="spot")
    desk.deploy(*V100, *HERE, "--market=spot", exits=5)
    assert {place_of(attempt) for attempt in desk.attempts()} == {("gcp", "us-central1", "spot")}
    assert desk.bill() == 0


@pytest.mark.parametrize("lack", ["quota", "unserved"])
def test_missing_quota_and_missing_machines_trigger_the_fallback_and_nothing_is_created_there(
    desk, gcp, lack
):
    getattr(gcp, lack)["us-central1"] = "ask for NVIDIA_V100_GPUS"
    desk.deploy(*SAME)
    regions = [attempt.region for attempt in desk.attempts()]
    assert (regions[0], regions[-1]) == ("us-central1", "us-east1")
    assert "NVIDIA_V100_GPUS" in desk.attempts()[0].end_reason
    assert not any("us-central1" in name for name in gcp.asked("create"))


@pytest.mark.parametrize("how", ["refused", "failed"])
def test_the_same_is_taken_elsewhere_and_all_is_noted(desk, gcp, how):
    gcp.refuse(POOL, "us-central1-a has no V100", how, region="us-central1")
    said = desk.deploy(
        *V100, *ON_DEMAND, "--nodes=2", "--fallback=same", "--region=us-central1,us-east1"
    )
    first, second, *rest = desk.attempts()
    while rest and second.region == "us-central1":  # another type of node with the same V100
        second, *rest = rest
    assert first.region == "us-central1"
    assert "has no V100" in first.end_reason
    assert (second.region, second.end_reason) == ("us-east1", "finished")
    assert {one.price_rows[0].accelerator_count for one in desk.attempts()} == {8}
    assert {one.node_count for one in desk.attempts()} == {2}
    reason = said.partition("gcp/n1-standard-64+8xV100/us-central1/on_demand: ")[2]
    reason = reason.partition("Next: ")[0]
    assert "us-central1-a has no V100" in reason
    assert "cloudgan down" not in reason, "that is done already"
    assert desk.bill() == 0
    assert not gcp.list_resources(RUN)


@pytest.mark.parametrize("how", ["refused", "failed", "never ready"])
def test_the_next_zone_is_tried_before_the_region_is_left(desk, gcp, how):
    gcp.zones = "abc"
    for zone in ("us-central1-a", "us-central1-b"):
        gcp.refuse(POOL, f"{zone} has no V100", how, zone=zone)
    said = desk.deploy(*V100, *ON_DEMAND, *HERE, "--gang-timeout=1s")
    assert "us-central1-a: " in said
    assert "Next zone: us-central1-b" in said
    assert "Next zone: us-central1-c" in said
    first, second, third = desk.attempts()
    assert {one.region for one in desk.attempts()} == {"us-central1"}
    assert "us-central1-a has no V100" in first.end_reason
    assert "us-central1-b has no V100" in second.end_reason
    assert third.end_reason == "finished"
    assert desk.bill() == 0
    assert gcp.kinds() == ["bucket"]


def test_the_region_is_left_when_all_its_zones_refuse(desk, gcp):
    gcp.zones = "ab"
    gcp.refuse(POOL, "no V100 in us-central1", region="us-central1")
    flags = (*V100, *ON_DEMAND, "--nodes=2", "--fallback=same")
    said = desk.deploy(*flags, "--region=us-central1,us-east1")
    first, second, *_, last = desk.attempts()
    assert {first.region, second.region} == {"us-central1"}
    assert (last.region, last.end_reason) == ("us-east1", "finished")
    assert said.count("Next zone: us-central1-b") >= 1
    assert desk.bill() == 0


def test_late_spot_nodes_are_replaced_by_on_demand_nodes_without_fallback(desk, gcp):
    gcp.refuse(POOL, "no spot V100 now", "never ready", market="spot")
    said = desk.deploy(*V100, *HERE, "--spot-wait=0.05s")
    first, second = desk.attempts()
    assert place_of(first) == ("gcp", "us-central1", "spot")
    assert "was not ready within 0 s: no spot V100 now" in first.end_reason
    assert place_of(second) == ("gcp", "us-central1", "on_demand")
    assert second.node_type == first.node_type
    assert "Next: gcp/n1-standard-64+8xV100/us-central1/on_demand" in said


def lost(times, phase="running"):
    worker = WorkerState(0, "running", preemptions=times, reason="taken away: the node went")
    return RunState(phase, (worker,), started_at="2026-11-21T12:00:00Z")


def test_often_preempted_spot_nodes_are_replaced_by_on_demand_nodes(desk, gcp):
    training = PlaceDouble([lost(0), lost(1), lost(2), lost(9), RunState("finished")])
    gcp.runs[RUN] = training
    said = desk.deploy(*V100, *HERE)
    first, second = desk.attempts()
    assert "spot nodes were preempted 9 times" in first.end_reason
    assert place_of(second) == ("gcp", "us-central1", "on_demand")
    assert second.end_reason == "finished"
    assert "Next: " in said


def test_the_store_of_a_run_stays_that_of_its_first_attempt_within_a_cloud(desk, gcp):
    gcp.refuse(POOL, "no V100", region="us-central1")
    desk.deploy(*SAME)
    run_registry = RunRegistry(FolderStore(desk.buckets / "gcp-us-central1"), "a test")
    assert run_registry.read(RUN).state == "finished"
    assert run_registry.read(RUN).plan.target.region == "us-east1"
    assert not (desk.buckets / "gcp-us-east1").exists()


def test_another_cloud_gets_the_newest_checkpoint_and_the_first_one_keeps_no_desired_state(
    desk, gcp
):
    aws = desk.doubles["aws"]
    aws.refuse(POOL, "no p4d in us-east-1")
    here = FolderStore(desk.buckets / "aws-us-east-1")
    here.put(f"runs/{RUN}/checkpoints/step-000000010.npz", b"ten")
    here.put(f"runs/{RUN}/checkpoints/step-000000020.npz", b"twenty")
    here.put(f"runs/{RUN}/record.jsonl", b"{}\n")
    flags = (
        "--provider=cheapest",
        "--accelerator=a100-40gb:8",
        *ON_DEMAND,
        "--region=us-east-1,us-central1",
    )
    said = desk.deploy(*flags, "--fallback=same")
    assert [one.provider for one in desk.attempts()][-1] == "gcp"
    there = FolderStore(desk.buckets / "gcp-us-central1")
    assert there.read(f"runs/{RUN}/checkpoints/step-000000020.npz") == b"twenty"
    assert there.list(f"runs/{RUN}/checkpoints/") == (f"runs/{RUN}/checkpoints/step-000000020.npz",)
    assert there.read(f"runs/{RUN}/record.jsonl") == b"{}\n"
    assert "copied the checkpoint of step 20" in said
    assert RunRegistry(here, "a test").read(RUN).state == "removed"
    assert aws.list_resources(RUN) == ()
    assert desk.bill() == 0


def test_fallback_any_keeps_the_global_batch(desk, gcp):
    gcp.refuse(POOL, "no V100 anywhere", node_type="n1-standard-64+8xV100")
    gcp.refuse(POOL, "no V100 anywhere", node_type="n1-highmem-64+8xV100")
    desk.deploy(*V100, *HERE, "--fallback=any", "--global-batch=768")
    first, *_, last = desk.attempts()
    assert last.price_rows[0].accelerator_count != 8
    assert last.end_reason == "finished"
    run_registry = RunRegistry(FolderStore(desk.buckets / "gcp-us-central1"), "a test")
    plan = run_registry.read(RUN).plan
    assert plan.config.training.global_batch_size == 768
    assert plan.config.training.batch_per_replica is None
    assert first.node_type != last.node_type


def test_a_budget_counts_all_attempts_and_ends_the_search(desk, gcp):
    gcp.refuse(POOL, "no V100 anywhere")
    said = desk.deploy(
        *V100, *ON_DEMAND, "--fallback=same", "--budget-usd=100", "--max-steps=10", exits=5
    )
    offers = {attempt.price_rows[0].offer for attempt in desk.attempts()}
    assert len(offers) == len(desk.attempts()) > 2, "each was tried once"
    assert "no other offer is left" in said
    assert desk.bill() == 0


def test_a_second_deploy_resumes_the_run_on_its_offer(desk, gcp):
    gcp.refuse(POOL, "no V100", region="us-central1")
    desk.deploy(*SAME)
    before = len(desk.attempts())
    made = len(gcp.made)
    desk.deploy(*SAME)
    assert len(desk.attempts()) == before, "it is finished"
    assert len(gcp.made) == made


def test_a_running_run_is_followed_even_if_another_offer_is_better_now(desk, gcp):
    gcp.refuse(POOL, "no V100", region="us-central1")
    gcp.runs[RUN] = PlaceDouble([RunState("running")])
    desk.deploy(*SAME, "--detach")
    attempts = desk.attempts()
    gcp.troubles.clear()
    gcp.runs[RUN] = PlaceDouble([*[RunState("running")] * 6, DONE])
    made = len(gcp.made)
    desk.deploy(*SAME)
    assert len(gcp.made) == made, "nothing was made in us-central1"
    assert [one.region for one in desk.attempts()] == [one.region for one in attempts]
    assert desk.bill() == 0


DONE = RunState("finished")


def test_the_nodes_of_a_run_that_finished_while_it_was_not_followed_are_deleted_by_a_rerun(
    desk, gcp
):
    def interrupt(seconds):
        raise KeyboardInterrupt

    training = gcp.runs[RUN] = PlaceDouble([RunState("running")])
    training.passes = interrupt
    desk.rules["gcp"] = RulesDouble(gcp, engine="tpu_vm")
    assert "run gan continues" in desk.deploy(*V100, *HERE, *ON_DEMAND, exits=130)
    assert desk.bill() == 1
    training.states = [RunState("finished")]
    assert "deleted: pool" in desk.deploy(*V100, *HERE, *ON_DEMAND)
    assert desk.bill() == 0
    assert desk.attempts()[-1].end_reason == "finished"


@pytest.mark.parametrize("hosts", [1, 4])
def test_the_secret_of_several_vms_is_in_the_bucket_before_they_are(desk, gcp, hosts, monkeypatch):
    there = []
    create = gcp.create
    monkeypatch.setattr(gcp, "create", lambda step: there.append(secrets(desk)) or create(step))
    desk.rules["gcp"] = RulesDouble(gcp, engine="tpu_vm", hosts=hosts)
    desk.deploy(*V100, *HERE, *ON_DEMAND)
    secret = there[-1]
    assert [len(text) for text in secret] == ([64] if hosts > 1 else [])
    folder = desk.folder / "runs" / RUN
    assert not any(text in path.read_text() for text in secret for path in folder.glob("*.json"))


def secrets(desk):
    return [path.read_text() for path in desk.buckets.rglob("secret")]


def test_deploy_without_a_login_downloads_no_wheel(desk, gcp, monkeypatch):
    downloads = []
    monkeypatch.setattr(
        "cloudgan.launch.operations.deployment.all_wheels", lambda *_: downloads.append(1) or ()
    )
    gcp.has_no_login = True
    error = desk.deploy(*V100, exits=2)
    assert "no login was found" in error
    assert downloads == []


class Died(BaseException):
    """The process is killed: no handler of the product catches it."""


def test_a_death_at_any_request_of_a_zone_failover_leaves_nothing_after_down(desk, gcp, capsys):
    gcp.zones = "ab"
    send = {"create": gcp.create, "delete": gcp.delete}
    sent, deaths = [0], 0
    fatal: int | None = None

    def dying(verb):
        def call(subject):
            sent[0] += 1
            send[verb](subject)
            if fatal == sent[0]:  # before the next request is as after this one
                raise Died

        return call

    gcp.create, gcp.delete = dying("create"), dying("delete")
    flags = (*V100, *ON_DEMAND, *HERE, "--gang-timeout=1s")
    gcp.refuse(POOL, "no V100", "failed", zone="us-central1-a")
    desk.deploy(*flags)
    requests = sent[0]
    for fatal in range(1, requests + 1):
        gcp.there.clear()
        shutil.rmtree(desk.folder / "runs", ignore_errors=True)
        shutil.rmtree(desk.buckets, ignore_errors=True)
        sent[0] = 0
        with pytest.raises(Died):
            desk.deploy(*flags)
        deaths += 1
        fatal = None  # noqa: PLW2901  down runs whole
        plan = read_plan(desk.folder / "runs" / RUN / "plan.json", RUN)
        backend = open_backend(plan.target, store=plan.store)
        list(backend.destroy(RUN))
        assert gcp.kinds() in ([], ["bucket"])
    with capsys.disabled():
        print(f"\nzone failover: {requests} requests, {deaths} deaths, 0 left after down")
