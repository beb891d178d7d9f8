"""`plan` for provisioned nodes: the selected offer, its whole cost, and the reasons against others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.provisioned import basis
from cloudgan.api.plan_result import PlanResult
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.schema.plan import Plan
from launch.lifecycle.cloud_double import RulesDouble

GCP = ("--provider=gcp",)
HERE = Path(__file__).parents[1]


def offer_of(plan):
    row = plan["price"]
    return f"{row['provider']}/{row['node_type']}/{row['region']}/{row['market']}"


def known_usd(plan):
    return plan["cost"]["known_usd"]


def reasons(plan):
    return {group["reason"] for group in plan["selection"]["rejected_offers"]}


def basis_of(plan):
    """The lines below a plan with -v, by their first word."""
    lines = reversed(basis(plan).splitlines())
    return {line.partition(" ")[0]: line for line in lines if line[:1].strip()}


def test_a_plan_names_account_region_zone_cluster_market_and_why(desk):
    flags = ("--accelerator=v100:8", "--project=lab-7", "--zone=us-central1-b", "--nodes=2")
    given = (*GCP, *flags, "--region=us-central1")
    shown, out = desk.plan(*given), desk.type("plan", *given)[0]
    lines = basis_of(shown)
    where = "gcp (account lab-7, region us-central1, zone us-central1-b, cluster cloudgan)"
    assert where in lines["target"]
    assert "2 x n1-standard-64+8xV100, spot" in lines["nodes"]
    assert "of on demand, cheaper below one preemption per node in" in lines["market"]
    assert "assumed, not measured: one in 24 h" in lines["market"]
    assert re.search(r"price    at most \d+ days old: `cloudgan prices refresh`", out)
    assert re.search(r"total    \d.* to \d.* USD, plus staging of wheels and data \(unknown\)", out)
    assert "4 to 9 min (published measurement, https://github.com/" in lines["startup"]
    assert "gcp/n1-highmem-64+8xV100/us-central1/spot" in lines["next"]
    assert "POST https://cloud.example/us-central1/" in basis(shown)


def test_the_same_job_has_a_row_per_cloud_and_market_and_the_chosen_one_is_marked(desk):
    found = desk.plan(*GCP, "--accelerator=l4", "--nodes=2", "--epochs=2")
    table = PlanResult(plan=Plan.model_validate(found)).view().table
    first, *others = table.rows
    assert first[:3] == ("✔ GCP", "2 x g2-standard-4", "spot")
    assert first[3].value == known_usd(found)
    assert [row[0].strip() for row in others] == ["GCP", "AWS", "Azure"]
    assert others[-1][1] == "no L4"
    assert all(row[3].value > first[3].value for row in others[:-1])
    unknown = desk.plan(*GCP, "--accelerator=l4", "--preset=mini")
    shown = PlanResult(plan=Plan.model_validate(unknown)).view()
    assert {row[3].value for row in shown.table.rows if row[2]} == {None}
    assert shown.notes[0].startswith("total    unknown; ")


def test_a_run_of_one_s_own_measures_the_network_for_the_next_plan(desk, run_on):
    """The paper has no run of mini: one on a T4 gives time and cost of the same nodes as an interval."""
    flags = (*GCP, "--accelerator=t4", "--preset=mini", "--epochs=3")
    assert desk.plan(*flags)["forecast"]["high_usd"] is None
    run_on("Tesla T4", "mini", folder=desk.folder / "runs" / "mine")
    ahead = desk.plan(*flags)["forecast"]
    assert (ahead["grade"], ahead["basis"].partition(",")[0]) == ("measured", "mine on 1 x T4")
    assert ahead["low_epoch_seconds"] < ahead["epoch_seconds"] < ahead["high_epoch_seconds"]
    assert 0 < ahead["low_usd"] < ahead["high_usd"]
    run_on("CPU", "mini", folder=desk.folder / "runs" / "laptop")
    (desk.folder / "runs" / "laptop" / "run.yaml").write_text("{")
    assert desk.plan(*flags)["forecast"] == ahead, "no cloud sells a laptop, and damage is no run"


def test_a_plan_names_the_network_and_other_clouds_refuse_it(desk):
    flags = ("--accelerator=v100:8", "--network=lab", "--subnet=gpus", "--internal-ips")
    found = desk.plan(*GCP, *flags)
    asked = {"network": "lab", "subnet": "gpus", "internal addresses": "only"}
    assert asked.items() <= found["target"]["details"].items()
    assert "network lab, subnet gpus, internal addresses only)" in basis_of(found)["target"]
    for provider in ("aws", "azure", "cheapest", "slurm"):
        error = desk.type("plan", f"--provider={provider}", "--internal-ips", exits=2)[1]
        assert "only valid with --provider=" in error
    for wrong, why in (("--subnet=gpus", "give --network"), ("--network=a/b", "lab-net")):
        assert why in desk.type("plan", *GCP, wrong, exits=2)[1]


def test_a_plan_needs_no_login_and_asks_no_cloud(desk):
    desk.doubles["gcp"].has_no_login = True
    assert desk.plan(*GCP, "--accelerator=v100:8")["target"]["account"] == "<account>"
    assert desk.doubles["gcp"].calls == []


def test_the_whole_job_decides_and_not_the_hour(desk):
    """A v5litepod-1 costs a quarter by the hour, and takes more than the 24 h of --max-hours."""
    found = desk.plan(*GCP)
    assert found["price"]["node_type"] == "v5litepod-4"
    rates = {row.node_type: row.usd_per_hour for row in load_catalog().find(market="spot")}
    assert rates["v5litepod-1"] < rates["v5litepod-4"], "another offer is the cheapest per hour"
    assert "may not finish within --max-hours, and others certainly do" in reasons(found)
    others = [one["known_usd"] for one in found["selection"]["alternatives"]]
    assert known_usd(found) <= min(others)


@pytest.mark.parametrize(
    ("flags", "clouds"),
    [((), {"aws", "azure", "gcp"}), (("--region=us-east-1",), {"aws"})],
)
def test_cheapest_compares_all_clouds(desk, flags, clouds):
    names = desk.plan("--provider=cheapest", "--accelerator=a100", *flags)
    seen = {offer_of(names).partition("/")[0]}
    seen |= {one["offer"].partition("/")[0] for one in names["selection"]["alternatives"]}
    seen |= {
        example.partition("/")[0]
        for group in names["selection"]["rejected_offers"]
        for example in group["examples"]
    }
    assert seen <= clouds
    assert offer_of(names).partition("/")[0] in clouds


def test_only_the_regions_that_were_named_count(desk):
    found = desk.plan(*GCP, "--accelerator=v100:8", "--region=us-east1,europe-west4")
    regions = {one["offer"].split("/")[2] for one in found["selection"]["alternatives"]}
    assert regions | {found["target"]["region"]} == {"us-east1", "europe-west4"}


@pytest.mark.parametrize(
    ("flags", "zone", "region"),
    [
        (["--provider=gcp", "--accelerator=l4:1"], "europe-west4-a", "europe-west4"),
        (["--provider=aws", "--accelerator=a100:8"], "eu-west-1b", "eu-west-1"),
        (
            ["--provider=gcp", "--accelerator=l4:1", "--region=us-central1,europe-west4"],
            "europe-west4-a",
            "europe-west4",
        ),
    ],
)
def test_a_zone_that_was_named_restricts_the_choice_to_its_region(desk, flags, zone, region):
    elsewhere = desk.plan(*flags)["target"]["region"]
    assert elsewhere != region, "otherwise this test proves nothing"
    assert desk.plan(*flags, f"--zone={zone}")["target"]["region"] == region


def test_zones_of_azure_are_in_every_region(desk):
    flags = ("--provider=azure", "--accelerator=t4:1", "--epochs=5")
    assert (
        desk.plan(*flags, "--zone=2")["target"]["region"] == desk.plan(*flags)["target"]["region"]
    )


def test_a_zone_without_a_price_says_so_of_its_region(desk):
    said = desk.type("plan", *GCP, "--accelerator=v100:8", "--zone=asia-east1-c", exits=5)[1]
    assert "no price is known for v100:8 on gcp in asia-east1" in said


def test_a_family_is_its_cheapest_member_and_an_exact_name_is_not_its_relatives(desk):
    a100 = desk.plan(*GCP, "--accelerator=a100")
    assert a100["price"]["accelerator"] == "A100-40GB"
    assert a100["workers"]["accelerator"] == "A100-40GB", "named in the plan"
    one = desk.plan("--provider=azure", "--accelerator=a100")
    assert one["workers"]["accelerators_per_node"] == 1, "no number is one, where that is sold"
    eight = desk.plan("--provider=aws", "--accelerator=a100")
    assert eight["workers"]["accelerators_per_node"] == 8, "and else the fewest"
    v100 = desk.plan("--provider=azure", "--accelerator=v100-32gb:8")
    assert v100["price"]["accelerator"] == "V100-32GB"


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("v3-8", "v3-8", 4),
        ("v2-32", "v2-32", 16),
        ("n1-standard-8+1xT4", "n1-standard-8+1xT4", 1),
        ("G2-Standard-24", "g2-standard-24", 2),
        ("L4:2", "g2-standard-24", 2),
        ("V5E:4", "v5litepod-4", 4),
        ("a100-80:1", "a2-ultragpu-1g", 1),
        ("a100-80gb:1", "a2-ultragpu-1g", 1),
    ],
)
def test_an_accelerator_has_its_usual_names_counts_and_node_types(desk, name, kind, count):
    found = desk.plan(*GCP, f"--accelerator={name}", "--epochs=5")
    assert found["node_pool"]["node_type"] == kind
    assert found["workers"]["accelerators_per_node"] == count
    assert found["workers"]["nodes"] == 1


@pytest.mark.parametrize("command", ["plan", "offers"])
def test_a_count_that_no_node_has_is_refused_with_the_counts_and_the_nearest(
    desk, cloudgan_here, command
):
    given = ("--provider=aws", "--accelerator=l4:2")
    said = cloudgan_here(command, *given, exits=5).stderr
    assert "Nodes of aws have 1, 4 or 8 x l4; the nearest: --accelerator=l4:1." in said


def test_an_accelerator_of_unknown_throughput_needs_a_name_or_a_flag(desk):
    """A part of an A10 has no peak performance, so the measured runs say nothing about it."""
    unknown, flags = "no measured run tells the throughput", ("--provider=azure", "--nodes=1")
    plain = desk.plan(*flags)
    assert plain["forecast"]["grade"] == "modelled"
    assert any(unknown in why for why in reasons(plain))
    assert not any(unknown in why for why in reasons(desk.plan(*flags, "--allow-unmeasured")))
    named = desk.plan(*flags, "--accelerator=Standard_NV6ads_A10_v5", "--epochs=5")
    assert named["price"]["accelerator"] == "A10(1/6)"


def test_a_network_that_was_never_measured_goes_by_the_hour_and_says_so(desk):
    found = desk.plan(*GCP, "--accelerator=t4", "--preset=smoke")
    assert "its throughput is unknown" in found["selection"]["reason"]
    assert "training" in found["cost"]["unknown"]
    assert found["forecast"]["high_usd"] is None
    said = desk.type("plan", *GCP, "--preset=smoke", exits=5)[1]
    assert "no measured run tells the throughput of this network" in said


def test_the_market_is_selected_by_break_even_or_by_flag(desk):
    flags = (*GCP, "--accelerator=v100:8", "--region=us-central1")
    auto, spot, on_demand = (
        desk.plan(*flags, f"--market={how}") for how in ("auto", "spot", "on_demand")
    )
    assert [one["node_pool"]["market"] for one in (auto, spot, on_demand)] == [
        "spot",
        "spot",
        "on_demand",
    ]
    assert "cheaper below one preemption" in auto["selection"]["market_reason"]
    assert spot["selection"]["market_reason"] == "--market=spot"
    assert on_demand["selection"]["market_reason"] == "--market=on_demand"


def test_a_spot_plan_states_the_on_demand_price(desk):
    flags = (*GCP, "--accelerator=v100:8", "--region=us-central1", "--nodes=2")
    found = [text for text in desk.plan(*flags)["warnings"] if "on-demand nodes for" in text]
    full = load_catalog().row("gcp/n1-standard-64+8xV100/us-central1/on_demand")
    assert f"on-demand nodes for {2 * full.usd_per_hour:.2f} USD per hour" in found[0]
    always = desk.plan(*flags, "--market=spot")["warnings"]
    assert not [text for text in always if "on-demand nodes for" in text]


def test_with_market_auto_the_gang_timeout_is_the_spot_wait(desk):
    flags = (*GCP, "--accelerator=v100:8", "--gang-timeout=1h")
    waits = [
        desk.plan(*flags, *more)["limits"]["gang_timeout_seconds"]
        for more in ((), ("--spot-wait=5m",), ("--market=spot",), ("--market=on_demand",))
    ]
    assert waits == [1200, 300, 3600, 3600]


def test_nodes_auto_is_the_cheapest_within_the_limits_with_its_batch(desk):
    slow, fast = (
        desk.plan(*GCP, "--accelerator=v100", "--nodes=auto", f"--max-hours={hours}")
        for hours in (100, 5)
    )
    assert slow["workers"]["nodes"] < fast["workers"]["nodes"] or known_usd(slow) < known_usd(fast)
    assert fast["forecast"]["high_seconds"] <= 5 * 3600
    for one in (slow, fast):
        count = one["workers"]["nodes"] * one["workers"]["accelerators_per_node"]
        batch = one["config"]["training"]["global_batch_size"]
        assert 48 * count <= batch <= 128 * count
        replicas = f"{count} replica{'' if count == 1 else 's'}"
        assert f"{batch} of {replicas}; " in one["selection"]["batch_reason"]
    given = desk.plan(*GCP, "--nodes=auto", "--accelerator=v100", "--global-batch=96")
    assert given["config"]["training"]["global_batch_size"] == 96
    each = desk.plan(*GCP, "--nodes=auto", "--accelerator=v100", "--batch=32", "--max-hours=20")
    count = each["workers"]["nodes"] * each["workers"]["accelerators_per_node"]
    assert each["config"]["training"]["global_batch_size"] == 32 * count


LIMITS = ("--nodes=auto", "--preset=paper", "--epochs=60", "--max-hours=2", "--budget-usd=40")


def test_one_shower_per_gpu_is_not_priced_like_the_measured_batch(desk):
    """64 GPUs with a global batch of 64 were 64 min for 27 USD; each epoch has 1,952 steps."""
    auto = desk.plan("--provider=cheapest", *LIMITS)
    count = auto["workers"]["nodes"] * auto["workers"]["accelerators_per_node"]
    assert auto["config"]["training"]["global_batch_size"] >= 48 * count
    assert auto["forecast"]["high_seconds"] <= 7200
    flags = ("--accelerator=v100:8", "--nodes=8", "--global-batch=64", "--max-hours=24")
    small = desk.plan(*GCP, *flags)
    assert small["forecast"]["low_seconds"] > 10.8 * 3600
    assert small["forecast"]["grade"] == "modelled"


@pytest.mark.parametrize(
    ("more", "exits", "expected"),
    [
        (("--global-batch=64",), 5, "smallest change that fits: +"),
        (("--budget-usd=10",), 6, "USD budget (--budget-usd="),
        (("--nodes=1", "--accelerator=v100:8", "--budget-usd=400"), 5, "ends the run after 2 h"),
        (
            ("--nodes=1", "--accelerator=v100:1", "--max-hours=90", "--budget-usd=20"),
            6,
            "more than the remaining 20",
        ),
    ],
)
def test_a_plan_that_is_infeasible_by_its_own_forecast_is_refused(desk, more, exits, expected):
    given = {flag.partition("=")[0] for flag in more}
    flags = [flag for flag in LIMITS if flag.partition("=")[0] not in given]
    cloud = "gcp" if "--nodes" in given else "cheapest"
    said = desk.type("plan", f"--provider={cloud}", *flags, *more, exits=exits)
    assert expected in " ".join(said[1].split())


def test_infeasible_limits_are_refused_with_the_nearest_option(desk):
    said = desk.type("plan", *GCP, "--accelerator=v100", "--nodes=auto", "--max-hours=0.1", exits=5)
    assert "no offer is certain to finish the job within 0.1 h: the fastest takes" in said[1]


@pytest.mark.parametrize(("most", "exits"), [(30, 0), (5, 5)])
def test_no_offer_above_the_hourly_limit_is_selected(desk, most, exits):
    flags = (*GCP, "--accelerator=v100:8", f"--max-usd-per-hour={most}")
    said = desk.type("plan", *flags, exits=exits)
    assert exits == 0 or "USD per hour exceeds --max-usd-per-hour=5" in said[1]


def test_a_budget_pays_for_the_start_and_the_cluster_too(desk):
    desk.rules["gcp"] = RulesDouble(desk.doubles["gcp"], engine="cluster")
    flags = (
        *GCP,
        "--accelerator=v100:8",
        "--market=on_demand",
        "--max-steps=10",
        "--budget-usd=20",
    )
    found = desk.plan(*flags)
    rate = found["price"]["usd_per_hour"] + found["cost"]["fees_usd_per_hour"]
    assert found["cost"]["fees_usd_per_hour"] > 0.1
    end = found["limits"]["deadline_seconds"]
    assert end == int(20 / (rate / 3600) - 120 - 300 - found["cost"]["startup_seconds"])


@pytest.mark.parametrize(
    ("cloud", "region", "beside_usd", "names"),
    [
        (
            "gcp",
            "us-central1",
            (2 * 100 * 0.1 + 32 * 0.04) / 730 + 3 * 0.005,
            {
                "disks",
                "addresses",
                "cluster_disks",
                "cluster_addresses",
            },
        ),
        (
            "aws",
            "us-east-1",
            2 * 100 * 0.1 / 730 + 2 * 0.005,
            {"disks", "addresses"},
        ),
        (
            "azure",
            "eastus",
            3 * 128 * 0.153984 / 730 + 0.025 + 0.005,
            {
                "disks",
                "load_balancer",
                "cluster_addresses",
                "cluster_disks",
            },
        ),
    ],
)
def test_disks_addresses_and_load_balancers_count_in_forecast_and_deadline(
    desk, cloud, region, beside_usd, names
):
    desk.rules[cloud] = cloud_planner(cloud)
    flags = (f"--provider={cloud}", f"--region={region}", "--market=on_demand", "--nodes=2")
    found = desk.plan(*flags, "--accelerator=t4:1", "--max-steps=10", "--budget-usd=5")
    cost = found["cost"]
    assert names <= {part["item"] for part in cost["parts"]}
    fees, at = load_fees(), (cloud, region)
    cluster = fees.find("control_plane", *at).usd
    if system_node := fees.find("system_node", *at):
        cluster += fees.dearest(system_node).usd
    assert (system_node is None) == (cloud == "aws"), (
        "on EKS the pods of the cluster run on the run's nodes"
    )
    assert cost["fees_usd_per_hour"] == pytest.approx(cluster + beside_usd)
    rate = 2 * found["price"]["usd_per_hour"] + cluster + beside_usd
    start = cost["startup_seconds"] or found["limits"]["gang_timeout_seconds"]
    assert found["limits"]["deadline_seconds"] == int(5 / (rate / 3600) - 120 - 300 - start)
    assert cost["unpriced"] == []


def test_nodes_with_gpus_use_an_image_of_python_and_not_that_of_tensorflow(desk):
    """TensorFlow's image for GPUs finds none: https://github.com/tensorflow/build/issues/221."""
    desk.rules["gcp"] = cloud_planner("gcp")
    flags = (*GCP, "--region=us-central1", "--accelerator=t4:1", "--max-steps=10")
    assert desk.plan(*flags)["workers"]["image"].startswith("python:3.11-slim")


