"""`deploy` where a place has no room: given back, said in one sentence, and the next offer."""

from __future__ import annotations

import pytest

from cli.rented import RUN
from cloudgan.core.run_state import RunState, WorkerState
from cloudgan.launching.intents import Intents
from cloudgan.stores.folder import FolderStore
from launching.cloud_double import POOL
from launching.place_double import PlaceDouble

V100 = ("--provider=gcp", "--accelerator=v100:8")
HERE = ("--region=us-central1",)
ON_DEMAND = ("--spot=never",)


def place_of(attempt):
    return attempt.provider, attempt.region, attempt.market


def test_a_run_that_finds_room_is_one_attempt_and_leaves_no_node(desk):
    desk.deploy(*V100, *HERE)
    (attempt,) = desk.attempts()
    assert place_of(attempt) == ("gcp", "us-central1", "spot")
    assert attempt.ended == "finished"
    assert attempt.price_rows[0].offer == "gcp/n1-standard-64+8xV100/us-central1/spot"
    assert desk.bill() == 0
    assert desk.doubles["gcp"].kinds() == ["bucket"], "which its results stay in"


def test_without_a_fallback_no_room_ends_the_command_and_nothing_bills(desk):
    desk.doubles["gcp"].refuse(POOL, "us-central1-a has no V100 to give")
    said = desk.deploy(*V100, *HERE, *ON_DEMAND, exits=5)
    assert "us-central1-a has no V100 to give" in said
    (attempt,) = desk.attempts()
    assert attempt.ended == "failed: us-central1-a has no V100 to give"
    assert desk.bill() == 0


@pytest.mark.parametrize("how", ["refused", "failed"])
def test_the_same_is_taken_elsewhere_and_all_is_noted(desk, how):
    gcp = desk.doubles["gcp"]
    gcp.refuse(POOL, "us-central1-a has no V100", how, region="us-central1")
    said = desk.deploy(
        *V100, *ON_DEMAND, "--nodes=2", "--fallback=same", "--region=us-central1,us-east1"
    )
    first, second, *rest = desk.attempts()
    while rest and second.region == "us-central1":  # another type of node with the same V100
        second, *rest = rest
    assert first.region == "us-central1"
    assert "has no V100" in first.ended
    assert (second.region, second.ended) == ("us-east1", "finished")
    assert {one.price_rows[0].accelerator_count for one in desk.attempts()} == {8}
    assert {one.node_count for one in desk.attempts()} == {2}
    told = said.partition("gcp/n1-standard-64+8xV100/us-central1/on_demand: ")[2]
    told = told.partition("Next: ")[0]
    assert "us-central1-a has no V100" in told
    assert "cloudgan down" not in told, "that is done already"
    assert desk.bill() == 0
    assert not gcp.things(RUN)


