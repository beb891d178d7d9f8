"""`cloudgan bench parallel`."""

from __future__ import annotations

import json
import re

import pytest

TIMES = ("--step-seconds=0.05", "--service-seconds=0.0025", "--message-seconds=0.0005")


def test_predictions_are_printed_as_a_table_as_json_and_as_a_page(cloudgan_here, tmp_path):
    page = tmp_path / "page.html"
    shown = cloudgan_here(
        "bench", "parallel", "--predict=128", "--masters=1,4", *TIMES, f"--report={page}", "-v"
    ).stdout
    assert len(re.findall("^predicted +128 ", shown, re.MULTILINE)) == 2
    assert "NNLO, published" in shown
    assert "Speed-up over a plain training" in page.read_text()
    found = json.loads(cloudgan_here("bench", "parallel", *TIMES, "--predict=128", "--json").stdout)
    one, four = found["predicted"]
    assert four["speedup"] > 2 * one["speedup"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--predict=eight",), "--predict=eight: expected numbers"),
        (("--predict=0",), "--predict=0: expected at least 1"),
        (("--predict=5000",), "expected at most 4,096"),
        (("--masters=1,,4",), "--masters=1,,4: expected numbers"),
        (("--step-seconds=0",), "--step-seconds=0 must be above zero"),
        (("--preset=minni",), "Did you mean 'mini'"),
        (("--report=x.pdf",), "a report file ends in"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(cloudgan_here, flags, expected):
    assert expected in cloudgan_here("bench", "parallel", *flags, exits=2).stderr


@pytest.mark.slow
def test_real_ranks_are_measured_and_predicted_from_the_times_of_one_worker(cloudgan_here):
    pytest.importorskip("mpi4py")
    flags = ("--workers=2", "--predict=100", "--masters=1", "--seconds=0.5", "--preset=smoke")
    found = json.loads(cloudgan_here("bench", "parallel", *flags, "--json").stdout)
    one, two = found["measured"]
    assert (one["workers"], two["workers"]) == (1, 2)
    assert 1.4 * one["speedup"] < two["speedup"] < 2
    assert 0 < two["staleness"] <= 1
    assert 0 < two["service_seconds"] < two["exchange_seconds"] + 0.01
    assert 0 < two["service_cpu_seconds"] < two["service_seconds"]
    assert 0 < two["waiting_cpu_share"] < 0.5
    assert two["peak_memory_bytes"] > 2**20
    assert (two["steps"], two["updates"]) == (20, 20)
    assert [row["workers"] for row in found["predicted"]] == [1, 2, 100]
    assert found["predicted"][1]["speedup"] == pytest.approx(two["speedup"], rel=0.3)


def test_given_times_of_an_exchange_exclude_measured_ones(cloudgan_here):
    said = cloudgan_here("bench", "parallel", "--workers=2", *TIMES, exits=2).stderr
    assert "omit --service-seconds" in said