@pytest.mark.parametrize(
    ("cloud", "region", "end"),
    [
        ("gcp", "us-central1", "`cloudgan down gan`"),
        ("azure", "eastus", "`cloudgan down gan`"),
        ("aws", "us-east-1", "the cloud deletes it"),
    ],
)
def test_a_plan_states_what_an_abandoned_cluster_costs_per_day(desk, cloud, region, end):
    desk.rules[cloud] = cloud_planner(cloud)
    flags = (f"--provider={cloud}", f"--region={region}", "--accelerator=t4:1", "--name=gan")
    flags += ("--market=on_demand", "--max-steps=10", "--budget-usd=5")
    cost = desk.plan(*flags)["cost"]
    assert 0 < cost["cluster_usd_per_hour"] < cost["fees_usd_per_hour"], (
        "without what each node costs"
    )
    usd = f"{24 * cost['cluster_usd_per_hour']:.2f} USD a day"
    line = f"  cluster  {usd} if this machine dies, until {end}"
    assert line in desk.type("plan", *flags)[0].splitlines()


def test_tpu_vms_without_public_addresses_do_not_pay_for_them(desk):
    desk.rules["gcp"] = cloud_planner("gcp")
    flags = (*GCP, "--region=us-central1", "--accelerator=v3-8", "--max-steps=10")
    one = desk.plan(*flags)["node_pool"]
    assert [fee["kind"] for fee in one["fees"]] == ["public_ip"]
    assert desk.plan(*flags, "--internal-ips")["node_pool"]["fees"] == []


