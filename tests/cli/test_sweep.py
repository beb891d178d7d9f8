"""`deploy --seeds`: one run per seed on the same nodes, one table, and limits that hold for all."""

import json

import pytest

from cli.provisioned import RUN
from cloudgan.api.sweep import SeedResult, SweepResult
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.operations.targets import runs_of
from cloudgan.reports.table import usd_range
from cloudgan.schema import launch
from cloudgan.schema.run_state import RunState, WorkerState
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError
from launch.lifecycle.cloud_double import POOL
from launch.lifecycle.place_double import PlaceDouble

pytestmark = pytest.mark.slow

BUDGET = 45
SEEDS = ("--seeds=1,2,3",)
V100 = ("--provider=gcp", "--accelerator=v100:8", "--region=us-central1", "--market=on_demand")
RUNS = tuple(f"{RUN}-seed-{seed}" for seed in (1, 2, 3))


@pytest.fixture
def gcp(desk):
    """Google Cloud in memory, whose GPU nodes need no cluster."""
    from launch.lifecycle.cloud_double import RulesDouble

    double = desk.doubles["gcp"]
    desk.rules["gcp"] = RulesDouble(double, engine="tpu_vm")
    return double


def made_pools(double):
    return [step.find for step in double.made if step.body["kind"] == POOL]


def launched(desk, run):
    return launch.read(desk.folder / "runs" / run / "launch.json").attempts


def test_all_seeds_run_on_the_nodes_of_the_first_and_nothing_is_left(desk, gcp):
    said = desk.deploy(*V100, *SEEDS)
    assert len(made_pools(gcp)) == 1, "one node pool"
    assert gcp.kinds() == ["bucket"]
    for run, previous in zip(RUNS[1:], RUNS, strict=False):
        assert f"the nodes that run {previous} keeps are used" in said
        (attempt,) = launched(desk, run)
        assert attempt.end_reason == "finished"
    plans = [json.loads((desk.folder / "runs" / run / "plan.json").read_text()) for run in RUNS]
    assert [plan["config"]["training"]["seed"] for plan in plans] == [1, 2, 3]
    for plan in plans:
        plan["config"]["training"]["seed"] = plan["config"]["name"] = None
    assert plans[0]["config"] == plans[1]["config"] == plans[2]["config"]
    assert plans[0]["workers"] == plans[1]["workers"] == plans[2]["workers"]
    assert runs_of(RUN) == RUNS, "what down, cancel and status take the name for"
    assert (runs_of(RUNS[0]), runs_of("another")) == (RUNS[:1], ("another",))
    before = list(gcp.made)
    desk.deploy(*V100, *SEEDS)
    assert gcp.made == before, "a finished sweep is not run again"


def failing(desk, double, run, reason="worker 0: exit code 1"):
    worker = WorkerState(0, "failed", reason=reason)
    double.runs[run] = PlaceDouble(
        [RunState("failed", (worker,), reason=reason, ended_at="2026-11-21T12:00:00Z")]
    )


def test_a_seed_that_fails_ends_the_sweep_and_nothing_is_left(desk, gcp):
    failing(desk, gcp, RUNS[1])
    said = desk.deploy(*V100, *SEEDS, exits=1)
    assert "run gan-seed-2 failed: worker 0: exit code 1" in said
    assert "Not started: seed 3; rerun the command" in said
    assert gcp.kinds() == ["bucket"]
    assert not (desk.folder / "runs" / RUNS[2]).exists()
    del gcp.runs[RUNS[1]]
    said = desk.deploy(*V100, *SEEDS)
    assert launched(desk, RUNS[2])[-1].end_reason == "finished"
    assert gcp.kinds() == ["bucket"]


def test_a_seed_that_cannot_start_deletes_the_nodes_that_wait_for_it(desk, gcp):
    gcp.sees = lambda step: None
    deploy_ok = gcp.check

    def check(plan, region=None):
        if plan and plan.run == RUNS[1]:
            gcp.quota[region or plan.target.region] = "0 of 8 V100"
        return deploy_ok(plan, region)

    gcp.check = check
    said = desk.deploy(*V100, *SEEDS, exits=5)
    assert "deleted: pool" in said
    assert gcp.kinds() == ["bucket"]


def test_nodes_taken_over_by_a_seed_whose_upload_fails_are_deleted(desk, gcp, monkeypatch):
    def upload(plan, progress):
        if plan.run == RUNS[1]:
            raise StoreError("the disk is full")

    monkeypatch.setattr("cloudgan.launch.operations.deployment.upload_wheels", upload)
    assert "the disk is full" in desk.deploy(*V100, "--seeds=1,2", exits=1)
    assert gcp.kinds() == ["bucket"]


