"""Offers of the clouds, and the best ones for a job."""

import datetime as dt
import json
import re

import pytest

from cloudgan.core import machines
from cloudgan.launch.operations.offers_report import OffersReport, price_age
from cloudgan.reports.table import Mark
from cloudgan.schema.presets import PROFILES
from records import epoch, started, stopped, write_run

ANSWERS = {}
"""What the command printed, by its arguments: the catalog is the same in every test."""
JOB = ("--epochs=60", "--max-hours=2")
RUN_OF_TWO = (started(), epoch(0), epoch(1), stopped(20, 9))
OWN_PRICES = """
date: 2026-11-20
nodes:
  - {offer: lab/dgx/room-1, accelerator: H100:8, usd_per_hour: 30}
"""


@pytest.fixture
def offers(cloudgan_here):
    def ask(*arguments, exits=0):
        if arguments not in ANSWERS:
            done = cloudgan_here("offers", *arguments, "--json", exits=exits)
            ANSWERS[arguments] = done.stdout
        return json.loads(ANSWERS[arguments])

    return ask


def test_a_family_of_accelerators_is_listed_with_prices_and_their_age(offers):
    said = offers("--accelerator=h100")
    assert {one["row"]["accelerator"] for one in said["offers"]} == {"H100", "H100-NVL"}
    assert said["choice"] is None
    for one in said["offers"]:
        assert one["row"]["usd_per_hour"] > 0
        assert one["row"]["date"] == "unknown" or dt.date.fromisoformat(one["row"]["date"])
        assert one["grade"] == "modelled"
        assert one["expected_seconds"] is None
        assert one["low_seconds"] < one["high_seconds"]


def test_offers_are_sorted_by_cost_bound_with_unknown_ones_last(offers):
    costs = [one["high_usd"] for one in offers()["offers"]]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)
    assert costs == known + [None] * (len(costs) - len(known))
    assert len(known) < len(costs)


def test_a_job_of_other_networks_and_showers_keeps_their_usual_batch(offers, refused):
    paper, mini = offers("--epochs=60"), offers("--epochs=60", "--preset=mini", "--showers=20000")
    assert (mini["network"], mini["showers"]) == ("mini", 20_000)
    assert "epochs: 20,000 showers; networks mini, 17x17x25 cells" in mini["notes"]
    assert mini["choice"]["chosen"]["high_usd"] < paper["choice"]["chosen"]["high_usd"]
    batches = {one["batch"] for one in mini["choice"]["rows"]}
    assert batches == {PROFILES["mini"].batch}, "nothing is known of larger ones"
    said = refused("offers", "--preset=mini", "--run=mine")
    assert "--run and --preset exclude each other" in said


@pytest.mark.parametrize(
    ("batch", "flags", "said"),
    [
        (
            12_288,
            (),
            r"no single node of \d+ offers .*; give --epochs=N: the nodes of a job share it",
        ),
        (1_000_000, ("--epochs=6",), r"no number of nodes of \d+ offers .* evenly$"),
    ],
)
@pytest.mark.usefixtures("user_folder")
def test_a_global_batch_that_no_node_holds_is_refused(cloudgan_here, batch, flags, said):
    write_run("runs/big", *RUN_OF_TWO, training={"global_batch_size": batch})
    done = cloudgan_here("offers", "--run=big", *flags, exits=5)
    assert re.search(said, done.stderr.strip())


def test_a_job_that_needs_several_nodes_has_a_page_without_a_list_of_single_ones(
    user_folder, cloudgan_here
):
    write_run("runs/big", *RUN_OF_TWO, training={"global_batch_size": 12_288})
    said = cloudgan_here("offers", "--run=big", "--epochs=6", "--report=page.html").stdout
    assert re.search(r"--nodes=[2-9]\d* --global-batch=12288", said)
    page = (user_folder / "page.html").read_text()
    assert "Time against cost" in page
    assert "Offers, one node each" not in page


