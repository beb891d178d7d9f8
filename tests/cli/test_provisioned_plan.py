"""`plan` for provisioned nodes: the selected offer, its whole cost, and the reasons against others."""

import datetime as dt
import re

import pytest

from cli.provisioned import basis
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.money.catalog import load_catalog
from cloudgan.money.cost_difference import figures_of_plan
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import without_startup
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Plan
from cloudgan.schema.price_row import HOURLY_FEES
from cloudgan.worker.trainer_process import Timeouts
from launch.clouds.lab import planned
from launch.lifecycle.cloud_double import RulesDouble

GCP = ("--provider=gcp",)
V100 = (*GCP, "--accelerator=v100:8")
CENTRAL = (*V100, "--region=us-central1")


def known_usd(plan):
    return plan["cost"]["known_usd"]


def reasons(plan):
    return {group["reason"] for group in plan["selection"]["rejected_offers"]}


def basis_of(plan):
    """The lines below a plan with -v, by their first word."""
    lines = reversed(basis(plan).splitlines())
    return {line.partition(" ")[0]: line for line in lines if line[:1].strip()}


@pytest.fixture
def real_rules(desk):
    """The planners of the clouds themselves, in place of those of the doubles."""
    desk.rules |= {name: cloud_planner(name) for name in ("aws", "azure", "gcp")}


def test_a_plan_names_account_region_zone_cluster_market_and_why(desk):
    given = (*CENTRAL, "--project=lab-7", "--zone=us-central1-b", "--nodes=2")
    shown, out = desk.plan(*given), desk.type("plan", *given)[0]
    lines = basis_of(shown)
    where = "account lab-7, region us-central1, zone us-central1-b, cluster cloudgan)"
    assert where in lines["target"]
    assert "2 x n1-standard-64+8xV100, spot" in lines["nodes"]
    assert "of on demand, cheaper below one preemption per node in" in lines["market"]
    assert "assumed, not measured: one in 24 h" in lines["market"]
    assert re.search(r"price    at most \d+ days old: `cloudgan prices refresh`", out)
    assert re.search(r"total    \d.* to \d.* USD, plus staging of wheels and data \(unknown\)", out)
    assert "4 to 9 min (published measurement, https://github.com/" in lines["startup"]
    assert "gcp/n1-highmem-64+8xV100/us-central1/spot" in lines["next"]
    assert "POST https://cloud.example/us-central1/" in basis(shown)


@pytest.mark.parametrize(
    ("cloud", "node_type", "what"),
    [
        ("aws", "g4dn.xlarge", "1 node, and a cluster if it is missing, in account "),
        ("azure", "Standard_NC4as_T4_v3", "1 node, and a cluster if it is missing, in subscrip"),
        ("gcp", "g2-standard-4", "1 node, and a cluster if it is missing, in project "),
        ("gcp", "v3-8", "1 node in project "),
    ],
)
def test_the_question_names_a_cluster_where_one_may_be_created(cloud, node_type, what):
    plan = planned(cloud, node_type)
    assert PlanResult(plan=plan).question().startswith(f"Create {what}")


def test_the_same_job_has_a_row_per_cloud_and_market_and_the_chosen_one_is_marked(desk):
    def view_of(found):
        return PlanResult(plan=Plan.model_validate(found)).view()

    flags = (*GCP, "--accelerator=l4")
    found = desk.plan(*flags, "--nodes=2", "--epochs=2")
    first, *others = view_of(found).table.rows
    assert first[:3] == ("✔ GCP", "2 x g2-standard-4", "spot")
    assert first[3].value == known_usd(found)
    assert [row[0].strip() for row in others] == ["GCP", "AWS", "Azure"]
    assert others[-1][1] == "no L4"
    assert all(row[3].value > first[3].value for row in others[:-1])
    spot, on_demand = (row[4].value for row in (first, others[0]))
    assert spot > on_demand, "the time has the preemptions that the cost has"
    training = found["cost"]["parts"][0]["usd"]
    assert training == pytest.approx(found["price"]["usd_per_hour"] * 2 * spot / 3600)
    compared = figures_of_plan(Plan.model_validate(found)).figures
    assert compared["hours"].value == pytest.approx(spot / 3600), "as cost --ci compares"
    part = ("--provider=azure", "--accelerator=Standard_NV6ads_A10_v5", "--nodes=1")
    planned = desk.plan(*part)
    unknown = view_of(planned)
    assert {row[3].value for row in unknown.table.rows if row[2]} == {None}
    said = "total    unknown; 0.09 USD/h with all that bills by the hour, at most "
    assert unknown.notes[0].startswith(said), "0.08 for the nodes, and requests to the bucket"
    planned["cost"]["fees_usd_per_hour"] = 0.3
    said = "total    unknown; 0.38 USD/h with all that bills by the hour, at most "
    assert view_of(planned).notes[0].startswith(said), "more than the nodes of the table"


