"""`plan --paper`: the paper's experiments today."""

from __future__ import annotations

import json

import pytest

from cli.write_golden import FOLDER, PAPER, render
from cloudgan.cost.paper.runs import paper_runs
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.cost.prices.discontinued import discontinued
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS
from cloudgan.launch.planning.node_types import GKE_TPU_NODES
from cloudgan.launch.planning.paper_experiments import paper_jobs
from launch.provisioning.cloud_double import RulesDouble


@pytest.fixture
def jobs(desk):
    for name, double in desk.doubles.items():
        desk.rules[name] = RulesDouble(double, engine=None)
    return json.loads(desk.type("plan", "--paper", "--json")[0])["jobs"]


def test_the_printed_table_equals_the_golden():
    golden = (FOLDER / PAPER).read_text(encoding="utf-8")
    assert render() == golden, "if the change is intended: make golden, and read the diff"


def test_every_size_of_the_paper_has_a_row(jobs):
    named = [job["experiment"].split(" (")[0] for job in jobs]
    assert named[:7] == [f"{count} V100" for count in (2, 4, 8, 16, 32, 64, 128)]
    assert named[7:11] == ["4 TPU-v2", "16 TPU-v2", "4 TPU-v3", "16 TPU-v3"]
    types = {run.node_type for run in paper_runs()}
    assert all(any(each in job["machines"] for each in types) for job in jobs[:11])


def test_a_discontinued_node_type_has_its_date_and_a_replacement_on_sale(jobs):
    gone = [job for job in jobs if not job["is_sold"]]
    assert [job["machines"].split()[2].rstrip(",") for job in gone] == [
        "Standard_NC24rs_v3",
        "Standard_NC24s_v3",
    ]
    assert "2025-03-31" in gone[0]["note"]
    assert "2025-09-30" in gone[1]["note"]
    for job in gone:
        provider, node_type, *_ = job["offer"].split("/")
        assert discontinued(provider, node_type) is None
        row = load_catalog().row(job["offer"])
        assert (row.accelerator, row.accelerator_count) == ("V100", 4)


def test_tpus_name_the_end_of_their_kubernetes_support(jobs):
    assert {job["note"] for job in jobs if "TPU" in job["experiment"]} == {GKE_TPU_NODES}


def test_each_command_gives_the_plan_of_its_row(desk, jobs):
    for job in jobs[3], jobs[10], jobs[12]:  # V100, a TPU, and what is nearest to Azure's
        found = desk.plan(*job["command"].split()[2:])
        row = found["price"]
        there = f"{row['provider']}/{row['node_type']}/{row['region']}/{row['market']}"
        assert (found["workers"]["nodes"], there) == (job["nodes"], job["offer"])
        assert found["cost"]["known_usd"] == pytest.approx(job["known_usd"])


def test_a_node_type_that_a_cloud_refuses_has_a_replacement(desk):
    gcp = desk.doubles["gcp"]
    desk.rules["gcp"] = RulesDouble(gcp, {"v3-32": "TensorFlow cannot drive 4 hosts"}, engine=None)
    found = json.loads(desk.type("plan", "--paper", "--json")[0])["jobs"]
    (job,) = [one for one in found if "v3-32" in one["machines"]]
    assert not job["is_sold"]
    assert "TensorFlow cannot drive 4 hosts" in job["note"]
    assert job["offer"].startswith("gcp/v3-8/")


def test_a_restricted_node_type_has_a_generally_available_replacement():
    jobs = paper_jobs(load_catalog(), BUILT_IN_CLOUDS)
    tpus = [job for job in jobs if "TPU" in job.experiment]
    assert len(tpus) == 4
    for job in tpus:
        assert not job.is_sold
        assert "is sold only to accounts with an existing quota, as gcp/v" in job.note
        assert job.offer.split("/")[1] in ("v5litepod-4", "v5litepod-8", "v6e-8")
        assert job.grade == "modelled"


def test_each_row_has_prices_of_2021_and_of_today(jobs):
    for job in jobs[:11]:
        assert job["paper_usd"] > 0
        assert job["known_usd"] > 0
        assert job["seconds"] > 0


def test_the_same_arguments_give_the_same_jobs(desk):
    from launch.provisioning.cloud_double import clouds

    known = clouds(*desk.doubles.values())
    assert paper_jobs(load_catalog(), known) == paper_jobs(load_catalog(), known)