def test_filters_hold_together(offers):
    said = offers("--provider=gcp", "--region=us-central1", "--market=spot", "--accelerator=v100")
    assert said["offers"]
    for one in said["offers"]:
        row = one["row"]
        assert (row["provider"], row["region"], row["market"]) == ("gcp", "us-central1", "spot")
        assert row["accelerator"] == "V100"


def test_a_measured_offer_costs_what_the_paper_says(offers):
    said = offers("--accelerator=tpu-v3", "--market=on_demand", "--region=us-central1")
    found = {one["row"]["node_type"]: one for one in said["offers"]}["v3-8"]
    assert found["grade"] == "measured"
    usd = found["expected_seconds"] / 3600 * found["row"]["usd_per_hour"]
    assert usd == pytest.approx(0.925, rel=0.01)


def test_the_chosen_option_meets_the_deadline_and_says_what_may_happen(offers):
    choice = offers(*JOB)["choice"]
    way = choice["chosen"]
    assert way["high_seconds"] <= 7200 == choice["deadline_seconds"]
    fitting = [
        one for one in choice["rows"] if one["high_seconds"] <= 7200 and "V100" in one["basis"]
    ]
    assert way["high_usd"] <= min(one["high_usd"] for one in fitting if one["grade"] == "measured")
    assert way["global_batch"] == way["batch"] * way["nodes"] * way["row"]["accelerator_count"]
    assert f"{way['global_batch']} of" in way["learning"]
    assert choice["considered"] > 1000
    assert choice["assumed"]["per_node_hour"] is None


def test_the_rate_of_interruptions_is_that_of_public_traces_and_else_marked_as_assumed(
    offers, cloudgan_here
):
    found, on_aws = offers(*JOB), offers(*JOB, "--provider=aws")
    traced, assumed = (
        [one for one in report["choice"]["rows"] if clouds(one) and one["spot"]]
        for report, clouds in (
            (on_aws, lambda one: True),
            (found, lambda one: one["row"]["provider"] != "aws"),
        )
    )
    assert traced
    assert assumed
    for one in traced:
        assert one["spot"]["losses_per_node_hour"] == pytest.approx(0.143, abs=0.002)
        assert "public traces of T4 and V100" in one["spot"]["losses_basis"]
        assert "public traces of T4 and V100" in one["spot"]["text"]
    for one in assumed:
        assert one["spot"]["losses_per_node_hour"] == pytest.approx(1 / 24)
        assert one["spot"]["losses_basis"] == "assumed, not measured"
    given = offers(*JOB, "--losses-per-node-hour=0.5", "--accelerator=v100")["choice"]
    assert given["assumed"]["per_node_hour"] == 0.5
    spot = [one["spot"] for one in given["rows"] if one["spot"]]
    assert {(one["losses_per_node_hour"], one["losses_basis"]) for one in spot} == {(0.5, "given")}


@pytest.mark.parametrize(
    ("hours", "market_reason"),
    [
        ("2", "spot costs 23% of on demand, cheaper below"),
        ("0.46", "no number of spot nodes is certain to meet the limits there"),
    ],
)
def test_plan_and_offers_choose_the_same_nodes_and_batch(
    offers, cloudgan_here, hours, market_reason
):
    where = ("--provider=aws", f"--max-hours={hours}")
    way = offers("--epochs=60", *where)["choice"]["chosen"]
    plan = cloudgan_here("plan", *where, "--nodes=auto", "--json").json()
    row = plan["price"]
    assert way["row"] == row
    assert plan["selection"]["market_reason"].startswith(market_reason)
    assert way["nodes"] == plan["workers"]["nodes"]
    assert way["global_batch"] == plan["config"]["training"]["global_batch_size"]


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ((), ("--max-hours=43",)),  # without a limit, plan would end it after 24 h
        (("--max-hours=2",), ("--max-hours=2",)),
        (("--showers=20000",), ("--data=FILE.h5",)),  # else plan would assume the paper's
        (("--provider=lab", "--price-file=own.yaml"), ("--price-file=own.yaml", "--store=")),
    ],
)
def test_the_recommended_command_plans_the_recommended_nodes(
    cloudgan_here, user_folder, flags, has
):
    (user_folder / "own.yaml").write_text(OWN_PRICES)
    said = cloudgan_here("offers", "--epochs=60", *flags, "--json").json()
    report = OffersReport.model_validate(said)
    _, *words = report.view().commands[0][0].split()
    assert all(any(word.startswith(one) for word in words) for one in has)
    plan = cloudgan_here(*(word for word in words if word != "--data=FILE.h5"), "--json").json()
    chosen = report.choice.chosen
    assert plan["workers"]["nodes"] == chosen.nodes
    assert plan["price"]["usd_per_hour"] == chosen.row.usd_per_hour
    if "--data=FILE.h5" not in words:
        seconds = chosen.high_seconds
        assert (plan["cost"] or {}).get("training_seconds", seconds) == pytest.approx(seconds)
        assert not any("may end the run early" in one for one in plan["warnings"])


