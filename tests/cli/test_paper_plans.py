"""`plan --paper`: the paper's experiments today."""

from __future__ import annotations

import json

import pytest

from cli.write_golden import FOLDER, PAPER, render
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.paper import paper_runs
from cloudgan.planning.paper_jobs import paper_jobs
from cloudgan.planning.retired import GKE_TPU_NODES, retired
from cloudgan.providers.clouds import BUILT_IN
from launching.cloud_double import RulesDouble


@pytest.fixture
def jobs(desk):
    for name, double in desk.doubles.items():
        desk.rules[name] = RulesDouble(double, engine=None)
    return json.loads(desk.type("plan", "--paper", "--json")[0])["jobs"]


def test_what_people_see_is_what_somebody_read():
    golden = (FOLDER / PAPER).read_text(encoding="utf-8")
    assert render() == golden, "if that is meant: make golden, and read the diff"


def test_every_size_of_the_paper_has_a_row(jobs):
    named = [job["experiment"].split(" (")[0] for job in jobs]
    assert named[:7] == [f"{count} V100" for count in (2, 4, 8, 16, 32, 64, 128)]
    assert named[7:11] == ["4 TPU-v2", "16 TPU-v2", "4 TPU-v3", "16 TPU-v3"]
    types = {run.node_type for run in paper_runs()}
    assert all(any(each in job["machines"] for each in types) for job in jobs[:11])


def test_what_is_no_longer_sold_is_said_with_its_day_and_the_nearest_is_sold(jobs):
    gone = [job for job in jobs if not job["is_sold"]]
    assert [job["machines"].split()[2].rstrip(",") for job in gone] == [
        "Standard_NC24rs_v3",
        "Standard_NC24s_v3",
    ]
    assert "2025-03-31" in gone[0]["told"]
    assert "2025-09-30" in gone[1]["told"]
    for job in gone:
        provider, node_type, *_ = job["offer"].split("/")
        assert retired(provider, node_type) is None
        row = load_catalog().row(job["offer"])
        assert (row.accelerator, row.accelerator_count) == ("V100", 4)


def test_tpus_say_that_kubernetes_has_them_no_more(jobs):
    assert {job["told"] for job in jobs if "TPU" in job["experiment"]} == {GKE_TPU_NODES}


def test_each_command_makes_its_plan(desk, jobs):
    for job in jobs[3], jobs[10], jobs[12]:  # V100, a TPU, and what is nearest to Azure's
        found = desk.plan(*job["command"].split()[2:])
        row = found["price"]
        there = f"{row['provider']}/{row['node_type']}/{row['region']}/{row['market']}"
        assert (found["workers"]["nodes"], there) == (job["nodes"], job["offer"])
        assert found["cost"]["known_usd"] == pytest.approx(job["known_usd"])


def test_what_a_cloud_cannot_serve_any_more_is_said_and_the_nearest_is_shown(desk):
    gcp = desk.doubles["gcp"]
    desk.rules["gcp"] = RulesDouble(gcp, {"v3-32": "TensorFlow cannot drive 4 hosts"}, engine=None)
    told = json.loads(desk.type("plan", "--paper", "--json")[0])["jobs"]
    (job,) = [one for one in told if "v3-32" in one["machines"]]
    assert not job["is_sold"]
    assert "TensorFlow cannot drive 4 hosts" in job["told"]
    assert job["offer"].startswith("gcp/v3-8/")


def test_what_goes_to_few_says_so_and_shows_the_nearest_that_goes_to_all():
    jobs = paper_jobs(load_catalog(), BUILT_IN)
    tpus = [job for job in jobs if "TPU" in job.experiment]
    assert len(tpus) == 4
    for job in tpus:
        assert not job.is_sold
        assert "goes only to accounts with a quota of old, as gcp/v" in job.told
        assert job.offer.split("/")[1] in ("v5litepod-4", "v5litepod-8", "v6e-8")
        assert job.grade == "not measured"


def test_prices_of_2021_and_of_today_stand_side_by_side(jobs):
    for job in jobs[:11]:
        assert job["then_usd"] > 0
        assert job["known_usd"] > 0
        assert job["seconds"] > 0


def test_the_same_arguments_give_the_same_jobs(desk):
    from launching.cloud_double import clouds

    known = clouds(*desk.doubles.values())
    assert paper_jobs(load_catalog(), known) == paper_jobs(load_catalog(), known)