def test_a_missing_quota_is_no_room_either_and_nothing_was_made_there(desk):
    desk.doubles["gcp"].quota["us-central1"] = "0 of 8 V100; ask for NVIDIA_V100_GPUS"
    desk.deploy(*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")
    regions = [attempt.region for attempt in desk.attempts()]
    assert regions[0] == "us-central1"
    assert regions[-1] == "us-east1"
    assert "NVIDIA_V100_GPUS" in desk.attempts()[0].ended
    assert not any("us-central1" in name for name in desk.doubles["gcp"].asked("create"))


def test_a_region_without_such_machines_is_passed_on(desk):
    desk.doubles["gcp"].unserved["us-central1"] = "no zone of us-central1 has n1 with V100"
    desk.deploy(*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")
    assert desk.attempts()[-1].region == "us-east1"


def test_spot_that_is_not_there_in_time_becomes_on_demand_without_any_fallback(desk):
    desk.doubles["gcp"].refuse(POOL, "no spot V100 now", "never ready", market="spot")
    said = desk.deploy(*V100, *HERE, "--spot_wait=0.05s")
    first, second = desk.attempts()
    assert place_of(first) == ("gcp", "us-central1", "spot")
    assert "was not there within 0 s: no spot V100 now" in first.ended
    assert place_of(second) == ("gcp", "us-central1", "on_demand")
    assert second.node_type == first.node_type
    assert "Next: gcp/n1-standard-64+8xV100/us-central1/on_demand" in said


def test_spot_that_was_asked_for_always_stays_spot(desk):
    desk.doubles["gcp"].refuse(POOL, "no spot V100 now", market="spot")
    desk.deploy(*V100, *HERE, "--spot=always", exits=5)
    assert {attempt.market for attempt in desk.attempts()} == {"spot"}


def lost(times, phase="running"):
    worker = WorkerState(0, "running", replaced=times, why="taken away: the node went")
    return RunState(phase, (worker,), began="2026-11-21T12:00:00Z")


def test_spot_nodes_that_are_lost_again_and_again_are_given_up_for_on_demand(desk):
    training = PlaceDouble([lost(0), lost(1), lost(2), lost(9), RunState("finished")])
    desk.doubles["gcp"].runs[RUN] = training
    said = desk.deploy(*V100, *HERE)
    first, second = desk.attempts()
    assert "spot nodes were lost 9 times" in first.ended
    assert place_of(second) == ("gcp", "us-central1", "on_demand")
    assert second.ended == "finished"
    assert "Next: " in said


def test_two_losses_are_bad_luck(desk):
    training = PlaceDouble([lost(0), lost(2), RunState("finished")])
    desk.doubles["gcp"].runs[RUN] = training
    desk.deploy(*V100, *HERE)
    assert [attempt.market for attempt in desk.attempts()] == ["spot"]


def test_the_store_of_a_run_stays_that_of_its_first_attempt_within_a_cloud(desk):
    desk.doubles["gcp"].refuse(POOL, "no V100", region="us-central1")
    desk.deploy(*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")
    intents = Intents(FolderStore(desk.buckets / "gcp-us-central1"), "a test")
    assert intents.read(RUN).state == "finished"
    assert intents.read(RUN).plan.place.region == "us-east1"
    assert not (desk.buckets / "gcp-us-east1").exists()


def test_another_cloud_gets_the_newest_checkpoint_and_the_first_one_keeps_nothing_meant(desk):
    aws = desk.doubles["aws"]
    aws.refuse(POOL, "no p3 in us-east-1")
    here = FolderStore(desk.buckets / "aws-us-east-1")
    here.put(f"runs/{RUN}/checkpoints/step-000000010.npz", b"ten")
    here.put(f"runs/{RUN}/checkpoints/step-000000020.npz", b"twenty")
    here.put(f"runs/{RUN}/record.jsonl", b"{}\n")
    flags = (
        "--provider=cheapest",
        "--accelerator=v100:8",
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
    assert Intents(here, "a test").read(RUN).state == "removed"
    assert aws.things(RUN) == ()
    assert desk.bill() == 0


def test_anything_that_trains_the_same_keeps_the_global_batch(desk):
    desk.doubles["gcp"].refuse(POOL, "no V100 anywhere", node_type="n1-standard-64+8xV100")
    desk.doubles["gcp"].refuse(POOL, "no V100 anywhere", node_type="n1-highmem-64+8xV100")
    desk.deploy(*V100, *HERE, "--fallback=any", "--global_batch=768")
    first, *_, last = desk.attempts()
    assert last.price_rows[0].accelerator_count != 8
    assert last.ended == "finished"
    intents = Intents(FolderStore(desk.buckets / "gcp-us-central1"), "a test")
    plan = intents.read(RUN).plan
    assert plan.config.training.global_batch_size == 768
    assert plan.config.training.batch_per_replica is None
    assert first.node_type != last.node_type


def test_a_budget_counts_all_attempts_and_ends_the_search(desk):
    desk.doubles["gcp"].refuse(POOL, "no V100 anywhere")
    said = desk.deploy(
        *V100, *ON_DEMAND, "--fallback=same", "--budget_usd=100", "--max_steps=10", exits=5
    )
    offers = {attempt.price_rows[0].offer for attempt in desk.attempts()}
    assert len(offers) == len(desk.attempts()) > 2, "each was tried once"
    assert "nothing else can be taken" in said
    assert desk.bill() == 0


def test_a_run_goes_on_where_it_is_when_it_is_deployed_again(desk):
    desk.doubles["gcp"].refuse(POOL, "no V100", region="us-central1")
    flags = (*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")
    desk.deploy(*flags)
    before = len(desk.attempts())
    made = len(desk.doubles["gcp"].made)
    desk.deploy(*flags)
    assert len(desk.attempts()) == before, "it is finished"
    assert len(desk.doubles["gcp"].made) == made


def test_a_run_that_runs_is_followed_where_it_is_whatever_would_be_chosen_now(desk):
    desk.doubles["gcp"].refuse(POOL, "no V100", region="us-central1")
    flags = (*V100, *ON_DEMAND, "--fallback=same", "--region=us-central1,us-east1")
    desk.doubles["gcp"].runs[RUN] = PlaceDouble([RunState("running")])
    desk.deploy(*flags, "--detach")
    attempts = desk.attempts()
    desk.doubles["gcp"].troubles.clear()
    desk.doubles["gcp"].runs[RUN] = PlaceDouble([*[RunState("running")] * 6, DONE])
    made = len(desk.doubles["gcp"].made)
    desk.deploy(*flags)
    assert len(desk.doubles["gcp"].made) == made, "nothing was made in us-central1"
    assert [one.region for one in desk.attempts()] == [one.region for one in attempts]
    assert desk.bill() == 0


DONE = RunState("finished")


def test_what_fails_for_another_reason_is_no_want_of_room(desk):
    desk.doubles["gcp"].refuse(POOL, "the network has no addresses left", "broken")
    said = desk.deploy(*V100, *ON_DEMAND, "--fallback=any", exits=1)
    assert "no addresses left" in said
    assert len(desk.attempts()) == 1
    assert desk.bill() == 0
