"""Speed-up of grids from the records of their cells, measured and predicted."""

from __future__ import annotations

import pytest

from cloudgan.bench.cells import cells_measurement, predict, summarize
from cloudgan.bench.harness import Measured
from cloudgan.coevolution.grid import Grid
from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import page_csv, render
from cloudgan.reports.table import cell_text
from cloudgan.schema.coevolution import CellLine
from cloudgan.schema.options.bench import BenchCellsOptions

FOUR, NINE = Grid(2, 2), Grid(3, 3)


def line(iteration, **seconds):
    return CellLine(
        iteration=iteration, generator_fitness=1.0, discriminator_fitness=1.0, rates=(0.1, 0.1),
        losses=("bce",), selected=("a", "b"), entered=0, best=("a", ""), members={0: 1.0},
        score=1.0, seconds=seconds,
    )  # fmt: skip


def record(gather, train):
    """Two iterations, of which the first one traces."""
    rest = {"update_genomes": 0.5, "mutate": 0.1}
    return [line(1, gather=9.0, train=99.0, **rest), line(2, gather=gather, train=train, **rest)]


RECORDS = [record(0.3, 1.0), record(0.1, 1.4)]


def runs(*iterations, slowest=1.0, exchange=(0.0, 0.0)):
    rest = {"update_genomes": 0.2, "mutate": 0.1, "train": 0.7, "wait": 0.5}
    rows = [
        {"iteration_seconds": one, "slowest_seconds": slowest, "exchange_seconds": gather}
        | {"gather": gather}
        | rest
        for one, gather in zip(iterations, exchange, strict=False)
    ]
    return Measured("", {}, rows)


def measurement(runs):
    return cells_measurement(BenchCellsOptions(), runs, 2)


@pytest.fixture
def speeds():
    ranks = runs(2.0, 2.0, exchange=(0.02, 0.04))
    nine = runs(9.0, slowest=1.2)
    return {(FOUR, "one"): runs(4.0, 4.4), (FOUR, "ranks"): ranks, (NINE, "one"): nine}


def test_cells_of_one_process_take_turns_and_ranks_wait_for_the_slowest():
    one, ranks = summarize("one", RECORDS), summarize("ranks", RECORDS)
    assert one["iteration_seconds"] == pytest.approx(1.9 + 2.1)
    assert ranks["iteration_seconds"] == pytest.approx(2.1)
    assert one["slowest_seconds"] == ranks["slowest_seconds"] == pytest.approx(2.0)
    assert ranks["exchange_seconds"] == 0.1
    assert one["train"] == pytest.approx(2.4)
    assert ranks["train"] == pytest.approx(1.2)
    with pytest.raises(CloudganError, match="--iterations=2"):
        summarize("one", [RECORDS[0][:1]])


def test_a_prediction_is_the_slowest_cell_and_the_exchange_with_all_neighbours(speeds):
    assert predict(NINE, speeds) == pytest.approx(1.2 + 0.03 * 4 / 2)
    nine = measurement(speeds).grids[1]["predicted"]
    assert nine["speedup"] == pytest.approx(9.0 / 1.26)
    assert predict(NINE, {(NINE, "one"): runs(9.0, slowest=1.2)}) == 1.2


def test_measured_rows_have_a_spread_and_predicted_ones_are_marked(speeds):
    table = measurement(speeds).tables[0]
    rows = [list(map(cell_text, row)) for row in table.rows]
    assert [row[:3] for row in rows] == [
        ["2x2", "measured", "2"],
        ["2x2", "predicted", "4"],
        ["3x3", "predicted", "9"],
    ]
    assert rows[0][3:] == ["4.2 ± 0.28", "2 ± 0", "2.1 (2 to 2.2)", "8.53"]
    assert rows[2][5:] == ["7.14", "13.65"]
    assert "not measured" in table.caption


def test_the_numbers_of_a_predicted_row_divide_to_its_speed_up_although_one_round_was_slow():
    table = measurement({(FOUR, "one"): runs(4.0, 4.0, 10.0, exchange=(0, 0, 0))}).tables[0]
    (row,) = [list(map(cell_text, row)) for row in table.rows]
    assert row[:6] == ["2x2", "predicted", "4", "4", "1", "4"]


def test_the_seconds_by_routine_are_shown_with_the_published_profile(speeds):
    rows = {row[0]: row for row in measurement(speeds).tables[1].rows}
    assert list(rows) == ["gather", "train", "update_genomes", "mutate", "wait", "overall"]
    assert rows["overall"][-3:] == ("509.6", "97.9", "5.21")
    assert rows["train"][1:4] == ("0.7", "0.7", "1")


def test_json_and_page_have_the_figures_and_say_what_bounds_the_speed_up(speeds):
    found = measurement(speeds)
    four, nine = found.grids
    assert four["speedup"].median == pytest.approx(2.1)
    assert nine["speedup"] is None
    assert nine["predicted"]["cores"] == 9
    assert "2x2 was measured with more ranks than the 2 cores" in found.explanation
    assert "exceeds" not in found.explanation
    assert found.explanation in render(found.page())
    assert "predicted" in page_csv(found.page())
    busy = measurement({(FOUR, "one"): runs(4.0), (FOUR, "ranks"): runs(1.0)})
    assert "The measured speed-up of 2x2 exceeds the 2 cores" in busy.explanation