@pytest.mark.parametrize(
    ("days", "line"),
    [(0, "price    0 days old"), (91, "price    91 days old: `cloudgan prices refresh`")],
)
def test_only_an_old_price_is_to_be_refreshed(desk, days, line):
    found = desk.plan(*CENTRAL)
    day = dt.date.fromisoformat(found["created_at"]) - dt.timedelta(days=days)
    found["price"] |= {"date": day.isoformat(), "note": ""}
    assert line in PlanResult(plan=Plan.model_validate(found)).view().notes


def test_a_run_of_one_s_own_measures_the_network_for_the_next_plan(desk, run_on):
    """The paper has no run of mini: one on a T4 gives time and cost of the same nodes as an interval."""
    flags = (*GCP, "--accelerator=t4", "--preset=mini", "--epochs=3")
    before = desk.plan(*flags)["forecast"]
    run_on("Tesla T4", "mini", folder=desk.folder / "runs" / "mine")
    ahead = desk.plan(*flags)["forecast"]
    assert (ahead["grade"], ahead["basis"].partition(",")[0]) == ("measured", "mine on 1 x T4")
    assert ahead["low_epoch_seconds"] < ahead["epoch_seconds"] < ahead["high_epoch_seconds"]
    assert 0 < ahead["low_usd"] < ahead["high_usd"]
    assert before["grade"] == "modelled"
    widths = [one["high_epoch_seconds"] / one["low_epoch_seconds"] for one in (ahead, before)]
    assert widths[0] < 1.5
    assert widths[1] > 10
    run_on("CPU", "mini", folder=desk.folder / "runs" / "laptop")
    (desk.folder / "runs" / "laptop" / "run.yaml").write_text("{")
    assert desk.plan(*flags)["forecast"] == ahead, "no cloud sells a laptop, and damage is no run"


def test_a_plan_names_the_network(desk):
    found = desk.plan(*V100, "--network=lab", "--subnet=gpus", "--internal-ips")
    asked = {"network": "lab", "subnet": "gpus", "internal addresses": "only"}
    assert asked.items() <= found["target"]["details"].items()
    assert "network lab, subnet gpus, internal addresses only)" in basis_of(found)["target"]


def test_a_plan_needs_no_login_and_asks_no_cloud(desk):
    desk.doubles["gcp"].has_no_login = True
    assert desk.plan(*V100)["target"]["account"] == "<account>"
    assert desk.doubles["gcp"].calls == []


@pytest.mark.parametrize(
    ("line", "clouds"),
    [("", {"aws", "azure", "gcp"}), ("--region=us-east-1", {"aws"})],
)
def test_cheapest_compares_all_clouds(desk, line, clouds):
    found = desk.plan("--provider=cheapest", "--accelerator=a100", *line.split())
    selection = found["selection"]
    offers = [one["row"]["provider"] for one in selection["alternatives"]]
    offers += [each for group in selection["rejected_offers"] for each in group["examples"]]
    assert {found["price"]["provider"], *(each.partition("/")[0] for each in offers)} <= clouds


def test_only_the_regions_that_were_named_count(desk):
    found = desk.plan(*V100, "--region=us-east1,europe-west4")
    regions = {one["row"]["region"] for one in found["selection"]["alternatives"]}
    assert regions | {found["target"]["region"]} == {"us-east1", "europe-west4"}


