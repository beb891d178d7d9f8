"""What a run costs, for people and programs."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


def test_what_nobody_priced_is_unknown_and_says_what_to_type(small_demo, cloudgan_here):
    done = cloudgan_here("cost", small_demo.run)
    assert "cost of this run: unknown" in done.stdout
    assert "--offer=" in done.stdout


def test_offers_of_three_clouds_are_priced_as_a_bound(small_demo, cloudgan_here):
    done = cloudgan_here("cost", small_demo.run)
    assert "a bound: not measured there" in done.stdout
    assert all(cloud in done.stdout for cloud in ("GCP", "AWS", "Azure"))


def test_an_offer_prices_the_run_and_each_part_names_its_seconds(small_demo, cloudgan_here):
    offer = "gcp/n1-standard-8+1xV100/us-central1/spot"
    said = json.loads(cloudgan_here("cost", small_demo.run, f"--offer={offer}", "--json").stdout)
    assert offer in said["priced_as"]
    known = [part for part in said["parts"] if part["usd"] is not None]
    assert known
    assert all(part["seconds"] >= 0 for part in known)
    rate = 1.193 / 3600
    for part in known:
        assert part["usd"] == pytest.approx(part["seconds"] * rate, rel=0.01), part["name"]
    assert json.loads((small_demo.run / "cost.json").read_text()) == said


def test_a_misspelt_offer_gets_the_nearest(small_demo, cloudgan_here):
    offer = "gcp/n1-standard-8+1xV10/us-central1/spot"
    done = cloudgan_here("cost", small_demo.run, f"--offer={offer}", exits=2)
    assert "Did you mean 'gcp/n1-standard-8+1xV100/us-central1/spot'" in done.stderr


def test_a_folder_without_a_record_is_told(tmp_path, cloudgan_here):
    done = cloudgan_here("cost", tmp_path, exits=2)
    assert "Traceback" not in done.stderr