def test_a_single_epoch_is_no_plural(cloudgan_here):
    said = cloudgan_here("offers", "--epochs=1", "--accelerator=h100-nvl", "--market=spot").stdout
    assert "Cheapest for 1 epoch: " in said


def test_verbose_says_how_the_first_row_is_known_and_why_offers_are_left_out(offers):
    for flags in ((), ("--carbon",), JOB, ("--epochs=1", "--budget-usd=0.01")):
        exits = 5 if "--budget-usd=0.01" in flags else 0
        view = OffersReport.model_validate(offers(*flags, exits=exits)).view()
        said = "\n".join(view.basis)
        assert "30 offers are left out, as in `plan`; -v says why" in view.notes
        counts = re.findall(r"^left out: (\d+) offers? such as \S+: \S", said, re.MULTILINE)
        assert sum(map(int, counts)) == 30
        assert "existing quota" in said
        assert "Blackwell" in said
        assert exits or re.search(r"^time: (measured|modelled), \S", said, re.MULTILINE)


def test_what_no_account_can_get_is_neither_listed_nor_recommended(offers):
    said = offers("--epochs=60")
    reasons = " ".join(group["reason"] for group in said["choice"]["rejected"])
    shown = {one["row"]["node_type"] for one in (*said["offers"], *said["choice"]["rows"])}
    assert (
        not {
            "Standard_ND40rs_v2",
            "v3-32",
            *(one.node_type for one in [one for one in machines.table().values() if one.retired]),
        }
        & shown
    )
    assert "existing quota" in reasons
    assert any("48 offers" in note or "left out" in note for note in said["notes"])


def test_eight_rows_have_each_role_measured_and_modelled(offers):
    rows = offers(*JOB)["choice"]["rows"]
    assert len(rows) <= 8
    roles = {(role, one["grade"]) for one in rows for role in one["best_for"]}
    wanted = ("within limits", "cheapest", "fastest")
    assert {(role, g) for role in wanted for g in ("measured", "modelled")} <= roles
    assert ("safest", "measured") in roles
    assert all(one["spot"] is None for one in rows if "safest" in one["best_for"])
    view = OffersReport.model_validate(offers(*JOB)).view()
    assert view.line.startswith("Cheapest for 60 epochs within 2 h: ")
    assert view.commands[0][0].startswith("cloudgan plan --provider=")
    assert len(view.table.rows) == len(rows), "the front and no list of offers"


@pytest.mark.parametrize("limits", [("--max-hours=2",), ("--max-hours=5", "--budget-usd=100"), ()])
def test_the_cheapest_offer_is_marked_and_no_cheaper_one_that_fits_is_below_it(offers, limits):
    found = OffersReport.model_validate(offers("--epochs=60", *limits))
    first, *others = found.view().table.rows
    assert first[0].startswith("✔ ")
    assert "over" not in first[-1]
    cheaper = [row for row in others if row[1].value < first[1].value]
    assert all(re.search(r"over [\d.]+ (h|USD)", row[-1]) for row in cheaper), "and says why"
    assert bool(cheaper) == bool(limits)
    assert all(re.fullmatch(r"(\d+ (s|min|h|d) ?)+", row[2].text) for row in (first, *others))