def test_a_fee_without_a_price_is_unknown_and_the_budget_says_so(desk):
    desk.rules["gcp"] = cloud_planner("gcp")
    flags = ("--provider=gcp", "--region=us-east1", "--market=on_demand", "--budget-usd=5")
    found = desk.plan(*flags, "--accelerator=t4:1", "--max-steps=10")
    disks = next(part for part in found["cost"]["parts"] if part["item"] == "disks")
    assert disks["usd"] is None
    assert disks["why_unknown"] == "no price of pd-balanced in us-east1"
    assert "disks of the nodes" in found["cost"]["unpriced"]
    assert any("--budget-usd does not count" in text for text in found["warnings"])


def test_an_offer_that_a_cloud_cannot_serve_is_rejected_with_its_reason(desk):
    gcp = desk.doubles["gcp"]
    desk.rules["gcp"] = RulesDouble(gcp, {"v3-8": "TensorFlow has no v3 any more"})
    found = desk.plan(*GCP)
    assert found["price"]["node_type"] != "v3-8"
    assert "TensorFlow has no v3 any more" in reasons(found)


def test_an_unknown_price_never_ranks_and_needs_two_flags(desk):
    where = (*GCP, "--region=asia-east1")
    said = desk.type("plan", *where, "--accelerator=v100:8", exits=5)[1]
    assert "no price is known for v100:8 on gcp in asia-east1" in said
    said = desk.type("plan", *where, "--accelerator=v100:8", "--allow-unknown-price", exits=2)[1]
    assert "give a node type" in said
    named = (*where, "--accelerator=n1-standard-8+1xV100", "--allow-unknown-price", "--epochs=5")
    found = desk.plan(*named)
    assert found["price"] is found["cost"] is None
    assert found["target"]["region"] == "asia-east1"
    assert found["workers"]["accelerator"] == "V100"
    assert found["node_pool"]["market"] == "on_demand"
    assert "unknown: these nodes have no known price" in desk.type("plan", *named)[0]
    said = desk.type("plan", *named, "--budget-usd=5", exits=2)[1]
    assert "need a price" in said


