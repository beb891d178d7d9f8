"""`cloudgan demo` with few steps: real processes, real files."""

import json
import re

import pytest

from cloudgan.api.run import open_run
from cloudgan.api.run_page import ending, run_page
from cloudgan.reports.page import render
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.validation.gates import load_gates

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


def test_the_demo_writes_data_checkpoints_record_cost_and_report(small_demo):
    folder = RunFolder(small_demo.run)
    for path in (folder.config_file, folder.record_file, folder.launch_file, folder.cost_file):
        assert path.stat().st_size > 0, path
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == [
        "step-000000000.npz",
        "step-000000020.npz",
    ]
    assert small_demo.said["report"] == str(small_demo.run / "report.html")


def test_the_json_output_equals_verdict_and_cost_on_disk(small_demo, cloudgan_here):
    kept = json.loads((small_demo.run / "verdict.json").read_text())
    assert kept == {key: small_demo.said[key] for key in kept}
    measures = {each["measure"]["name"] for each in kept["verdict"]["checks"]}
    assert measures == {gate.measure for gate in load_gates().gate}
    assert small_demo.said["cost"] == cloudgan_here("cost", small_demo.run, "--json").json()


def test_the_untrained_network_has_the_measured_energy_profile_and_angle(small_demo):
    measures = small_demo.said["untrained"]["measures"]
    untrained = {(each["name"], each["where"]): each["value"] for each in measures}
    responses = [value for (name, where), value in untrained.items() if name == "response"]
    assert responses == pytest.approx([1] * len(responses), abs=0.2)  # a dozen showers in a bin
    assert untrained["profile_z", "core"] < 0.2
    assert untrained["angle_slope", ""] == pytest.approx(1, abs=0.5)


def test_twenty_steps_do_not_pass_the_default_gates_and_40_showers_are_too_few_to_tell(small_demo):
    verdict = small_demo.said["verdict"]
    assert verdict["passed"] is False
    assert verdict["needed"] > 40
    assert verdict["grade"] in {"cannot tell", "fail"}


def test_the_report_names_the_limit_that_ended_the_training(small_demo):
    assert small_demo.said["ended"] == "max_steps"
    page = (small_demo.run / "report.html").read_text(encoding="utf-8")
    assert ending("max_steps", 20) in page
    assert "time" in ending("max_seconds", 7)
    assert ending("max_seconds", 7) != ending("max_steps", 7)


def test_the_report_loads_nothing_and_has_every_section(small_demo):
    page = (small_demo.run / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)
    assert not re.search(r"@import|url\((?!#)", page)
    for part in (
        "Verdict",
        "Checks",
        "Losses",
        "Throughput",
        "Cost of an epoch",
        "Energy response",
    ):
        assert part in page, part
    assert page.count("<svg") >= 8


def test_the_limits_of_a_demo_are_those_of_its_training(small_demo):
    training = open_run(small_demo.copy).config.training
    assert (training.max_steps, training.max_seconds) == (20, 999)


@pytest.mark.slow
def test_a_second_demo_trains_no_further_and_gives_the_same_result(small_demo, run_cloudgan):
    folder, kept = RunFolder(small_demo.run), small_demo.run / "verdict.json"
    before, verdict = len(record.read(folder.record_file).epochs()), kept.read_text()
    said = run_cloudgan("demo", f"--run={small_demo.run}", "--max-steps=20").stdout
    assert "at the maximum number of steps" in said
    assert "  open " in said
    assert " USD on a " in said
    assert kept.read_text() == verdict
    assert len(record.read(folder.record_file).epochs()) == before


def test_a_run_that_was_not_validated_has_a_page_too(small_demo):
    page = run_page(open_run(small_demo.copy))
    titles = [section.title for section in page.sections]
    assert titles == ["Summary", "Losses", "Speed", "Provenance"]
    assert page.lead == "Training ended after 20 steps, at the maximum number of steps."
    assert "real_fake" not in render(page)