@pytest.mark.parametrize(
    ("line", "zone", "region"),
    [
        ("--provider=gcp --accelerator=l4:1", "europe-west4-a", "europe-west4"),
        ("--provider=aws --accelerator=a100:8", "eu-west-1b", "eu-west-1"),
        (
            "--provider=gcp --accelerator=l4:1 --region=us-central1,europe-west4",
            "europe-west4-a",
            "europe-west4",
        ),
        ("--provider=azure --accelerator=t4:1 --epochs=5", "2", None),
    ],
)
def test_a_zone_that_was_named_restricts_the_choice_to_its_region(desk, line, zone, region):
    flags = line.split()
    elsewhere = desk.plan(*flags)["target"]["region"]
    assert elsewhere != region, "otherwise this test proves nothing"
    found = desk.plan(*flags, f"--zone={zone}")["target"]["region"]
    assert found == (region or elsewhere), "zones of Azure are in every region"


@pytest.mark.parametrize(
    ("cloud", "name", "kind", "count"),
    [
        ("gcp", "v3-8", "v3-8", 4),
        ("gcp", "v2-32", "v2-32", 16),
        ("gcp", "n1-standard-8+1xT4", "n1-standard-8+1xT4", 1),
        ("gcp", "G2-Standard-24", "g2-standard-24", 2),
        ("gcp", "L4:2", "g2-standard-24", 2),
        ("gcp", "V5E:4", "v5litepod-4", 4),
        ("gcp", "a100-80:1", "a2-ultragpu-1g", 1),
        ("gcp", "a100-80gb:1", "a2-ultragpu-1g", 1),
        ("gcp", "a100", "A100-40GB", None),  # a family is its cheapest member
        ("azure", "a100", None, 1),  # no number is one, where that is sold
        ("aws", "a100", None, 8),  # and else the fewest
        ("azure", "v100-32gb:8", "V100-32GB", 8),  # an exact name is not its relatives
        ("azure", "Standard_NV6ads_A10_v5", "A10(1/6)", 1),  # a named one may be unmeasured
    ],
)
def test_an_accelerator_has_its_usual_names_counts_and_node_types(desk, cloud, name, kind, count):
    found = desk.plan(f"--provider={cloud}", f"--accelerator={name}", "--epochs=5")
    workers, row = found["workers"], found["price"]
    assert kind in {None, found["node_pool"]["node_type"], row["accelerator"]}
    assert workers["accelerator"] == row["accelerator"], "named in the plan"
    assert workers["accelerators_per_node"] == (count or workers["accelerators_per_node"])
    assert workers["nodes"] == 1


def test_an_accelerator_of_unknown_throughput_needs_a_name_or_a_flag(desk):
    """A part of an A10 has no peak performance, so the measured runs say nothing about it."""
    unknown, flags = "no measured run tells the throughput", ("--provider=azure", "--nodes=1")
    plain = desk.plan(*flags)
    assert plain["forecast"]["grade"] == "modelled"
    assert any(unknown in why for why in reasons(plain))
    assert not any(unknown in why for why in reasons(desk.plan(*flags, "--allow-unmeasured")))


def test_the_market_is_selected_by_break_even_or_by_flag(desk):
    chosen = {}
    for how, market in (("auto", "spot"), ("spot", "spot"), ("on_demand", "on_demand")):
        found = desk.plan(*CENTRAL, "--nodes=2", f"--market={how}")
        assert found["node_pool"]["market"] == market
        priced = [text for text in found["warnings"] if "on-demand nodes for" in text]
        chosen[how] = found["selection"]["market_reason"], priced
    assert "cheaper below one preemption" in chosen["auto"][0]
    assert chosen["spot"] == ("--market=spot", [])
    assert chosen["on_demand"][0] == "--market=on_demand"
    named = "gcp/n1-standard-64+8xV100/us-central1/spot"
    reason = desk.plan(*GCP, f"--price-as={named}", "--nodes=2")["selection"]["market_reason"]
    assert reason == f"--price-as={named}", "the other market was not looked at"
    full = load_catalog().row("gcp/n1-standard-64+8xV100/us-central1/on_demand").usd_per_hour
    assert f"on-demand nodes for {2 * full:.2f} USD per hour" in chosen["auto"][1][0]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [("", 1200), ("--spot-wait=5m", 300), ("--market=spot", 3600), ("--market=on_demand", 3600)],
)
def test_with_market_auto_the_gang_timeout_is_the_spot_wait(desk, line, seconds):
    found = desk.plan(*V100, "--gang-timeout=1h", *line.split())
    assert found["limits"]["gang_timeout_seconds"] == seconds