def test_equal_prices_in_several_regions_are_one_row(offers):
    rows = offers(*JOB, "--accelerator=v100", "--provider=gcp")["choice"]["rows"]
    assert any(len(one["regions"]) > 1 for one in rows)
    places = [(one["row"]["node_type"], one["nodes"], one["high_usd"]) for one in rows]
    assert len(set(places)) == len(places)


def test_the_screens_of_the_page_are_what_the_command_prints():
    from cli import write_golden

    text = write_golden.OFFERS.read_text(encoding="utf-8")
    assert write_golden.screens() == text, (
        "if the change is intended: make golden, and read the diff"
    )


def test_spot_options_have_a_break_even_and_a_checkpoint_interval(offers):
    front = offers(*JOB)["choice"]["pareto_front"]
    risks = [one["spot"] for one in front if one["row"]["market"] == "spot"]
    breaks_even = [one["break_even_losses_per_node_hour"] for one in risks]
    assert all(losses is None or losses > 0 for losses in breaks_even)
    assert any(breaks_even)
    for one in risks:
        assert 0 < one["interruption"] < 1
        assert "the chance of no preemption" in one["text"]
        assert one["checkpoint_every_seconds"] > 60
    assert not [one for one in front if one["row"]["market"] == "on_demand" and one["spot"]]


def test_only_measured_accelerators_on_request(offers):
    said = offers("--measured", *JOB)
    names = {one["row"]["accelerator"] for one in said["offers"]}
    assert names == {"V100"}
    assert "V100" in said["choice"]["chosen"]["basis"]


def test_a_budget_without_deadline_selects_the_fastest_option(offers):
    found = offers("--epochs=60", "--budget-usd=150", "--accelerator=v100")
    first, *others = OffersReport.model_validate(found).view().table.rows
    assert first[0].startswith("✔ ")
    assert {row[-1].rpartition(", ")[2] for row in others if row[1].value < first[1].value} == {
        "slower"
    }
    choice = found["choice"]
    within = [one["high_seconds"] for one in choice["pareto_front"] if one["high_usd"] <= 150]
    assert choice["chosen"]["high_seconds"] == min(within)


def test_where_nothing_fits_the_smallest_change_that_fits_is_named(offers, cloudgan_here):
    flags = ("--epochs=60", "--max-hours=0.01")
    choice = offers(*flags, exits=5)["choice"]
    assert choice["chosen"] is None
    assert "the fastest takes" in choice["why_none"]
    assert choice["pareto_front"]
    text = cloudgan_here("offers", *flags, exits=5).stdout
    assert f"smallest change that fits: {choice['changes'][0]}" in text
    assert "✗ no offer is certain to finish the job within 0.01 h\n" in text
    hours = choice["changes"][0].partition("--max-hours=")[2].rstrip(")")
    assert offers("--epochs=60", f"--max-hours={hours}")["choice"]["chosen"]


def test_spot_is_the_change_where_on_demand_costs_too_much(offers):
    flags = ("--epochs=60", "--max-hours=2", "--budget-usd=150", "--accelerator=v100")
    choice = offers(*flags, "--market=on_demand", exits=5)["choice"]
    assert choice["changes"][0] == "--market=spot"


def test_the_throughput_of_an_own_run_is_used(offers, run_on):
    said = offers(f"--run={run_on('Tesla T4', 'mini')}", "--accelerator=t4", "--epochs=2")
    assert said["network"] == "mini"
    assert said["showers"] == 1000
    assert said["measured_runs"] == ["mine on 1 x T4"]
    one = next(o for o in said["offers"] if o["row"]["accelerator_count"] == 1)
    assert one["expected_seconds"] == 100.0
    assert one["basis"] == "mine on 1 x T4"


