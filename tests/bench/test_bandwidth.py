"""What `bench bandwidth` says of a made-up matrix of eight ranks."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cloudgan.bench.bandwidth import (
    BandwidthResult,
    advice,
    bandwidth_json,
    bandwidth_page,
    bandwidth_tables,
    bucket_bytes,
)
from cloudgan.bench.bandwidth_ranks import MeasuredLinks, measure_links
from cloudgan.bench.islands import find_islands
from cloudgan.parallel.communicator import Alone
from cloudgan.reports.page import render

GIGA = 1e9


def result(better, *, hosts=("a",) * 8):
    """A result of two sizes: of the small one a tenth, the second of three turns the best."""
    values = [
        [508 * GIGA if a == b else (36.8 if better(a, b) else 17.0) * GIGA for b in range(8)]
        for a in range(8)
    ]
    turns = [
        [[(part * one, 2 * part * one, part * one) for one in row] for row in values]
        for part in (0.5, 0.05)
    ]
    links = MeasuredLinks.model_validate({"turns": turns, "hosts": hosts, "seconds": 1.0})
    return BandwidthResult("mini", (bucket_bytes("mini"), 1024), links, find_islands(values))


@pytest.fixture
def halves():
    return result(lambda a, b: a // 4 == b // 4)


def test_the_message_is_the_gradients_of_the_larger_network():
    assert bucket_bytes("mini") == 4 * 553_986


def test_islands_are_named_with_the_group_that_fits(halves):
    said = advice(halves)
    assert said.startswith("2 islands: ranks 0 to 3; ranks 4 to 7 (36.8 GB/s inside, 17 GB/s")
    assert "--group=4 keeps the gradients" in said
    assert "any --group fits" in advice(result(lambda a, b: True))
    alternating = advice(result(lambda a, b: a % 2 == b % 2))
    assert "ranks 0, 2, 4, 6; ranks 1, 3, 5, 7" in alternating
    assert "No --group above 1" in alternating
    assert "ranks 0 to 6; rank 7 (" in advice(result(lambda a, b: 7 not in {a, b}))


def test_tables_have_median_and_best_and_json_both_matrices(halves):
    large, small = bandwidth_tables(halves)
    assert large.rows[0][:3] == ("0", "254 (508)", "18.4 (36.8)")
    assert small.rows[0][1] == "25.4 (50.8)"
    assert "own memory on the diagonal" in large.caption
    first = bandwidth_json(halves)["messages"][0]
    assert first["bytes"] == bucket_bytes("mini")
    assert (first["median"][0][4], first["best"][0][4]) == (8.5 * GIGA, 17 * GIGA)


def test_ranks_of_several_machines_are_named_after_them(halves):
    several = result(lambda a, b: a // 4 == b // 4, hosts=("a",) * 4 + ("b",) * 4)
    assert bandwidth_tables(several)[0].columns[5] == "4 (b)"
    assert bandwidth_tables(halves)[0].columns[5] == "4"


def test_the_page_has_a_heat_map_for_each_size_and_summary(halves):
    text = render(bandwidth_page(halves))
    assert text.count('class="broad"') == 4
    assert "--group=4" in text


@pytest.mark.parametrize("ranks", ["1", "65"])
def test_too_few_and_too_many_ranks_are_refused(cloudgan_here, ranks):
    said = cloudgan_here("bench", "bandwidth", f"--ranks={ranks}", exits=2).stderr
    assert "expected 2 to 64" in said


def test_load_that_disturbs_the_measurement_is_named(halves):
    steady = halves.links.turns[0]
    calm = tuple(tuple((one[1],) * 3 for one in row) for row in steady)
    links = halves.links.model_copy(update={"turns": (calm, halves.links.turns[1])})
    undisturbed = dataclasses.replace(halves, links=links)
    assert "Other load disturbed" in advice(halves)
    assert "Other load disturbed" not in advice(undisturbed)


def test_one_rank_alone_copies_in_its_own_memory():
    found = measure_links(Alone(), (10**6, 1024), 3)
    assert len(found.hosts) == 1
    (((large,),), ((small,),)) = found.turns
    assert len(large) == len(small) == 3
    assert min(*large, *small) > 0


def test_real_ranks_are_measured_in_turns(cloudgan_here, tmp_path):
    pytest.importorskip("mpi4py")
    page = tmp_path / "page.html"
    words = ("--ranks=3", "--preset=smoke", "--rounds=2", f"--report={page}", "--json")
    found = json.loads(cloudgan_here("bench", "bandwidth", *words).stdout)
    assert found["rounds"] in {1, 2}  # a busy machine ends after one
    assert [one["bytes"] for one in found["messages"]] == [4 * 85_816, 1024]
    for message in found["messages"]:
        for median, best in zip(message["median"], message["best"], strict=True):
            assert len(median) == len(best) == 3
            assert all(0 < one <= other for one, other in zip(median, best, strict=True))
    assert sorted(rank for island in found["islands"]["ranks"] for rank in island) == [0, 1, 2]
    assert "own memory" in page.read_text()
