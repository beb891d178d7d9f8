"""Comparison of runs, and the paper's runs at the prices of its time and of today."""

from __future__ import annotations

import csv
import json
import re

import pytest

from cloudgan.api.compare import replay_paper
from cloudgan.core.hardware import Hardware
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.record import Epoch, Numerics, Started, Stopped
from cloudgan.schema.run_folder import RunFolder

NOON = "2026-11-21T12:00:00Z"
OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
NUMERICS = Numerics(
    processor="a chip",
    device="CPU",
    threads=2,
    replicas=2,
    workers=1,
    global_batch_size=64,
    precision="float32",
    math_library="oneDNN",
    tensorflow="2.21",
    keras="3.15",
)


def write_run(folder, *, epoch_seconds, global_batch_size=64):
    """A run of three epochs, the first of which traced."""
    folder.mkdir(parents=True)
    file = folder / "record.jsonl"
    record.append(
        file,
        Started(
            time=NOON,
            step=0,
            config_hash="abc",
            training_showers=640,
            held_out_showers=64,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
            numerics=NUMERICS.model_copy(update={"global_batch_size": global_batch_size}),
            versions={"cloudgan": "1"},
            git_commit=None,
            strategy="mirrored",
            loop="custom",
            learning_rate=0.001,
            notes=(),
            startup_seconds=5,
        ),
    )
    for number in range(3):
        first = number == 0
        record.append(
            file,
            Epoch(
                time=NOON,
                step=10 * (number + 1),
                epoch=number,
                first=first,
                complete=True,
                steps=10,
                samples=640,
                carried_samples=0,
                dropped_samples=0,
                train_seconds=epoch_seconds * (2 if first else 1),
                trace_seconds=epoch_seconds if first else 0,
                validation_seconds=2,
                checkpoint_seconds=1,
                samples_per_second=640 / epoch_seconds,
                losses={},
                held_out_losses=None,
            ),
        )
    end = 4 * epoch_seconds + 9 + 5
    record.append(
        file,
        Stopped(time=NOON, step=30, reason="finished", program_seconds=end, train_seconds=end - 14),
    )


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "slow", epoch_seconds=20)
    write_run(tmp_path / "fast", epoch_seconds=10)
    (tmp_path / "no-run").mkdir()
    return tmp_path


def test_runs_are_compared_and_folders_without_a_record_skipped(runs, cloudgan_here):
    said = json.loads(cloudgan_here("compare", f"{runs}/*", "--json").stdout)["runs"]
    assert [one["run"] for one in said] == ["fast", "slow"]
    assert [one["steady_epoch_seconds"] for one in said] == [10, 20]
    assert [one["showers_per_second"] for one in said] == [64, 32]
    assert {one["priced_as"] for one in said} == {None}
    assert all("compute" in one["total"] or "unknown" in one["total"] for one in said)


def test_runs_priced_as_one_offer_cost_in_proportion_to_their_time(runs, cloudgan_here):
    said = cloudgan_here(
        "compare", f"{runs}/slow,{runs}/fast", f"--price-as={OFFER}", "--json"
    ).stdout
    slow, fast = json.loads(said)["runs"]
    assert (slow["run"], fast["run"]) == ("slow", "fast")
    seconds = [4 * s + 9 + 5 for s in (20, 10)]
    assert slow["known_usd"] / fast["known_usd"] == pytest.approx(seconds[0] / seconds[1])


def test_the_csv_report_has_the_rows_of_the_table(runs, cloudgan_here, tmp_path):
    done = cloudgan_here("compare", f"{runs}/*", f"--report={tmp_path}/runs.csv")
    table = [line for line in done.stdout.splitlines() if line.startswith(("fast", "slow"))]
    assert [line.split()[-1] for line in table] == ["unknown", "unknown"]
    assert max(map(len, table)) <= 80
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == ["fast", "slow"]
    assert [float(row["s/epoch"]) for row in rows] == [10, 20]


def test_only_a_faster_run_of_the_same_network_recommends_a_larger_batch(tmp_path, cloudgan_here):
    write_run(tmp_path / "small", epoch_seconds=20)
    write_run(tmp_path / "large", epoch_seconds=10, global_batch_size=256)
    done = cloudgan_here("compare", f"{tmp_path}/*", f"--report={tmp_path}/page.html")
    assert "recommendation for small: the batch per replica is small: 32 showers per second" in (
        said := " ".join(done.stdout.split())
    )
    assert "--batch=128" in said
    assert "recommendation for large: the batch" not in said
    assert "the batch per replica is small" in (tmp_path / "page.html").read_text()
    config = RunConfig(model=find_preset("mini"))
    RunFolder(tmp_path / "large").write_config(config)
    assert "the batch per replica is small" not in cloudgan_here("compare", f"{tmp_path}/*").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "--paper"),
        (["runs", "--paper"], "--paper"),
        (["nowhere/*"], "no folder matches that holds a run"),
        (["nowhere"], "nowhere"),
        (["--paper", "--report=page.docx"], ".html"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    words, expected, cloudgan_here, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert expected in cloudgan_here("compare", *words, exits=2).stderr


def test_the_papers_costs_follow_from_its_published_times(cloudgan_here):
    said = json.loads(cloudgan_here("compare", "--paper", "--json").stdout)
    assert "Recomputed from the published run times" in said["statement"]
    runs = {
        (run["accelerator"], run["accelerators"], run["options"]): run["usd_per_epoch"]
        for run in said["runs"]
        if run["batch_per_replica"] in (96, 128)
    }
    two = runs["V100", 2, "prefetch"]
    assert two["on_demand_2021"] == pytest.approx(2.84, rel=0.01)
    assert two["preemptible_2021"] == pytest.approx(0.813, rel=0.01)
    assert set(two) == {"on_demand_2021", "preemptible_2021", "on_demand", "spot"}


def test_the_papers_fastest_runs_are_a_row_per_size_and_all_are_the_basis(cloudgan_here):
    said = cloudgan_here("compare", "--paper").stdout
    table = [line for line in said.splitlines() if re.match(r"\d+ (V100|TPU-v\d) ", line)]
    assert len(table) == 11
    assert max(map(len, table)) <= 80
    times, costs = replay_paper().view().basis[1:3]
    assert len(times.rows) == len(costs.rows) == 31


def test_the_papers_report_has_its_runs_and_findings(cloudgan_here, tmp_path):
    done = cloudgan_here("compare", "--paper", f"--report={tmp_path}/paper.html")
    assert "-v shows all 31 runs" in done.stdout
    page = (tmp_path / "paper.html").read_text()
    assert "one TPU-v3 device against 8 V100" in page
    assert "extrapolated" in page or "foretells" in page
    assert "10.1051/epjconf" in page or "2111.04628" in page