def test_an_unlisted_node_type_can_be_provisioned(desk):
    flags = (*GCP, "--region=us-central1", "--accelerator=a4-highgpu-8g", "--allow-unknown-price")
    assert desk.plan(*flags)["node_pool"]["node_type"] == "a4-highgpu-8g"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            ["--provider=kubernetes", "--store=gs://x/y", "--market=on_demand"],
            "--market: only valid with",
        ),
        (["--nodes=auto"], "--nodes=auto is only valid with"),
        (["--provider=gcp", "--nodes=two"], "must be a whole number or auto"),
        (["--provider=gcp", "--context=lab"], "only valid with an existing cluster"),
        (["--provider=cheapest", "--store=gs://x/y"], "--store is in one cloud"),
        (["--provider=cheapest", "--project=lab"], "belong to one cloud"),
        (["--provider=gcp", "--region=us-centrall"], "no price is known for"),
        (["--provider=gcp", "--region=us-east-1"], "in us-east-1. Did you mean 'us-east1'?"),
        (
            ["--provider=gcp", "--region=us-east1", "--zone=us-west1-a"],
            "--zone=us-west1-a is not in --region=us-east1; give --region=us-west1",
        ),
        (["--provider=gcp", "--accelerator=v200"], "unknown accelerator 'v200'"),
        (["--provider=gcp", "--accelerator=v3-8:8"], "a v3-8 has 4 x TPU-v3"),
        (["--provider=gcp", "--accelerator=v3-8", "--nodes=2"], "a TPU slice is one node"),
        (["--provider=aws", "--price-as=gcp/v3-8/us-central1/spot"], "--provider=aws was given"),
    ],
)
def test_an_invalid_combination_of_flags_is_refused(desk, flags, expected):
    unknown = ("no price is known for", "a TPU slice is one node")
    exits = 5 if expected in unknown or "Did you mean 'us-east1'" in expected else 2
    assert expected in " ".join(desk.type("plan", *flags, exits=exits)[1].split())


