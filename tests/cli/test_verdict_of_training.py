"""The verdict tells an untrained network, and one of 75 steps, from Monte Carlo; the page says what training changed."""

import json

import pytest

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tf, pytest.mark.slow]


def test_the_untrained_network_fails_by_a_classifier_and_one_of_75_steps_does_not_pass(
    tmp_path, run_cloudgan, cloudgan_here
):
    flags = ("--showers=4000", "--max-steps=75", "--max-seconds=200", f"--run={tmp_path / 'tour'}")
    trained = json.loads(run_cloudgan("demo", *flags, "--json").stdout)
    flags = (tmp_path / "tour", "--step=0", "--json")
    untrained = cloudgan_here("validate", *flags).json()
    failed = {one["title"] for one in untrained["verdict"]["checks"] if one["grade"] == "fail"}
    assert untrained["verdict"]["grade"] == "fail"
    assert "AUC of a classifier, high level" in failed
    # Its AUC is 0.002 above the limit here: on another processor it may be too close to tell.
    assert trained["verdict"]["grade"] in {"fail", "cannot tell"}
    assert not trained["verdict"]["passed"]
    assert trained["change"].startswith("Training: of ")
    assert trained["change"] in (tmp_path / "tour" / "report.html").read_text()
