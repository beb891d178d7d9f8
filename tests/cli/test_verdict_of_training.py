"""The verdict tells a network without measured tables from Monte Carlo, untrained and after 20 steps; the page says
what training changed.
"""

import json

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


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