def test_a_cpu_run_of_another_network_has_bounds_from_the_papers_runs_as_in_plan(offers, run_on):
    said = offers(f"--run={run_on('CPU', 'mini')}", "--epochs=2")
    assert said["measured_runs"] == []
    assert {one["grade"] for one in said["offers"] if one["grade"]} == {"modelled"}
    one = next(one for one in said["offers"] if one["row"]["accelerator"] == "V100")
    assert "0.0021 to 0.015 times the work of the paper's network" in one["basis"]
    assert said["choice"]["chosen"]
    assert any("throughput of the run not used" in note for note in said["notes"])


def test_a_cpu_run_of_the_papers_network_uses_the_papers_throughput(offers, run_on):
    said = offers(f"--run={run_on('CPU')}", "--accelerator=tpu-v3")
    one = next(o for o in said["offers"] if o["row"]["node_type"] == "v3-8")
    assert one["expected_seconds"] == pytest.approx(416.29 * 1000 / 124_987, rel=0.05)


def test_the_table_of_offers_shows_unknown_values_and_counts_omitted_rows(offers):
    found = OffersReport.model_validate(offers())
    assert len(found.view().table.rows) == 8
    everything = found.model_copy(update={"shows_all": True}).view().table.rows
    assert len(everything) > 100
    assert None in everything[-1]


def test_the_summary_has_the_selected_option_and_its_assumptions(offers):
    view = OffersReport.model_validate(offers(*JOB, "--provider=aws")).view()
    said = "\n".join((*view.basis, *view.notes))
    assert "preemptions per hour and node: 0.14 (public traces of T4 and V100" in said
    assert "assumed, not measured: 600 s to restart" in said
    assert "batch: 512 showers per replica" in said
    assert "may be older than 90 days: `cloudgan prices refresh`" in said


def test_the_page_holds_plot_tables_and_sources(offers):
    from cloudgan.reports.page import render

    page = render(OffersReport.model_validate(offers(*JOB)).page())
    assert "Time against cost" in page
    assert "gcp/v5litepod-1/us-central1/spot" in page
    assert "throughput from: paper&#39;s run on 128 x V100" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_page_ranks_in_its_first_column_and_marks_the_chosen_option(offers):
    found = OffersReport.model_validate(offers("--epochs=60", "--max-hours=2"))
    choice = found.choice.model_copy(update={"options": found.choice.pareto_front})
    found = found.model_copy(update={"choice": choice})
    plot, front, _ = found.page().sections[0].blocks
    numbers = {point.label: point.text for one in plot.series for point in one.points}
    assert [numbers[f"{option.nodes} x {option.row.offer}"] for option in choice.pareto_front] == [
        str(number + 1) for number in range(len(front.rows))
    ]
    assert front.columns[:2] == ("USD at most", "time at most")
    (marked,) = [row for row in front.rows if isinstance(row[3], Mark)]
    assert marked[0].value == found.choice.chosen.usd
    alone = found.model_copy(update={"choice": None})
    (every,) = alone.page().sections[0].blocks
    assert every.columns[0] == "USD/epoch at most"
    kinds = [series.label.split(", ") for series in plot.series]
    assert len(kinds) > 2
    for (cloud, market), series in zip(kinds, plot.series, strict=True):
        assert series.style.second == (market == "spot")
        same = {one.style.number for one in plot.series if one.label.startswith(cloud)}
        assert same == {sorted({name for name, _ in kinds}).index(cloud)}


def test_with_all_or_a_report_every_configuration_is_there(cloudgan_here, tmp_path):
    file = tmp_path / "offers.html"
    flags = (*JOB, "--accelerator=v100", "--measured", "--all", f"--report={file}", "--json")
    found = OffersReport.model_validate_json(cloudgan_here("offers", *flags).stdout)
    assert len(found.choice.options) > len(found.choice.pareto_front)
    assert len(found.view().table.rows) == len(found.choice.options) > 8
    assert "Time against cost" in file.read_text(encoding="utf-8")