def test_nodes_auto_is_the_cheapest_within_the_limits_with_its_batch(desk):
    def planned(*more):
        found = desk.plan(*GCP, "--nodes=auto", "--accelerator=v100", *more)
        workers = found["workers"]
        replicas = workers["nodes"] * workers["accelerators_per_node"]
        return found, replicas, found["config"]["training"]["global_batch_size"]

    slow, fast = planned("--max-hours=100"), planned("--max-hours=5")
    nodes = [found["workers"]["nodes"] for found, *_ in (slow, fast)]
    assert nodes[0] < nodes[1] or known_usd(slow[0]) < known_usd(fast[0])
    assert fast[0]["forecast"]["high_seconds"] <= 5 * 3600
    for found, count, batch in (slow, fast):
        assert 48 * count <= batch <= 128 * count
        replicas = f"{count} replica{'' if count == 1 else 's'}"
        assert f"{batch} of {replicas}; " in found["selection"]["batch_reason"]
    assert planned("--global-batch=96")[2] == 96
    _, count, batch = planned("--batch=32", "--max-hours=20")
    assert batch == 32 * count


LIMITS = ("--nodes=auto", "--preset=paper", "--epochs=60", "--max-hours=2", "--budget-usd=40")


def test_one_shower_per_gpu_is_not_priced_like_the_measured_batch(desk):
    """64 GPUs with a global batch of 64 were 64 min for 27 USD; each epoch has 1,952 steps."""
    auto = desk.plan("--provider=cheapest", *LIMITS)
    count = auto["workers"]["nodes"] * auto["workers"]["accelerators_per_node"]
    assert auto["config"]["training"]["global_batch_size"] >= 48 * count
    assert auto["forecast"]["high_seconds"] <= 7200
    small = desk.plan(*V100, "--nodes=8", "--global-batch=64", "--max-hours=24")["forecast"]
    assert small["low_seconds"] > 10.8 * 3600
    assert small["grade"] == "modelled"


@pytest.mark.parametrize(
    ("cloud", "region", "beside_usd", "names"),
    [
        (
            *("gcp", "us-central1", (2 * 100 * 0.1 + 32 * 0.04) / 730 + 3 * 0.005),
            "disks addresses cluster_disks cluster_addresses",
        ),
        ("aws", "us-east-1", 2 * 100 * 0.1 / 730 + 2 * 0.005, "disks addresses"),
        (
            *("azure", "eastus", 3 * 128 * 0.153984 / 730 + 0.025 + 0.005),
            "disks load_balancer cluster_addresses cluster_disks",
        ),
    ],
)
@pytest.mark.usefixtures("real_rules")
def test_disks_addresses_and_load_balancers_count_in_forecast_and_deadline(
    desk, cloud, region, beside_usd, names
):
    flags = (f"--provider={cloud}", f"--region={region}", "--market=on_demand", "--nodes=2")
    found = desk.plan(*flags, "--accelerator=t4:1", "--max-steps=10", "--budget-usd=5")
    cost = found["cost"]
    assert set(names.split()) <= {part["item"] for part in cost["parts"]}
    fees, at = load_fees(), (cloud, region)
    for what, hourly in (("writes and lists", 2 * 300 + 700), ("reads", 3600)):
        beside_usd += hourly * fees.find("requests", *at, what).usd / 10_000
    cluster = fees.find("control_plane", *at).usd
    if system_node := fees.find("system_node", *at):
        cluster += fees.dearest(system_node).usd
    assert (system_node is None) == (cloud == "aws"), "on EKS its pods run on the run's nodes"
    assert cost["fees_usd_per_hour"] == pytest.approx(cluster + beside_usd)
    rate = 2 * found["price"]["usd_per_hour"] + cluster + beside_usd
    start = cost["startup_seconds"] or found["limits"]["gang_timeout_seconds"]
    assert found["limits"]["deadline_seconds"] == int(5 / (rate / 3600) - 120 - 300 - start)
    assert cost["unpriced"] == []


