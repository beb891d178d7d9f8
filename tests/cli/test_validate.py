"""The verdict on a run, as people, programs and pipelines read it."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


def test_without_gate_a_bad_verdict_is_told_and_is_no_failure(small_demo, cloudgan_here):
    done = cloudgan_here("validate", small_demo.run)
    assert "MISSED" in done.stdout
    assert "not learned:" in done.stdout
    assert "floor" in done.stdout


def test_the_verdict_on_the_newest_checkpoint_is_kept_and_that_on_another_is_not(
    small_demo, cloudgan_here
):
    kept = small_demo.run / "verdict.json"
    said = json.loads(cloudgan_here("validate", small_demo.run, "--json").stdout)
    assert json.loads(kept.read_text()) == said
    cloudgan_here("validate", small_demo.run, "--step=0")
    assert json.loads(kept.read_text()) == said


def test_with_gate_a_bad_verdict_ends_with_7_and_names_what_was_missed(small_demo, cloudgan_here):
    done = cloudgan_here("validate", small_demo.run, "--gate", exits=7)
    assert "missed: " in done.stderr
    assert "Traceback" not in done.stderr


def test_with_gates_that_anything_passes_it_ends_well(small_demo, tmp_path, cloudgan_here):
    gates = tmp_path / "easy.toml"
    gates.write_text(
        "schema_version = 1\n[gates]\nresponse_within = 9\nprofile_z_at_most = 9\n"
        "untrained_profile_z_more_than = 0.1\nhits_within = 9\nangle_slope_at_least = -9\n"
        "[not_learned]\nwidth_within = 9\nprofile_xy_at_most = 9\nangle_slope_at_least = -9\n"
        "rms_within = 9\ntail_within = 9\nlast_layer_within = 9\n"
    )
    done = cloudgan_here("validate", small_demo.run, "--gate", f"--gates={gates}", "--json")
    assert json.loads(done.stdout)["verdict"]["passed"] is True


def test_it_compares_with_showers_of_a_file_and_names_them(small_demo, cloudgan_here):
    done = cloudgan_here(
        "validate",
        small_demo.run,
        f"--against={small_demo.run / 'showers.h5'}",
        "--showers=60",
        "--json",
    )
    said = json.loads(done.stdout)
    assert said["reference"] == "showers.h5"
    assert said["trained"]["showers"] == 60


def test_the_page_of_a_verdict_is_written_where_asked(small_demo, tmp_path, cloudgan_here):
    page = tmp_path / "verdict.html"
    cloudgan_here("validate", small_demo.run, f"--report={page}", "--step=0")
    text = page.read_text(encoding="utf-8")
    assert "Validation of small, step 0" in text
    assert "<svg" in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gates=nowhere.toml"], "nowhere.toml"),
        (["--against=nowhere.h5"], "nowhere.h5"),
        (["--showers=0"], "at least one"),
        (["--gat"], "Did you mean '--gate'"),
    ],
)
def test_bad_input_gets_a_sentence(small_demo, cloudgan_here, flags, said):
    done = cloudgan_here("validate", small_demo.run, *flags, exits=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
