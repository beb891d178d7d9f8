"""Predictions of `bench parallel` and the times that they are from."""

from __future__ import annotations

import json

import pytest

from cloudgan.bench.harness import run
from cloudgan.bench.parallel import find_times, measure, parallel_measurement
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Silent
from cloudgan.parallel.prediction import Times
from cloudgan.reports.page import page_csv, render
from cloudgan.schema.options.bench import BenchParallelOptions

ONE = {
    "workers": 1, "steps": 100, "updates": 10, "steps_per_second": 16, "step_seconds": 0.05,
    "exchange_seconds": 0.1, "service_seconds": 0.025, "service_cpu_seconds": 0.02,
    "waiting_cpu_share": 0.032, "peak_memory_bytes": 90 * 2**20, "staleness": 0.0, "centre": 1.0,
    "speedup": 0.8,
}  # fmt: skip


@pytest.fixture(scope="module")
def found():
    times = Times(step=0.05, service=0.0025, message=0.0005)
    return parallel_measurement(times, "Times: given.", [2, 100], [1, 4])


def test_each_prediction_is_marked_and_needs_a_worker_for_each_master(found):
    table = found.tables[0]
    rows = [("predicted", 2, 1), ("predicted", 100, 1), ("predicted", 100, 4)]
    assert [row[:3] for row in table.rows] == rows
    assert "not measured" in table.caption
    assert all(row["kind"] == "predicted" for row in found.predicted)
    assert "ideal" in render(found.page())
    assert "predicted" in page_csv(found.page())


def test_the_published_curve_is_shown_with_both_predictions_and_their_explanation(found):
    rows = {row[0]: row for row in found.tables[-1].rows}
    assert rows[20][1] == "10"
    assert float(rows[20][2]) == pytest.approx(10, rel=0.05)
    assert rows[8][1] == "-"
    # 50 ms over 2.5 ms.
    assert "limits the speed-up to 20. Times: given." in found.explanation[1]


def test_times_that_are_not_given_are_measured_and_named():
    given = {"preset": "smoke", "sync_every": 10, "step_seconds": 0.05, "service_seconds": 0.002}
    times, origin = find_times(BenchParallelOptions(**given), Silent())
    assert (times.step, times.service, times.sync_every) == (0.05, 0.002, 10)
    assert 0 < times.message < 1
    assert origin.count("given") == 2
    assert "measured here (a copy in memory, a lower bound)" in origin


def test_masters_without_a_worker_each_are_refused_before_anything_is_measured():
    with pytest.raises(
        ConfigError, match=r"--masters=4,8: each master needs a worker, .* at most 2"
    ):
        measure(BenchParallelOptions(predict=(1, 2), masters=(4, 8)), Silent())


def test_measured_worlds_are_shown_with_their_predictions_and_n_times_one_worker():
    four = {"workers": 4, "steps_per_second": 48.0, "peak_memory_bytes": None, "speedup": 2.4}
    found = parallel_measurement(Times(0.05, 0.025, sync_every=10), "", [8], [1], (ONE, ONE | four))
    layouts, worlds, _ = found.tables
    kind, workers, _, speedup, per_worker, _, load, _, waits = layouts.rows[1]
    assert (kind, workers) == ("measured", 4)
    assert found.lines[0].startswith("8 workers, 1 master: speed-up ")
    assert (speedup, per_worker, load, waits) == ("2.4", "0.60", "12%", "40%")
    assert [row[1] for row in layouts.rows[2:]] == [1, 4, 8]
    assert worlds.rows[0] == (1, "16.0", "1.00", "100.0", "25.0", "20.0", "3.2%", "90")
    assert worlds.rows[1][:3] == (4, "48.0", "0.75")
    assert worlds.rows[1][-1] == "-"
    assert "centre" not in found.measured[0]


def test_measured_worlds_stand_beside_those_of_an_earlier_result(tmp_path):
    path, times = tmp_path / "earlier.json", Times(0.05, 0.025, sync_every=10)
    path.write_text(json.dumps(parallel_measurement(times, "", [8], [1], (ONE,)).as_json()))
    now = parallel_measurement(times, "", [8], [1], (ONE | {"exchange_seconds": 0.2},))
    found = run(lambda *_: now, BenchParallelOptions(compare=path), Silent())
    beside = {row[0]: row[1:] for row in found.tables[0].rows}
    assert beside["measured: 1 worker: exchange_seconds"] == (0.1, 0.2, 2.0)
    assert "for each update of 10 steps" in found.explanation[1]
    assert "for each update of 1 step," in parallel_measurement(Times(1, 1), "", [8], [1]).lines[2]
