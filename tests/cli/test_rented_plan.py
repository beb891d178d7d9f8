"""`plan` for nodes that are made for a run: which offer, what it costs in all, and why not others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.cost.catalog import load_catalog
from launching.cloud_double import RulesDouble

GCP = ("--provider=gcp",)
HERE = Path(__file__).parents[1]


def offer_of(plan):
    row = plan["price"]
    return f"{row['provider']}/{row['node_type']}/{row['region']}/{row['market']}"


def known_usd(plan):
    return plan["cost"]["known_usd"]


def reasons(plan):
    return {group["why"] for group in plan["choice"]["passed_over"]}


def test_a_plan_names_account_region_zone_cluster_market_and_why(desk):
    flags = ("--accelerator=v100:8", "--project=lab-7", "--zone=us-central1-b", "--nodes=2")
    told = desk.type("plan", *GCP, *flags, "--region=us-central1")[0]
    lines = {line.partition(" ")[0]: line for line in told.splitlines() if line[:1].strip()}
    where = "gcp (account lab-7, region us-central1, zone us-central1-b, cluster cloudgan)"
    assert where in lines["where"]
    assert "2 x n1-standard-64+8xV100, spot" in lines["rents"]
    assert "of on demand and pays while a node is lost less than once in" in lines["market"]
    assert "assumed, since nobody measured it: once in 24 h" in lines["market"]
    assert "an undated price" in lines["costs"]
    assert "at least" in lines["in"]
    assert "unknown: staging of wheels and data" in lines["in"]
    assert "4.5 min to 9 min (as others measured it, https://github.com/" in lines["starts"]
    assert "gcp/n1-highmem-64+8xV100/us-central1/spot" in lines["next"]
    assert "POST https://cloud.example/us-central1/" in told


def test_a_plan_needs_no_login_and_asks_no_cloud(desk):
    desk.doubles["gcp"].nobody = True
    assert desk.plan(*GCP, "--accelerator=v100:8")["place"]["account"] == "<account>"
    assert desk.doubles["gcp"].calls == []


def test_the_whole_job_decides_and_not_the_hour(desk):
    """A v3-8 is slower than eight V100 and cheaper by the hour; the v2-8 is cheaper still."""
    found = desk.plan(*GCP)
    assert found["price"]["node_type"] == "v3-8"
    rates = {row.node_type: row.usd_per_hour for row in load_catalog().find(market="spot")}
    assert rates["v2-8"] < rates["v3-8"], "the cheapest hour is another's"
    others = [one["known_usd"] for one in found["choice"]["alternatives"]]
    assert known_usd(found) <= min(others)


@pytest.mark.parametrize(
    ("flags", "clouds"),
    [((), {"aws", "azure", "gcp"}), (("--region=us-east-1",), {"aws"})],
)
def test_cheapest_compares_all_clouds(desk, flags, clouds):
    names = desk.plan("--provider=cheapest", "--accelerator=a100", *flags)
    seen = {offer_of(names).partition("/")[0]}
    seen |= {one["offer"].partition("/")[0] for one in names["choice"]["alternatives"]}
    seen |= {
        example.partition("/")[0]
        for group in names["choice"]["passed_over"]
        for example in group["examples"]
    }
    assert seen <= clouds
    assert offer_of(names).partition("/")[0] in clouds


def test_only_the_regions_that_were_named_count(desk):
    found = desk.plan(*GCP, "--accelerator=v100:8", "--region=us-east1,europe-west4")
    regions = {one["offer"].split("/")[2] for one in found["choice"]["alternatives"]}
    assert regions | {found["place"]["region"]} == {"us-east1", "europe-west4"}


@pytest.mark.parametrize(
    ("flags", "zone", "region"),
    [
        (["--provider=gcp", "--accelerator=l4:1"], "europe-west4-a", "europe-west4"),
        (["--provider=aws", "--accelerator=v100:8"], "eu-west-1b", "eu-west-1"),
        (
            ["--provider=gcp", "--accelerator=l4:1", "--region=us-central1,europe-west4"],
            "europe-west4-a",
            "europe-west4",
        ),
    ],
)
def test_a_zone_that_was_named_restricts_the_choice_to_its_region(desk, flags, zone, region):
    elsewhere = desk.plan(*flags)["place"]["region"]
    assert elsewhere != region, "else this test shows nothing"
    assert desk.plan(*flags, f"--zone={zone}")["place"]["region"] == region


def test_zones_of_azure_are_in_every_region(desk):
    flags = ("--provider=azure", "--accelerator=t4:1")
    assert desk.plan(*flags, "--zone=2")["place"]["region"] == desk.plan(*flags)["place"]["region"]


def test_a_zone_without_a_price_says_so_of_its_region(desk):
    said = desk.type("plan", *GCP, "--accelerator=v100:8", "--zone=asia-east1-c", exits=5)[1]
    assert "no price is known of v100:8 on gcp in asia-east1" in said


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
    found = desk.plan("--provider=aws", "--accelerator=v100:8")
    assert found["price"]["accelerator"] == "V100", "V100-32GB was never measured, nor named"


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [("v3-8", "v3-8", 4), ("v2-32", "v2-32", 16), ("n1-standard-8+1xT4", "n1-standard-8+1xT4", 1)],
)
def test_a_type_of_node_is_as_good_as_an_accelerator(desk, name, kind, count):
    found = desk.plan(*GCP, f"--accelerator={name}")
    assert found["rental"]["node_type"] == kind
    assert found["workers"]["accelerators_per_node"] == count
    assert found["workers"]["nodes"] == 1


def test_what_was_never_measured_is_taken_only_if_it_is_named_or_allowed(desk):
    measured = {"V100", "TPU-v2", "TPU-v3"}
    plain = desk.plan("--provider=cheapest")
    assert plain["price"]["accelerator"] in measured
    assert any("never measured" in why for why in reasons(plain))
    allowed = desk.plan("--provider=cheapest", "--allow_unmeasured")
    assert not any("never measured" in why for why in reasons(allowed))
    assert desk.plan("--provider=gcp", "--accelerator=t4")["price"]["accelerator"] == "T4"


def test_a_network_that_was_never_measured_goes_by_the_hour_and_says_so(desk):
    found = desk.plan(*GCP, "--accelerator=t4", "--preset=smoke")
    assert "nothing is known of its speed" in found["choice"]["why"]
    assert "training, lost nodes included" in found["cost"]["unknown"]
    assert found["forecast"]["high_usd"] is None
    said = desk.type("plan", *GCP, "--preset=smoke", exits=5)[1]
    assert "never measured" in said


def test_spot_is_decided_by_its_break_even_or_by_whoever_asks(desk):
    flags = (*GCP, "--accelerator=v100:8", "--region=us-central1")
    auto, always, never = (
        desk.plan(*flags, f"--spot={how}") for how in ("auto", "always", "never")
    )
    assert [one["rental"]["market"] for one in (auto, always, never)] == [
        "spot",
        "spot",
        "on_demand",
    ]
    assert "pays while" in auto["choice"]["market_why"]
    assert always["choice"]["market_why"] == "--spot=always"
    assert never["choice"]["market_why"] == "--spot=never"


def test_a_plan_on_spot_says_what_on_demand_would_cost(desk):
    flags = (*GCP, "--accelerator=v100:8", "--region=us-central1", "--nodes=2")
    told = [text for text in desk.plan(*flags)["warnings"] if "on demand for" in text]
    full = load_catalog().row("gcp/n1-standard-64+8xV100/us-central1/on_demand")
    assert f"on demand for {2 * full.usd_per_hour:.2f} USD per hour" in told[0]
    always = desk.plan(*flags, "--spot=always")["warnings"]
    assert not [text for text in always if "on demand for" in text]


def test_spot_nodes_are_waited_for_only_until_on_demand_is_taken(desk):
    flags = (*GCP, "--accelerator=v100:8", "--gang_timeout=1h")
    waits = [
        desk.plan(*flags, *more)["limits"]["gang_timeout_seconds"]
        for more in ((), ("--spot_wait=5m",), ("--spot=always",), ("--spot=never",))
    ]
    assert waits == [1200, 300, 3600, 3600]


def test_nodes_auto_is_the_cheapest_within_the_limits_and_keeps_the_global_batch(desk):
    slow, fast = (
        desk.plan("--provider=aws", "--accelerator=v100", "--nodes=auto", f"--max_hours={hours}")
        for hours in (100, 5)
    )
    assert slow["workers"]["nodes"] < fast["workers"]["nodes"] or known_usd(slow) < known_usd(fast)
    assert {one["config"]["training"]["global_batch_size"] for one in (slow, fast)} == {64}
    assert fast["forecast"]["high_seconds"] <= 5 * 3600
    for one in (slow, fast):
        count = one["workers"]["nodes"] * one["workers"]["accelerators_per_node"]
        assert 64 % count == 0
    given = desk.plan("--provider=aws", "--nodes=auto", "--accelerator=v100", "--global_batch=96")
    assert given["config"]["training"]["global_batch_size"] == 96


def test_nodes_auto_warns_where_batches_become_smaller_than_any_that_was_measured(desk):
    found = desk.plan("--provider=aws", "--accelerator=v100", "--nodes=auto", "--max_hours=5")
    assert any("the speeds were measured with 96" in text for text in found["warnings"])


def test_limits_that_nothing_meets_are_refused_with_how_near_one_comes(desk):
    said = desk.type("plan", *GCP, "--accelerator=v100", "--nodes=auto", "--max_hours=0.1", exits=5)
    assert "no offer is sure to do the job within 0.1 h: the fastest takes" in said[1]


@pytest.mark.parametrize(("most", "exits"), [(30, 0), (5, 5)])
def test_nothing_dearer_by_the_hour_than_allowed_is_taken(desk, most, exits):
    flags = (*GCP, "--accelerator=v100:8", f"--max_usd_per_hour={most}")
    said = desk.type("plan", *flags, exits=exits)
    assert exits == 0 or "USD per hour is more than --max_usd_per_hour=5" in said[1]


def test_a_budget_pays_for_the_start_and_the_cluster_too(desk):
    desk.rules["gcp"] = RulesDouble(desk.doubles["gcp"], engine="cluster")
    flags = (*GCP, "--accelerator=v100:8", "--spot=never", "--max_steps=10", "--budget_usd=20")
    found = desk.plan(*flags)
    rate = found["price"]["usd_per_hour"] + found["cost"]["fees_usd_per_hour"]
    assert found["cost"]["fees_usd_per_hour"] > 0.1
    end = found["limits"]["deadline_seconds"]
    assert end == int(20 / (rate / 3600) - 120 - 300 - found["cost"]["startup_seconds"])


def test_what_is_no_longer_sold_is_said_with_the_nearest_thing(desk):
    flags = ("--provider=azure", "--accelerator=Standard_NC24rs_v3")
    said = " ".join(desk.type("plan", *flags, exits=5)[1].split())
    assert "no longer sold since 2025-03-31; the nearest thing that is: --accelerator=a100" in said


def test_what_a_cloud_cannot_serve_is_passed_over_with_its_reason(desk):
    gcp = desk.doubles["gcp"]
    desk.rules["gcp"] = RulesDouble(gcp, {"v3-8": "TensorFlow has no v3 any more"})
    found = desk.plan(*GCP)
    assert found["price"]["node_type"] != "v3-8"
    assert "TensorFlow has no v3 any more" in reasons(found)


def test_an_unknown_price_never_wins_and_needs_two_words(desk):
    where = (*GCP, "--region=asia-east1")
    said = desk.type("plan", *where, "--accelerator=v100:8", exits=5)[1]
    assert "no price is known of v100:8 on gcp in asia-east1" in said
    said = desk.type("plan", *where, "--accelerator=v100:8", "--allow_unknown_price", exits=2)[1]
    assert "name a type of node" in said
    named = (*where, "--accelerator=n1-standard-8+1xV100", "--allow_unknown_price")
    found = desk.plan(*named)
    assert found["price"] is found["cost"] is None
    assert found["place"]["region"] == "asia-east1"
    assert found["workers"]["accelerator"] == "V100"
    assert found["rental"]["market"] == "on_demand"
    assert "unknown: nobody knows the price" in desk.type("plan", *named)[0]
    said = desk.type("plan", *named, "--budget_usd=5", exits=2)[1]
    assert "need a price" in said


def test_a_type_that_no_list_has_can_be_rented_all_the_same(desk):
    flags = (*GCP, "--region=us-central1", "--accelerator=a4-highgpu-8g", "--allow_unknown_price")
    assert desk.plan(*flags)["rental"]["node_type"] == "a4-highgpu-8g"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--provider=kubernetes", "--store=gs://x/y", "--spot=never"],
            "--spot mean something where",
        ),
        (["--nodes=auto"], "--nodes=auto chooses among rented nodes"),
        (["--provider=gcp", "--nodes=two"], "must be a whole number or auto"),
        (["--provider=gcp", "--context=lab"], "name a cluster that is there"),
        (["--provider=cheapest", "--store=gs://x/y"], "--store is in one cloud"),
        (["--provider=cheapest", "--project=lab"], "are of one cloud"),
        (["--provider=gcp", "--region=us-centrall"], "no price is known of"),
        (
            ["--provider=gcp", "--region=us-east1", "--zone=us-west1-a"],
            "--zone=us-west1-a is not in --region=us-east1; give --region=us-west1",
        ),
        (["--provider=gcp", "--accelerator=v200"], "unknown accelerator 'v200'"),
        (["--provider=gcp", "--accelerator=v3-8:8"], "a v3-8 has 4 x TPU-v3"),
        (["--provider=gcp", "--accelerator=v3-8", "--nodes=2"], "a TPU slice trains alone"),
        (["--provider=aws", "--as=gcp/v3-8/us-central1/spot"], "is not on --provider=aws"),
    ],
)
def test_what_cannot_be_is_told(desk, flags, told):
    exits = 5 if told in ("no price is known of", "a TPU slice trains alone") else 2
    assert told in " ".join(desk.type("plan", *flags, exits=exits)[1].split())


def test_data_in_a_bucket_keep_the_search_in_its_cloud(desk):
    for url, cloud in (("gs://lab/x", "gcp"), ("s3://lab/x", "aws")):
        desk.rules[cloud] = Bucket(desk.doubles[cloud], f"{url[:2]}://cloudgan")
        found = desk.plan("--provider=cheapest", "--accelerator=a100", f"--data={url}")
        assert found["place"]["provider"] == cloud
        assert "moving the data" in found["cost"]["unknown"], (
            "nobody knows in which region they are"
        )


class Bucket(RulesDouble):
    """A cloud whose bucket is one."""

    def __init__(self, cloud, url):
        super().__init__(cloud)
        self._url = url

    def store(self, place):
        return self._url


def test_a_plan_of_rented_nodes_imports_no_sdk(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from cli.rented import Desk\n"
        "from cloudgan.cli.parsing import Program\n"
        "from cloudgan.cli.deploy import deploy\n"
        "from cloudgan.cli.shared_flags import with_values\n"
        "from launching.cloud_double import CloudDouble, clouds\n"
        f"known = clouds(CloudDouble('gcp', pathlib.Path({str(tmp_path)!r})))\n"
        "before = set(sys.modules)\n"
        "flags = ['--provider=gcp', '--accelerator=v100:8', '--nodes=2', '--dry_run']\n"
        "command = with_values(deploy, clouds=known)\n"
        "try:\n"
        "    Program('cloudgan', '', '1', {'deploy': command}).run(['deploy', *flags])\n"
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