def test_ctrl_c_leaves_the_run_of_a_seed_running_and_starts_no_other(desk, gcp):
    def interrupt(seconds):
        raise KeyboardInterrupt

    place = gcp.runs[RUNS[1]] = PlaceDouble([RunState("running")])
    place.passes = interrupt
    said = desk.deploy(*V100, *SEEDS, exits=130)
    assert "run gan-seed-2 continues" in said
    assert "Not started: seed 3" in said
    assert gcp.nodes == 1, "as for one run"
    place.states, place.passes = [RunState("finished")], lambda seconds: None
    desk.deploy(*V100, *SEEDS)
    assert len(made_pools(gcp)) == 1
    assert gcp.kinds() == ["bucket"]


def test_budget_and_hours_hold_for_all_seeds_together(desk, gcp):
    given = (f"--data={desk.folder / 'showers'}", f"--name={RUN}", *V100, *SEEDS)
    found = desk.plan(*given, f"--budget-usd={BUDGET}", "--max-hours=6")
    assert found["runs"] == list(RUNS)
    limits = found["plan"]["limits"]
    assert (limits["max_hours"], limits["budget_usd"]) == (2, BUDGET / 3)
    one, rest = found["plan"]["cost"], 2
    startup = next(part for part in one["parts"] if part["item"] == "startup")
    beside = one["fees_usd_per_hour"] * one["startup_seconds"] / 3600
    ready = one["known_usd"] - startup["usd"] - beside
    assert found["high_usd"] == pytest.approx(one["known_usd"] + rest * ready)
    pool = found["plan"]["node_pool"]
    assert (pool["served_runs"], pool["keep_seconds"]) == (3, 600), "they may live for all seeds"
    said = " ".join(desk.type("plan", *given)[0].split())
    assert "Sweep gan: 3 runs, one after another, on the nodes of the first" in said
    assert f"all runs {usd_range(found['low_usd'], found['high_usd'])} USD" in said
    assert f" first {usd_range(one['known_low_usd'], one['known_usd'])} USD" in said
    assert " total " not in said
    error = desk.type("plan", *given, f"--budget-usd={BUDGET / 3}", exits=6)[1]
    assert "budget" in error, "which would do for one run only"


def test_the_second_seed_follows_the_first_into_its_zone(desk, gcp):
    gcp.zones = "ab"
    gcp.refuse(POOL, "us-central1-a has no V100", zone="us-central1-a", times=1)
    desk.deploy(*V100, "--seeds=1,2")
    assert len(made_pools(gcp)) == 1, "in zone b, for all seeds"
    assert gcp.kinds() == ["bucket"]


def test_nodes_asked_to_stay_wait_after_the_last_seed_only(desk, gcp):
    desk.deploy(*V100, "--seeds=1,2", "--keep-nodes=30m")
    assert gcp.nodes == 1
    registry = RunRegistry(FolderStore(desk.buckets / "gcp-us-central1"), "a test")
    assert registry.read(RUNS[1]).plan.node_pool.keep_seconds == 1800


def test_the_table_has_mean_and_spread_of_the_metrics_and_the_cost_of_all():
    runs = [
        SeedResult(f"g-seed-{seed}", seed, 2, 10.0, usd, (), {"metric": metric, "hits": 1.0})
        for seed, usd, metric in ((1, 0.5, 0.2), (2, 0.25, 0.4))
    ]
    found = SweepResult(sweep="g", runs=tuple(runs))
    assert found.table().rows[-1][0] == "all"
    assert found.table().rows[-1][4].text == "0.75"
    assert found.table().rows[-1][5].text == "0.3 ± 0.14"
    said = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert said["usd"] == 0.75
    assert said["mean"]["metric"] == pytest.approx(0.3)
    assert said["spread"] == {"metric": pytest.approx(0.1414, rel=1e-3), "hits": 0}


def test_an_unknown_cost_or_metric_of_one_seed_is_not_zero():
    runs = (
        SeedResult("g-seed-1", 1, 2, 10.0, 0.5, ("egress",), {"metric": float("nan")}),
        SeedResult("g-seed-2", 2, None, None, None, (), {}),
    )
    found = SweepResult(sweep="g", runs=runs)
    assert found.table().rows[-1][4].text == "at least 0.5"
    assert "2 runs finished, at least 0.50 USD" in found.view().line
    assert found.as_json()["unknown_usd"] == ["egress", "all of g-seed-2"]
    assert found.table().rows[-1][5] is None
    assert found.as_json()["mean"] == {"metric": None}
    json.dumps(found.as_json(), allow_nan=False)