@pytest.mark.parametrize("cloud", ["gcp", "azure"])
@pytest.mark.usefixtures("real_rules")
def test_nodes_that_are_ready_cost_as_if_they_started_at_once(desk, cloud):
    """Their cluster, disks and addresses have less time, too."""
    flags = (f"--provider={cloud}", "--accelerator=t4", "--epochs=1", "--market=on_demand")
    plan = Plan.model_validate(desk.plan(*flags))
    before, ready = plan.cost, without_startup(plan)
    of = {part.item: part.usd for part in ready.parts}
    assert of[Item.STARTUP] == 0 < {part.item: part.usd for part in before.parts}[Item.STARTUP]
    assert of[Item.TRAINING] == pytest.approx(
        plan.price.cost_usd(before.training_seconds, plan.workers.nodes)
    )
    hourly = sum(usd for item, usd in of.items() if item in HOURLY_FEES)
    assert hourly == pytest.approx(before.fees_usd_per_hour * before.training_seconds / 3600)
    assert ready.known_usd == pytest.approx(of[Item.TRAINING] + hourly)
    assert ready.known_low_usd < before.known_low_usd


@pytest.mark.usefixtures("real_rules")
def test_a_plan_of_unknown_time_costs_its_budget_at_most_start_and_removal_included(desk):
    part = ("--provider=azure", "--accelerator=Standard_NV6ads_A10_v5", "--nodes=1")
    for usd in (3, 5):
        out = desk.type("plan", *part, f"--budget-usd={usd}")[0]
        assert f"at most {usd}.00 USD until its deadline" in out
    moved = desk.type("plan", *part, "--data=https://a.blob.core.windows.net/c/store")[0]
    assert re.search(r"until its deadline, plus data transfer \(unknown\)", moved)


def test_the_requests_of_a_node_are_those_of_the_periods_of_its_agent():
    ours = {"node_type": "g2-standard-4", "run": "gan", "spec_hash": "", "market": "spot"}
    hourly = {}
    for nodes in (1, 2):
        pool = cloud_planner("gcp").node_pool(NodePoolRequest(**ours, nodes=nodes))
        found = {fee.product: fee.quantity for fee in pool.fees if fee.kind == "requests"}
        hourly[nodes] = nodes * found["writes and lists"]
    every = Timeouts()
    periods = (every.heartbeat_every_seconds, every.log_every_seconds)
    assert hourly[2] - hourly[1] == sum(3600 / seconds for seconds in periods)


T4 = ("--accelerator=t4:1", "--max-steps=10")


@pytest.mark.usefixtures("real_rules")
def test_nodes_with_gpus_use_an_image_of_python_and_not_that_of_tensorflow(desk):
    """TensorFlow's image for GPUs finds none: https://github.com/tensorflow/build/issues/221."""
    image = desk.plan(*GCP, "--region=us-central1", *T4)["workers"]["image"]
    assert image.startswith("python:3.11-slim")


@pytest.mark.parametrize(
    ("cloud", "region", "end"),
    [
        ("gcp", "us-central1", "`cloudgan down gan`"),
        ("azure", "eastus", "`cloudgan down gan`"),
        ("aws", "us-east-1", "the cloud deletes it"),
    ],
)
@pytest.mark.usefixtures("real_rules")
def test_a_plan_states_what_an_abandoned_cluster_costs_per_day(desk, cloud, region, end):
    flags = (f"--provider={cloud}", f"--region={region}", *T4, "--name=gan", "--market=on_demand")
    cost = desk.plan(*flags, "--budget-usd=5")["cost"]
    hourly = cost["cluster_usd_per_hour"]
    assert 0 < hourly < cost["fees_usd_per_hour"], "without what each node costs"
    line = f"  cluster  {24 * hourly:.2f} USD a day if this machine dies, until {end}"
    assert line in desk.type("plan", *flags, "--budget-usd=5")[0].splitlines()


@pytest.mark.usefixtures("real_rules")
@pytest.mark.parametrize("nodes", [("--accelerator=v3-8", "--max-steps=10"), T4])
def test_nodes_without_public_addresses_pay_for_none_and_their_nat_is_unknown(desk, nodes):
    flags = (*GCP, "--region=us-central1", "--market=on_demand", "--budget-usd=50", *nodes)
    for more, kinds in (((), {"public_ip"}), (("--internal-ips",), {"nat"})):
        plan = desk.plan(*flags, *more)
        found = {fee["kind"] for fee in plan["node_pool"]["fees"]}
        assert found - {"disk", "requests"} == kinds
        is_named = "NAT of the network" in plan["cost"]["unknown"]
        assert is_named == ("nat" in kinds)
        assert is_named == any(
            "does not count NAT of the network" in one for one in plan["warnings"]
        )