def test_data_in_a_bucket_keep_the_search_in_its_cloud(desk):
    for url, cloud in (("gs://lab/x", "gcp"), ("s3://lab/x", "aws")):
        desk.rules[cloud] = Bucket(desk.doubles[cloud], f"{url[:2]}://cloudgan")
        found = desk.plan("--provider=cheapest", "--accelerator=a100", f"--data={url}")
        assert found["target"]["provider"] == cloud
        assert "data transfer" in found["cost"]["unknown"], "the region of the bucket is unknown"


class Bucket(RulesDouble):
    """A cloud with a bucket URL instead of a folder."""

    def __init__(self, cloud, url):
        super().__init__(cloud)
        self._url = url

    def store_url(self, place):
        return self._url


def test_a_plan_of_rented_nodes_imports_no_sdk(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from cli.provisioned import Desk\n"
        "from cloudgan.cli.program import Program\n"
        "from cloudgan.api.deploy import deploy\n"
        "from launch.lifecycle.cloud_double import CloudDouble, clouds\n"
        f"made = [CloudDouble(c, pathlib.Path({str(tmp_path)!r})) for c in ('aws', 'azure', 'gcp')]\n"
        "known = clouds(*made)\n"
        "before = set(sys.modules)\n"
        "flags = ['--provider=gcp', '--accelerator=v100:8', '--nodes=2', '--dry-run']\n"
        "try:\n"
        "    Program('cloudgan', '', {'deploy': deploy}, offered={'clouds': known}).run(['deploy', *flags])\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print('SDKS', sorted(loaded & {'boto3', 'botocore', 'google', 'azure', 'kubernetes',"
        " 'tensorflow', 'keras', 'h5py'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "SDKS []"


def test_a_plan_shows_what_waiting_nodes_cost_and_what_they_save(desk):
    flags = (*GCP, "--accelerator=v100:8", "--market=spot")
    plain, kept = desk.plan(*flags), desk.plan(*flags, "--keep-nodes=30m")
    assert kept["node_pool"]["keep_seconds"] == 1800
    part = next(one for one in kept["cost"]["parts"] if one["item"] == "waiting")
    rate = kept["price"]["usd_per_hour"] + kept["cost"]["fees_usd_per_hour"]
    assert part["usd"] == pytest.approx(rate / 2)
    assert part["low_usd"] == 0
    assert known_usd(kept) == pytest.approx(known_usd(plain) + part["usd"])
    out = " ".join(desk.type("plan", *flags, "--keep-nodes=30m")[0].split())
    assert f"which costs up to {part['usd']:.2f} USD and saves that run" in out
    assert "waits 30 min afterwards" in basis_of(kept)["nodes"]


def test_a_budget_pays_for_the_waiting(desk):
    flags = (*GCP, "--accelerator=v100:8", "--market=spot", "--budget-usd=20", "--epochs=1")
    plain, kept = desk.plan(*flags), desk.plan(*flags, "--keep-nodes=30m")
    assert kept["limits"]["deadline_seconds"] < plain["limits"]["deadline_seconds"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--keep-nodes=30",), "did you mean 30h?"),
        (("--keep-nodes=2d",), "nodes wait at most 12h"),
        (("--keep-nodes=30m", "--flex-start"), "omit one of them"),
        (
            ("--keep-nodes=30m", "--provider=kubernetes"),
            "--keep-nodes: only valid with --provider=",
        ),
    ],
)
def test_a_waiting_time_that_cannot_be_is_refused(desk, flags, why):
    assert (
        why
        in desk.type("plan", *(flags if "kubernetes" in flags[-1] else (*GCP, *flags)), exits=2)[1]
    )
