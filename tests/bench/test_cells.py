"""Speed-up of grids from the records of their cells, measured and predicted."""

from __future__ import annotations

import pytest

from cloudgan.bench.cells import CellsResult, EngineRun, GridSpeed, Workload, predict, summarize
from cloudgan.bench.cells_report import (
    cells_json,
    cells_page,
    explanation,
    routine_table,
    speed_table,
)
from cloudgan.coevolution.grid import Grid
from cloudgan.core.errors import CloudganError
from cloudgan.reports.page import page_csv, render
from cloudgan.schema.cell_line import CellLine

FOUR, NINE = Grid(2, 2), Grid(3, 3)


def line(iteration, **seconds):
    return CellLine(
        iteration=iteration,
        generator_fitness=1.0,
        discriminator_fitness=1.0,
        rates=(0.1, 0.1),
        losses=("bce",),
        selected=("a", "b"),
        entered=0,
        best=("a", ""),
        members={0: 1.0},
        score=1.0,
        seconds=seconds,
    )


def record(gather, train):
    """Two iterations, of which the first one traces."""
    rest = {"update_genomes": 0.5, "mutate": 0.1}
    return [line(1, gather=9.0, train=99.0, **rest), line(2, gather=gather, train=train, **rest)]


RECORDS = [record(0.3, 1.0), record(0.1, 1.4)]


def run(iteration, slowest=1.0, exchange=0.0):
    routines = {"gather": exchange, "update_genomes": 0.2, "mutate": 0.1, "train": 0.7, "wait": 0.5}
    return EngineRun(iteration, slowest, exchange, routines)


@pytest.fixture
def result():
    ones, ranks = [run(4.0), run(4.4)], [run(2.0, exchange=0.02), run(2.0, exchange=0.04)]
    known = {FOUR: ranks, NINE: []}
    nine = [run(9.0, slowest=1.2)]
    speeds = (
        GridSpeed(FOUR, ones, ranks, predict(FOUR, ones, known)),
        GridSpeed(NINE, nine, (), predict(NINE, nine, known)),
    )
    return CellsResult(Workload(), 2, speeds, interrupted=False)


def test_cells_of_one_process_take_turns_and_ranks_wait_for_the_slowest():
    one, ranks = summarize("one", RECORDS), summarize("ranks", RECORDS)
    assert one.iteration == pytest.approx(1.9 + 2.1)
    assert ranks.iteration == pytest.approx(2.1)
    assert one.slowest == ranks.slowest == pytest.approx(2.0)
    assert ranks.exchange == 0.1
    assert one.routines["train"] == pytest.approx(2.4)
    assert ranks.routines["train"] == pytest.approx(1.2)


def test_a_run_of_one_iteration_has_no_time_without_tracing():
    with pytest.raises(CloudganError, match="--iterations=2"):
        summarize("one", [RECORDS[0][:1]])


def test_a_prediction_is_the_slowest_cell_and_the_exchange_with_all_neighbours(result):
    _, nine = result.grids
    assert nine.predicted == pytest.approx(1.2 + 0.03 * 4 / 2)
    assert nine.predicted_speedup == pytest.approx(9.0 / 1.26)


def test_measured_rows_have_a_spread_and_predicted_ones_are_marked(result):
    rows = speed_table(result).rows
    assert [row[:3] for row in rows] == [
        ("2x2", "measured", "2"),
        ("2x2", "predicted", "4"),
        ("3x3", "predicted", "9"),
    ]
    assert rows[0][3:] == ("4.2 ± 0.28", "2 ± 0", "2.1 (2 to 2.2)", "8.53")
    assert rows[2][5:] == ("7.14", "13.65")
    assert "not measured" in speed_table(result).caption


def test_the_seconds_by_routine_are_shown_with_the_published_profile(result):
    rows = {row[0]: row for row in routine_table(result.grids[0]).rows}
    assert list(rows) == ["gather", "train", "update_genomes", "mutate", "wait", "overall"]
    assert rows["overall"][-3:] == ("509.6", "97.9", "5.21")
    assert rows["train"][1:4] == ("0.7", "0.7", "1")


def test_json_and_page_have_the_figures_and_say_what_bounds_the_speed_up(result):
    four, nine = cells_json(result)["grids"]
    assert four["speedup"]["median"] == pytest.approx(2.1)
    assert nine["speedup"] is None
    assert nine["predicted"]["cores"] == 9
    assert "2x2 was measured with more ranks than the 2 cores" in explanation(result)
    assert explanation(result) in render(cells_page(result))
    assert "predicted" in page_csv(cells_page(result))


def test_a_speed_up_above_the_cores_is_ascribed_to_other_load(result):
    assert "exceeds" not in explanation(result)
    crowded = GridSpeed(FOUR, [run(4.0)], [run(1.0)], 1.0)
    busy = CellsResult(Workload(), 2, (crowded,), interrupted=False)
    assert "The measured speed-up of 2x2 exceeds the 2 cores" in explanation(busy)
