"""What `bench bandwidth` says of made-up matrices of ranks, and the islands that it finds in them."""

from __future__ import annotations

import json
import random

import pytest

from cloudgan.bench.bandwidth import (
    bandwidth_measurement,
    bucket_bytes,
    find_islands,
    measure_links,
)
from cloudgan.bench.harness import run
from cloudgan.core.progress import Silent
from cloudgan.reports.page import render
from cloudgan.schema.options.bench import BenchBandwidthOptions
from ranks.turns import Turns

GIGA = 1e9


def result(better, *, hosts=("a",) * 8, calm=False):
    """Links of two sizes: of the small one a tenth, the second of three turns the best unless `calm`."""
    best = 1 if calm else 2
    values = [
        [508 * GIGA if a == b else (36.8 if better(a, b) else 17.0) * GIGA for b in range(8)]
        for a in range(8)
    ]
    turns = [
        [[(part * one / best, part * one, part * one / best) for one in row] for row in values]
        for part in (1, 0.1)
    ]
    sizes = (bucket_bytes("mini"), 1024)
    given = {"sizes": sizes, "turns": turns, "hosts": hosts, "seconds": 1.0}
    return bandwidth_measurement("mini", given)


def in_halves(a, b):
    return a // 4 == b // 4


@pytest.fixture
def halves():
    return result(in_halves)


def test_the_message_is_the_gradients_of_the_larger_network():
    assert bucket_bytes("mini") == 4 * 28_760


def test_islands_are_named_with_the_group_that_fits(halves):
    said = halves.lines[0]
    assert said.startswith("2 islands: ranks 0 to 3; ranks 4 to 7 (36.8 GB/s inside, 17 GB/s")
    assert "--group=4 keeps the gradients" in said
    assert "any --group fits" in result(lambda a, b: True).lines[0]
    alternating = result(lambda a, b: a % 2 == b % 2).lines[0]
    assert "ranks 0, 2, 4, 6; ranks 1, 3, 5, 7" in alternating
    assert "No --group above 1" in alternating
    assert "ranks 0 to 6; rank 7 (" in result(lambda a, b: 7 not in {a, b}).lines[0]


def test_tables_have_median_and_best_and_json_both_matrices(halves):
    large, small = halves.tables
    assert large.rows[0][:3] == ("0", "254 (508)", "18.4 (36.8)")
    assert small.rows[0][1] == "25.4 (50.8)"
    assert "own memory on the diagonal" in large.caption
    first = halves.messages[0]
    assert first["bytes"] == bucket_bytes("mini")
    assert (first["median"][0][4], first["best"][0][4]) == (8.5 * GIGA, 17 * GIGA)


def test_medians_between_ranks_stand_beside_those_of_an_earlier_result(halves, tmp_path):
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(halves.as_json()))
    found = run(lambda *_: halves, BenchBandwidthOptions(compare=path), Silent())
    large, small = found.tables[0].rows
    assert large[0] == "measured: messages of 0.115 MB: median_gb_per_second"
    assert large[1:] == (8.5, 8.5, 1.0)  # half of 17: more pairs have a slow link than a fast one
    assert small[1:] == (0.85, 0.85, 1.0)


def test_ranks_of_several_machines_are_named_after_them(halves):
    several = result(in_halves, hosts=("a",) * 4 + ("b",) * 4)
    assert several.tables[0].columns[5] == "4 (b)"
    assert halves.tables[0].columns[5] == "4"


def test_the_page_has_a_heat_map_for_each_size_and_summary(halves):
    text = render(halves.page())
    assert text.count('<div class="broad">') == 4
    assert "--group=4" in text


def test_load_that_disturbs_the_measurement_is_named(halves):
    assert "Other load disturbed" in halves.lines[0]
    assert "Other load disturbed" not in result(in_halves, calm=True).lines[0]


def test_one_rank_alone_copies_in_its_own_memory():
    found = Turns(1).run(lambda rank: measure_links(rank, (10**6, 1024), 3))[0]
    assert len(found["hosts"]) == 1
    (((large,),), ((small,),)) = found["turns"]
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


def matrix(count, link, own=508.0):
    return [[own if a == b else link(a, b) for b in range(count)] for a in range(count)]


def noisy(values, seed):
    chance = random.Random(seed)
    return [[value * chance.lognormvariate(0, 0.1) for value in row] for row in values]


def dgx1(a, b):
    """The links of a DGX-1: each GPU of one half has one to the other half."""
    return 36.8 if a // 4 == b // 4 or abs(a - b) == 4 else 17.0


def test_the_two_halves_of_a_dgx_1_are_islands_in_spite_of_the_links_between_them():
    found = find_islands(matrix(8, dgx1))
    assert found.ranks == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (found.inside, found.across, found.group) == (36.8, 17.0, 4)


@pytest.mark.parametrize("seed", range(5))
def test_noise_neither_makes_islands_nor_hides_them(seed):
    alike = find_islands(noisy(matrix(8, lambda a, b: 20.0), seed))
    assert alike.ranks == (tuple(range(8)),)
    assert (alike.across, alike.group) == (None, None)
    hosts = find_islands(noisy(matrix(8, lambda a, b: 20.0 if a // 2 == b // 2 else 2.0), seed))
    assert hosts.ranks == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert hosts.group == 2


def test_one_slow_pair_makes_no_island():
    values = matrix(6, lambda a, b: 20.0)
    values[1][4] = 1.0
    assert len(find_islands(values).ranks) == 1
    three = matrix(3, lambda a, b: 1.0 if {a, b} == {0, 1} else 6.0)
    assert find_islands(three).ranks == ((0, 1, 2),)


def test_a_link_counts_with_its_slower_direction():
    found = find_islands(matrix(4, lambda a, b: 20.0 if a // 2 == b // 2 or a < b else 2.0))
    assert found.ranks == ((0, 1), (2, 3))


def test_unequal_islands_have_the_largest_group_that_divides_them():
    home = [0, 0, 0, 0, 1, 1]
    assert find_islands(matrix(6, lambda a, b: 20 if home[a] == home[b] else 2)).group == 2
    lone = [0, 0, 0, 1]
    found = find_islands(matrix(4, lambda a, b: 20 if lone[a] == lone[b] else 2))
    assert (found.ranks, found.group) == (((0, 1, 2), (3,)), None)


def test_ranks_that_alternate_between_islands_fit_no_group():
    found = find_islands(matrix(8, lambda a, b: 20 if a % 2 == b % 2 else 2))
    assert found.ranks == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert found.group is None


def test_two_ranks_are_one_island():
    found = find_islands(matrix(2, lambda a, b: 3.0))
    assert (found.ranks, found.inside) == (((0, 1),), 3.0)
