"""What can be rented, and what a job should run on."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

from cloudgan.cli import offers_page
from cloudgan.cli.offers_report import OffersReport
from cloudgan.core import record
from cloudgan.core.config import RunConfig
from cloudgan.core.hardware import Hardware
from cloudgan.core.presets import find_preset
from cloudgan.core.record import Epoch, Numerics, Started
from cloudgan.run_folder import RunFolder

JOB = ("--epochs=60", "--deadline=2h")


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
            kernels="oneDNN",
            tensorflow="2.21",
            keras="3.15",
        )
        start = Started(
            time="2026-11-21T12:00:00Z",
            step=0,
            config_hash="abc",
            training_showers=1000,
            held_back_showers=10,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
            numerics=numerics,
            versions={},
            git_commit=None,
            strategy="one",
            loop="custom",
            learning_rate=0.001,
            told=(),
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
                    test_losses=None,
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


def test_the_cheapest_epoch_at_worst_stands_first_and_the_unknown_last(offers):
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


def test_the_chosen_way_meets_the_deadline_and_says_what_may_happen(offers):
    choice = offers(*JOB)["choice"]
    way = choice["chosen"]
    assert way["seconds"] <= 7200 == choice["deadline_seconds"]
    fitting = [one["usd"] for one in choice["front"] if one["seconds"] <= 7200]
    assert way["usd"] == min(fitting)
    assert choice["considered"] > 1000
    assert "10(1/6)" in choice["unknown"][0]["why"]
    assert choice["assumed"]["per_node_hour"] == pytest.approx(1 / 24)


def test_spot_ways_say_when_they_stop_paying_and_how_often_to_save(offers):
    front = offers(*JOB)["choice"]["front"]
    spot = [one for one in front if one["offer"].endswith("/spot")]
    assert spot
    for one in spot:
        assert "the chance that none is lost" in one["risk"]
        assert one["break_even_losses_per_node_hour"] > 0
        assert one["checkpoint_every_seconds"] > 60
    for one in front:
        if one not in spot:
            assert one["risk"] == ""
            assert one["break_even_losses_per_node_hour"] is None


def test_where_nodes_are_lost_all_the_time_on_demand_wins(offers):
    choice = offers(*JOB, "--losses_per_node_hour=20")["choice"]
    assert choice["chosen"]["offer"].endswith("/on_demand")
    assert {one["offer"].rsplit("/", 1)[-1] for one in choice["front"]} == {"on_demand"}


def test_only_measured_accelerators_on_request(offers):
    said = offers("--measured", *JOB)
    names = {one["accelerator"] for one in said["offers"]}
    assert names == {"V100", "TPU-v2", "TPU-v3"}
    assert said["choice"]["chosen"]["grade"] != "not measured"


def test_a_budget_alone_buys_the_fastest(offers):
    choice = offers("--epochs=60", "--budget=20")["choice"]
    within = [one["seconds"] for one in choice["front"] if one["usd"] <= 20]
    assert choice["chosen"]["seconds"] == min(within)


def test_a_job_that_nothing_does_in_time_is_told_with_the_nearest(offers):
    choice = offers("--epochs=60", "--deadline=1m")["choice"]
    assert choice["chosen"] is None
    assert "the fastest takes" in choice["why_none"]
    assert choice["front"]


def test_a_users_run_on_a_known_gpu_is_the_measure(offers, run_on):
    said = offers(f"--run={run_on('Tesla T4', 'mini')}", "--accelerator=t4", "--epochs=2")
    assert said["network"] == "mini"
    assert said["showers"] == 1000
    assert said["measured_runs"] == ["mine on 1 x T4"]
    one = next(o for o in said["offers"] if o["accelerator_count"] == 1)
    assert one["epoch"]["seconds"] == 100.0
    assert one["epoch"]["basis"] == "mine on 1 x T4"


def test_a_laptops_run_of_another_network_says_nothing_about_gpus(offers, run_on):
    said = offers(f"--run={run_on('CPU', 'mini')}", "--epochs=2")
    assert {one["usd_per_epoch_high"] for one in said["offers"]} == {None}
    assert all("network 'mini'" in one["why_unknown"] for one in said["offers"])
    assert said["choice"]["chosen"] is None
    assert "nothing is known of the speed" in said["choice"]["why_none"]
    assert any("speed not used" in note for note in said["notes"])


def test_a_laptops_run_of_the_papers_network_takes_the_papers_speed(offers, run_on):
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
        (("--deadline=2h",), "say how long: --epochs=60", 2),
        (("--epochs=60", "--deadline=2"), "did you mean 2h?", 2),
        (("--epochs=0",), "--epochs must be at least 1", 2),
        (("--epochs=60", "--budget=0"), "must be above zero", 2),
        (("--epochs=6", "--restart_seconds=-1"), "--restart_seconds must not be negative", 2),
        (("--run=nowhere",), "no record of a run here", 2),
        (("--accelerator=TPU-v3", "--provider=aws"), "no current price of aws TPU-v3", 5),
        (("--accelerator=h100", "--measured"), "measured: TPU-v2, TPU-v3, V100", 5),
    ],
)
def test_what_cannot_be_answered_says_what_to_type(cloudgan_here, arguments, message, exits):
    assert message in cloudgan_here("offers", *arguments, exits=exits).stderr


def test_the_answer_needs_none_of_the_heavy_packages():
    program = (
        "import sys\nfrom cloudgan.cli.main import main\n"
        "try: main(['offers', '--epochs=60', '--deadline=2h', '--json'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'tensorflow', 'keras', 'boto3'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_list_of_offers_shows_unknown_as_unknown_and_says_what_is_left_out(offers):
    found = OffersReport.model_validate(offers())
    table = offers_page.table(found, most=3)
    assert len(table.rows) == 3
    assert f"{len(found.offers) - 3} more are left out" in table.caption
    assert None in offers_page.table(found, most=10_000).rows[-1]


def test_for_a_job_the_terminal_shows_the_front_and_no_list_of_offers(offers, cloudgan_here):
    found = OffersReport.model_validate(offers(*JOB))
    assert len(offers_page.table(found, most=3).rows) == len(found.choice.front)
    assert "cheapest epoch" not in cloudgan_here("offers", *JOB).stdout


def test_the_decision_and_its_assumptions_are_said_in_words(offers):
    said = "\n".join(offers_page.shown_lines(OffersReport.model_validate(offers(*JOB))))
    assert "cheapest for 60 epochs within 120 min" in said or "within 2 h" in said
    assert "assumed of spot nodes" in said
    assert "no candidates" in said
    assert "undated" in said


def test_the_page_holds_plot_tables_and_sources(offers):
    from cloudgan.reports.page import render

    page = render(offers_page.offers_page(OffersReport.model_validate(offers(*JOB))))
    assert "Time against cost" in page
    assert "gcp/v3-8/us-central1/spot" in page
    assert "speed from: paper&#x27;s run on 128 x V100" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_report_file_is_written_with_all_ways_of_the_plot(cloudgan_here, tmp_path):
    file = tmp_path / "offers.html"
    said = json.loads(
        cloudgan_here("offers", *JOB, "--measured", f"--report={file}", "--json").stdout
    )
    assert len(said["choice"]["ways"]) > len(said["choice"]["front"])
    assert "Time against cost" in file.read_text(encoding="utf-8")


def test_a_price_that_nobody_confirmed_says_so(offers):
    found = OffersReport.model_validate(offers("--accelerator=a100", "--provider=gcp"))
    assert "C" in {one.confidence for one in found.offers}
    table = offers_page.table(found, most=1000)
    for one, row in zip(found.offers, table.rows, strict=True):
        assert ("not confirmed" in row[-1]) == (one.confidence == "C")


def test_carbon_is_shown_on_request_least_first_and_unknown_says_why(offers, cloudgan_here):
    found = OffersReport.model_validate(offers("--accelerator=v100"))
    known = [o.carbon_g_per_epoch for o in found.offers if o.carbon_g_per_epoch is not None]
    assert known
    assert all(
        bool(one.why_carbon_unknown) == (one.carbon_g_per_epoch is None) for one in found.offers
    )
    table = offers_page.carbon_table(found, most=1000)
    shown = [row[2] for row in table.rows]
    assert shown[: len(known)] == sorted(known)
    assert set(shown[len(known) :]) <= {None}
    assert "CO2e" in cloudgan_here("offers", "--accelerator=v100", "--carbon").stdout