@pytest.mark.usefixtures("real_rules")
def test_a_fee_without_a_price_is_unknown_and_the_budget_says_so(desk):
    found = desk.plan(*GCP, "--region=us-east1", "--market=on_demand", "--budget-usd=5", *T4)
    disks = next(part for part in found["cost"]["parts"] if part["item"] == "disks")
    no_price = (None, "no price of pd-balanced in us-east1")
    assert (disks["usd"], disks["why_unknown"]) == no_price
    assert "disks of the nodes" in found["cost"]["unpriced"]
    assert any("--budget-usd does not count" in text for text in found["warnings"])


def test_an_offer_that_a_cloud_cannot_serve_is_rejected_with_its_reason(desk):
    why = "TensorFlow has no v3 any more"
    desk.rules["gcp"] = RulesDouble(desk.doubles["gcp"], {"v3-8": why})
    found = desk.plan(*GCP)
    assert found["price"]["node_type"] != "v3-8"
    assert why in reasons(found)


def test_an_unknown_price_never_ranks_and_needs_two_flags(desk):
    where = (*GCP, "--region=asia-east1", "--allow-unknown-price")
    said = desk.type("plan", *where, "--accelerator=v100:8", exits=2)[1]
    assert "give a node type" in said
    named = (*where, "--accelerator=n1-standard-8+1xV100", "--epochs=5")
    found = desk.plan(*named)
    assert found["price"] is found["cost"] is None
    assert found["target"]["region"] == "asia-east1"
    assert found["workers"]["accelerator"] == "V100"
    assert found["node_pool"]["market"] == "on_demand"
    assert "unknown: these nodes have no known price" in desk.type("plan", *named)[0]
    assert "need a price" in desk.type("plan", *named, "--budget-usd=5", exits=2)[1]
    unlisted = (*GCP, "--region=us-central1", "--accelerator=a4-highgpu-8g")
    found = desk.plan(*unlisted, "--allow-unknown-price")
    assert found["node_pool"]["node_type"] == "a4-highgpu-8g"


@pytest.mark.parametrize(("url", "cloud"), [("gs://lab/x", "gcp"), ("s3://lab/x", "aws")])
def test_data_in_a_bucket_keep_the_search_in_its_cloud(desk, url, cloud):
    desk.rules[cloud] = rules = RulesDouble(desk.doubles[cloud])
    rules.store_url = lambda place: f"{url[:2]}://cloudgan"
    found = desk.plan("--provider=cheapest", "--accelerator=a100", f"--data={url}")
    assert found["target"]["provider"] == cloud
    assert "data transfer" in found["cost"]["unknown"], "the region of the bucket is unknown"


def test_the_rows_of_all_clouds_and_markets_count_the_waiting_of_their_nodes(desk):
    flags = ("--provider=cheapest", "--accelerator=l4")
    plain, kept = desk.plan(*flags), desk.plan(*flags, "--keep-nodes=30m")
    selected = [one["selection"]["markets"] for one in (plain, kept)]
    for before, after in zip(*selected, strict=True):
        assert (before["row"]["provider"], before["row"]["market"]) == (
            after["row"]["provider"],
            after["row"]["market"],
        )
        more = after["known_usd"] - before["known_usd"]
        requests = 0.0055 * (1000 + 0.08 * 3600) / 1000
        half_an_hour = (after["row"]["usd_per_hour"] + requests) / 2
        assert more == pytest.approx(half_an_hour, abs=0.0004), "of the node"


def test_a_plan_shows_what_waiting_nodes_cost_and_what_they_save_and_a_budget_pays_for_it(desk):
    flags = (*V100, "--market=spot")
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
    limited = (*flags, "--budget-usd=20", "--epochs=1")
    plain, kept = desk.plan(*limited), desk.plan(*limited, "--keep-nodes=30m")
    assert kept["limits"]["deadline_seconds"] < plain["limits"]["deadline_seconds"]
