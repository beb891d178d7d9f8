"""Parents of a generator through the cells."""

import pytest

from cloudgan.coevolution.record import ancestry, routine_times
from coevolution import quadratic_game


def line(iteration, parents, **changes):
    return quadratic_game.line(iteration, selected=parents, **changes)


def test_the_parents_are_followed_from_cell_to_cell_to_the_initial_weights():
    records = {
        "0-0": [line(1, ("0-1/0/g0", "0-0/0/d0")), line(2, ("0-1/1/g0", "0-0/1/d0"))],
        "0-1": [line(1, ("0-0/0/g0", "0-1/0/d0"), losses=("heuristic",), rates=(0.5, 0.1))],
    }
    found = ancestry("0-0/2/g0", records)
    assert [one.name for one in found] == ["0-0/2/g0", "0-1/1/g0"]
    assert found[1] == ("0-1/1/g0", "0-1", 1, "heuristic", 0.5, "0-0/0/g0")


def test_each_of_several_generators_has_its_own_parent_loss_and_rate():
    parents = ("0-0/0/g0", "0-0/0/g1", "0-0/0/d0", "0-0/0/d1")
    rates = (0.1, 0.2, 0.3, 0.4)
    record = [line(1, parents, losses=("bce", "least_squares"), rates=rates)]
    (found,) = ancestry("0-0/1/g1", {"0-0": record})
    assert (found.parent, found.loss, found.rate) == ("0-0/0/g1", "least_squares", 0.2)


def test_a_name_of_another_record_ends_the_ancestry():
    for name in ("", "0-0/0/g0", "9-9/1/g0", "0-0/1/g7", "0-0/x/g0"):
        assert ancestry(name, {"0-0": [line(1, ("0-0/0/g0", "0-0/0/d0"))]}) == ()


def test_seconds_are_summed_by_cell_and_routine_and_idle_cells_are_named():
    parents = ("0-0/0/g0", "0-0/0/d0")
    busy = {"gather": 0.1, "train": 3.0, "update_genomes": 0.8, "mutate": 0.1}
    first = busy | {"train": 9.0}
    idle = {"gather": 0.1, "train": 3.0, "update_genomes": 0.7, "mutate": 0.2, "wait": 4.0}
    times = routine_times(
        {
            "0-0": [line(1, parents, seconds=first), line(2, parents, seconds=busy)],
            "0-1": [line(1, parents, seconds=idle), line(2, parents, seconds=idle)],
            "1-0": [],
        }
    )
    assert times["cells"]["0-0"]["train"] == 12.0
    assert times["mean"]["train"] == 9.0
    assert times["mean"]["overall"] == pytest.approx((0.2 + 12 + 1.6 + 0.2 + 8 + 8) / 2)
    assert times["per_iteration"]["train"] == 3.0
    assert times["waiting"] == {"0-1": 0.5}