def test_a_spot_price_that_was_read_twice_is_shown_with_its_range(offers, cloudgan_here):
    node = ("--accelerator=h100-nvl", "--provider=azure", "--market=spot")
    moved = "azure/Standard_NC40ads_H100_v5/eastus/spot 1.29 to 2.192 USD/h since 2026-05-17"
    assert f"spot price: {moved}" in offers(*node)["notes"]
    found = OffersReport.model_validate(offers(*node, "--epochs=1"))
    (row,) = found.choice.rows[:1]
    assert row.row.range_text == "1.29 to 2.192 USD/h since 2026-05-17"
    said = "\n".join(found.view().basis)
    assert "price of a node: 1.29 to 2.192 USD/h since 2026-05-17" in said


def test_the_range_of_a_spot_price_is_that_of_the_offer_in_the_first_line(offers):
    found = offers("--accelerator=t4", "--provider=azure")
    first = found["offers"][0]["row"]["region"]
    ranges = {
        one["row"]["region"]
        for one in found["offers"]
        if one["row"]["note"] and one["row"]["market"] == "spot"
    }
    assert ranges - {first}, "another region has a range"
    assert not any(note.startswith("spot price:") for note in found["notes"])


def test_a_row_of_an_epoch_is_one_node_type_and_market_and_with_all_its_regions(
    cloudgan_here, offers
):
    flags = ("--accelerator=t4", "--provider=azure")
    few, every = (cloudgan_here("offers", *flags, *more).stdout for more in ((), ("--all",)))
    rows = [line for line in few.splitlines() if line.startswith("NC")]
    names = [(line.split()[0], line.partition(" Azure ")[2]) for line in rows]
    assert len(names) == len(set(names)) == 4
    shown = [line for line in every.splitlines() if line.startswith("NC")]
    assert len(shown) == len(offers(*flags)["offers"])
    assert all(line.endswith(("eastus", "westus2")) for line in shown)
    assert "--epochs=60 --max-hours=2 beside these flags is for a whole job" in few


def test_a_slice_that_deploy_refuses_is_shown_only_if_it_is_asked_for(offers):
    def slices(*flags):
        return {one["row"]["node_type"] for one in offers(*flags)["offers"]}

    named = slices("--accelerator=tpu-v5e")
    assert named - slices("--provider=gcp") == {"v5litepod-16"}
    (left_out,) = (
        one for one in offers("--provider=gcp")["left_out"] if "several VMs" in one["reason"]
    )
    assert left_out["count"]


def test_an_unconfirmed_price_is_marked(offers):
    found = OffersReport.model_validate(offers("--accelerator=a100", "--provider=gcp"))
    assert "C" in {one.row.confidence for one in found.offers}
    for one in found.offers:
        assert ("not confirmed" in price_age(one.row, found.day)) == (one.row.confidence == "C")


def test_carbon_is_sorted_lowest_first_and_unknown_values_have_a_reason(offers, cloudgan_here):
    found = OffersReport.model_validate(offers("--accelerator=v100", "--carbon"))
    known = [o.carbon_g for o in found.offers if o.carbon_g is not None]
    assert known
    assert all(bool(one.why_carbon_unknown) == (one.carbon_g is None) for one in found.offers)
    table = found.model_copy(update={"shows_all": True}).carbon_table()
    shown = [row[2] for row in table.rows]
    assert shown[: len(known)] == sorted(known)
    assert set(shown[len(known) :]) <= {None}
    assert "CO2e" in cloudgan_here("offers", "--accelerator=v100", "--carbon").stdout
    listed = offers("--accelerator=v100", "--carbon")["offers"]
    grams = [one["carbon_g"] for one in listed if one["carbon_g"] is not None]
    assert grams == sorted(grams), "of the file, too"
