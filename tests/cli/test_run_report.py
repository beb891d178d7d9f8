"""report.html at the end of a training, and the verdict on networks that have hardly trained."""

import json
import re
import shutil

import pytest

from cloudgan.core.progress import Silent
from cloudgan.schema.run_folder import RunFolder

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


@pytest.fixture
def run(small_demo, tmp_path):
    """A trained run of 160 showers, 40 held out, without its report."""
    folder = shutil.copytree(small_demo.copy, tmp_path / "small")
    (folder / "report.html").unlink()
    return RunFolder(folder)


def test_the_page_has_losses_and_showers_beside_monte_carlo_and_says_that_they_are_few(run):
    from cloudgan.api.run_page import write_report

    written = write_report(run, Silent(), least_seconds=0)
    assert written == (run.path / "report.html", "")
    page = written.path.read_text(encoding="utf-8")
    assert "were compared" not in page
    assert re.search(r"Cannot tell: 40 showers are too few for .*; give about [\d,]+ of each", page)
    for part in ("Losses", "Energy response", "held-out Monte Carlo"):
        assert part in page, part


def test_the_page_of_a_slow_generator_says_that_it_compared_a_part_of_the_showers(run, monkeypatch):
    from cloudgan.api.run_page import write_report

    monkeypatch.setattr("cloudgan.api.run_page._SECONDS", 0.0)
    page = write_report(run, Silent(), least_seconds=0).path.read_text(encoding="utf-8")
    assert "20 of 40 held-out showers were compared, as many as take little time." in page
    assert f"cloudgan validate {run.path}" in page


def test_a_short_training_gets_no_page(run):
    from cloudgan.api.run_page import write_report

    assert write_report(run, Silent(), least_seconds=1e6) == (None, "")
    assert not (run.path / "report.html").exists()


def test_an_untrained_network_and_one_of_20_steps_fail_by_both_classifiers(
    tmp_path, run_cloudgan, cloudgan_here
):
    showers, run = tmp_path / "showers.h5", tmp_path / "run"
    cloudgan_here("simulate", showers, "--showers=400")
    flags = ("--preset=smoke", "--held-out=0.5", "--max-steps=20", f"--run={run}")
    run_cloudgan("train", showers, *flags)
    for step in ("--step=0", "--step=20"):
        verdict = cloudgan_here("validate", run, step, "--json").json()["verdict"]
        assert verdict["grade"] == "fail"
        measures = [one["measure"] for one in verdict["checks"] if one["grade"] == "fail"]
        assert {"high level", "low level"} == {m["where"] for m in measures if m["name"] == "auc"}


def test_the_page_of_a_demo_says_what_training_changed(small_demo):
    page = (small_demo.run / "report.html").read_text(encoding="utf-8")
    assert small_demo.said["change"].startswith("Training")
    assert small_demo.said["change"] in page
    assert json.loads((small_demo.run / "verdict.json").read_text())["change"] in page
