"""What can be rented, and what a job should run on."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

from cloudgan.api.offers import OffersReport
from cloudgan.cli.views import offers_page
from cloudgan.core.hardware import Hardware
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.record import Epoch, Numerics, Started
from cloudgan.schema.run_folder import RunFolder

JOB = ("--epochs=60", "--max-hours=2")


@pytest.fixture
def offers(cloudgan_here):
    def ask(*arguments):
        return json.loads(cloudgan_here("offers", *arguments, "--json").stdout)

    return ask


@pytest.fixture
def run_on(tmp_path):
    """Writes a run with a first epoch of 300 s and a steady one of 100 s."""

    def write(device, preset="paper", replicas=1):
        folder = RunFolder(tmp_path / "mine")
        folder.write_config(RunConfig(model=find_preset(preset)))
        numerics = Numerics(
            processor="a chip",
            device=device,
            threads=2,
            replicas=replicas,
            workers=1,
            global_batch_size=32 * replicas,
            precision="float32",
            math_library="oneDNN",
            tensorflow="2.21",
            keras="3.15",
        )
        start = Started(
            time="2026-11-21T12:00:00Z",
            step=0,
            config_hash="abc",
            training_showers=1000,
            held_out_showers=10,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
            numerics=numerics,
            versions={},
            git_commit=None,
            strategy="one",
            loop="custom",
            learning_rate=0.001,
            notes=(),
            startup_seconds=5,
        )
        record.append(folder.record_file, start)
        for number, seconds in enumerate((300.0, 100.0)):
            record.append(
                folder.record_file,
                Epoch(
                    time="2026-11-21T12:00:00Z",
                    step=number + 1,
                    epoch=number,
                    first=number == 0,
                    complete=True,
                    steps=31,
                    samples=992,
                    carried_samples=0,
                    dropped_samples=8,
                    train_seconds=seconds,
                    trace_seconds=1,
                    validation_seconds=2,
                    checkpoint_seconds=1,
                    samples_per_second=10,
                    losses={},
                    held_out_losses=None,
                ),
            )
        return folder.path

    return write


def test_a_family_of_accelerators_is_listed_with_prices_and_their_age(offers):
    said = offers("--accelerator=h100")
    assert {one["accelerator"] for one in said["offers"]} == {"H100", "H100-NVL"}
    assert said["choice"] is None
    for one in said["offers"]:
        assert one["usd_per_hour"] > 0
        assert one["usd_per_accelerator_hour"] * one["accelerator_count"] == pytest.approx(
            one["usd_per_hour"]
        )
        dated = None if one["date"] == "unknown" else dt.date.fromisoformat(one["date"])
        assert (one["age_days"] is None) == (dated is None)
        assert one["epoch"]["grade"] == "not measured"
        assert one["epoch"]["seconds"] is one["usd_per_epoch"] is None


def test_offers_are_sorted_by_cost_bound_with_unknown_ones_last(offers):
    costs = [one["usd_per_epoch_high"] for one in offers()["offers"]]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)
    assert costs == known + [None] * (len(costs) - len(known))
    assert len(known) < len(costs)


def test_filters_hold_together(offers):
    said = offers("--provider=gcp", "--region=us-central1", "--market=spot", "--accelerator=v100")
    assert said["offers"]
    for one in said["offers"]:
        assert (one["provider"], one["region"], one["market"]) == ("gcp", "us-central1", "spot")
        assert one["accelerator"] == "V100"


def test_a_measured_offer_costs_what_the_paper_says(offers):
    said = offers("--accelerator=tpu-v3", "--market=on_demand", "--region=us-central1")
    found = {one["node_type"]: one for one in said["offers"]}["v3-8"]
    assert found["epoch"]["grade"] == "measured"
    assert found["usd_per_epoch"] == pytest.approx(0.925, rel=0.01)


def test_the_chosen_option_meets_the_deadline_and_says_what_may_happen(offers):
    choice = offers(*JOB)["choice"]
    way = choice["chosen"]
    assert way["seconds"] <= 7200 == choice["deadline_seconds"]
    fitting = [one["usd"] for one in choice["pareto_front"] if one["seconds"] <= 7200]
    assert way["usd"] == min(fitting)
    assert choice["considered"] > 1000
    assert "10(1/6)" in choice["unknown"][0]["why"]
    assert choice["assumed"]["per_node_hour"] == pytest.approx(1 / 24)


def test_spot_options_have_a_break_even_and_a_checkpoint_interval(offers):
    front = offers(*JOB)["choice"]["pareto_front"]
    spot = [one for one in front if one["offer"].endswith("/spot")]
    assert spot
    for one in spot:
        assert "the chance of no preemption" in one["risk"]
        assert one["break_even_losses_per_node_hour"] > 0
        assert one["checkpoint_every_seconds"] > 60
    for one in front:
        if one not in spot:
            assert one["risk"] == ""
            assert one["break_even_losses_per_node_hour"] is None


def test_with_frequent_preemptions_on_demand_wins(offers):
    choice = offers(*JOB, "--losses-per-node-hour=20")["choice"]
    assert choice["chosen"]["offer"].endswith("/on_demand")
    assert {one["offer"].rsplit("/", 1)[-1] for one in choice["pareto_front"]} == {"on_demand"}


def test_only_measured_accelerators_on_request(offers):
    said = offers("--measured", *JOB)
    names = {one["accelerator"] for one in said["offers"]}
    assert names == {"V100", "TPU-v2", "TPU-v3"}
    assert said["choice"]["chosen"]["grade"] != "not measured"


def test_a_budget_without_deadline_selects_the_fastest_option(offers):
    choice = offers("--epochs=60", "--budget-usd=20")["choice"]
    within = [one["seconds"] for one in choice["pareto_front"] if one["usd"] <= 20]
    assert choice["chosen"]["seconds"] == min(within)


def test_an_infeasible_deadline_is_reported_with_the_nearest_option(offers):
    choice = offers("--epochs=60", "--max-hours=0.01")["choice"]
    assert choice["chosen"] is None
    assert "the fastest takes" in choice["why_none"]
    assert choice["pareto_front"]


def test_the_throughput_of_an_own_run_is_used(offers, run_on):
    said = offers(f"--run={run_on('Tesla T4', 'mini')}", "--accelerator=t4", "--epochs=2")
    assert said["network"] == "mini"
    assert said["showers"] == 1000
    assert said["measured_runs"] == ["mine on 1 x T4"]
    one = next(o for o in said["offers"] if o["accelerator_count"] == 1)
    assert one["epoch"]["seconds"] == 100.0
    assert one["epoch"]["basis"] == "mine on 1 x T4"


def test_a_cpu_run_of_another_network_gives_no_throughput_of_gpus(offers, run_on):
    said = offers(f"--run={run_on('CPU', 'mini')}", "--epochs=2")
    assert {one["usd_per_epoch_high"] for one in said["offers"]} == {None}
    assert all("network 'mini'" in one["why_unknown"] for one in said["offers"])
    assert said["choice"]["chosen"] is None
    assert "the speed of all these offers is unknown" in said["choice"]["why_none"]
    assert any("throughput of the run not used" in note for note in said["notes"])


def test_a_cpu_run_of_the_papers_network_uses_the_papers_throughput(offers, run_on):
    said = offers(f"--run={run_on('CPU')}", "--accelerator=tpu-v3")
    one = next(o for o in said["offers"] if o["node_type"] == "v3-8")
    assert one["epoch"]["seconds"] == pytest.approx(416.29 * 1000 / 124_987)


@pytest.mark.parametrize(
    ("arguments", "message", "exits"),
    [
        (("--accelerator=H1000",), "Did you mean 'H100'?", 2),
        (("--provider=gpc",), "Did you mean 'gcp'?", 2),
        (("--region=us-centrall1",), "Did you mean 'us-central1'?", 2),
        (("--market=spott",), "Did you mean 'spot'?", 2),
        (("--max-hours=2",), "such as --epochs=60", 2),
        (("--epochs=60", "--max-hours=2h"), "--max-hours must be a number", 2),
        (("--epochs=0",), "--epochs=0: expected at least 1", 2),
        (("--epochs=60", "--budget-usd=0"), "must be above zero", 2),
        (("--epochs=6", "--restart-seconds=-1"), "--restart-seconds=-1: expected at least 0", 2),
        (("--run=nowhere",), "no run record", 2),
        (("--accelerator=TPU-v3", "--provider=aws"), "no current price matches aws TPU-v3", 5),
        (("--accelerator=h100", "--measured"), "measured: TPU-v2, TPU-v3, V100", 5),
    ],
)
def test_an_error_names_the_valid_values_and_the_next_command(
    cloudgan_here, arguments, message, exits
):
    assert message in cloudgan_here("offers", *arguments, exits=exits).stderr


def test_offers_import_no_heavy_package():
    program = (
        "import sys\nfrom cloudgan.cli.main import main\n"
        "try: main(['offers', '--epochs=60', '--max-hours=2', '--json'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'tensorflow', 'keras', 'boto3'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_offers_shows_unknown_values_and_counts_omitted_rows(offers):
    found = OffersReport.model_validate(offers())
    table = found.table(most=3)
    assert len(table.rows) == 3
    assert f"{len(found.offers) - 3} more are omitted" in table.caption
    assert None in found.table(most=10_000).rows[-1]


def test_for_a_job_the_terminal_shows_the_front_and_no_list_of_offers(offers, cloudgan_here):
    found = OffersReport.model_validate(offers(*JOB))
    assert len(found.table(most=3).rows) == len(found.choice.pareto_front)
    assert "Offers, one node each" not in cloudgan_here("offers", *JOB).stdout


def test_the_summary_has_the_selected_option_and_its_assumptions(offers):
    said = "\n".join(offers_page.summary_lines(OffersReport.model_validate(offers(*JOB))))
    assert "cheapest for 60 epochs within 120 min" in said or "within 2 h" in said
    assert "assumed for spot nodes" in said
    assert "not ranked" in said
    assert "undated" in said


def test_the_page_holds_plot_tables_and_sources(offers):
    from cloudgan.reports.page import render

    page = render(offers_page.offers_page(OffersReport.model_validate(offers(*JOB))))
    assert "Time against cost" in page
    assert "gcp/v3-8/us-central1/spot" in page
    assert "throughput from: paper&#x27;s run on 128 x V100" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_report_file_has_all_options_of_the_plot(cloudgan_here, tmp_path):
    file = tmp_path / "offers.html"
    said = json.loads(
        cloudgan_here("offers", *JOB, "--measured", f"--report={file}", "--json").stdout
    )
    assert len(said["choice"]["options"]) > len(said["choice"]["pareto_front"])
    assert "Time against cost" in file.read_text(encoding="utf-8")


def test_an_unconfirmed_price_is_marked(offers):
    found = OffersReport.model_validate(offers("--accelerator=a100", "--provider=gcp"))
    assert "C" in {one.confidence for one in found.offers}
    table = found.table(most=1000)
    for one, row in zip(found.offers, table.rows, strict=True):
        assert ("not confirmed" in row[-1]) == (one.confidence == "C")


def test_carbon_is_sorted_lowest_first_and_unknown_values_have_a_reason(offers, cloudgan_here):
    found = OffersReport.model_validate(offers("--accelerator=v100"))
    known = [o.carbon_g_per_epoch for o in found.offers if o.carbon_g_per_epoch is not None]
    assert known
    assert all(
        bool(one.why_carbon_unknown) == (one.carbon_g_per_epoch is None) for one in found.offers
    )
    table = found.carbon_table(most=1000)
    shown = [row[2] for row in table.rows]
    assert shown[: len(known)] == sorted(known)
    assert set(shown[len(known) :]) <= {None}
    assert "CO2e" in cloudgan_here("offers", "--accelerator=v100", "--carbon").stdout
