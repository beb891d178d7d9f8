"""Which of the validations in a record count, and how long it took until one sufficed."""

from __future__ import annotations

import math

from cloudgan.core import record
from cloudgan.core.quality import best_step, quality_of
from cloudgan.core.until import parse_until
from core.test_record import epoch, resumed, started, stopped, whole

UNTIL = parse_until("metric<0.15")


def validated(step, value, *, best=True, reached=False, seconds=1.0):
    return record.Validated(
        time="2026-01-01T00:00:00Z",
        step=step,
        epoch=step // 10 - 1,
        showers=500,
        numbers={"metric": value, "hits": 0.5},
        seconds=0.5,
        by="metric",
        best=best,
        until="metric<0.15",
        reached=reached,
        program_seconds=seconds,
    )


def run_of(*lines):
    return record.RunRecord(lines=lines)


def test_a_number_that_is_none_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "record.jsonl"
    record.append(path, validated(10, math.nan))
    (line,) = record.read(path).lines
    assert math.isnan(line.numbers["metric"])
    assert line.numbers["hits"] == 0.5


def test_records_without_validations_and_with_ends_of_before_are_read(tmp_path):
    path = tmp_path / "record.jsonl"
    for line in whole()[1:]:
        record.append(path, line)
    found = record.read(path)
    assert found.validations() == ()
    assert found.seconds_to_reach(UNTIL) is None
    assert quality_of(found.validations()) is None


def test_a_validation_changes_neither_epochs_nor_warnings_nor_processes():
    start, first, *rest = whole()
    run = run_of(start, first, validated(10, 0.3), *rest)
    assert run.epochs() == run_of(*whole()).epochs()
    assert run.warnings() == ()
    assert len(run.processes()) == 1


def test_what_a_resume_voids_does_not_count():
    start, first, second, *_ = whole()
    again = started(10, "2026-01-01T01:00:00Z")
    lines = (start, first, validated(10, 0.3), second, validated(20, 0.1), again, resumed(10))
    assert [each.step for each in run_of(*lines).validations()] == [10]
    redone = run_of(*lines, epoch(1, step=20, seconds=7.0), validated(20, 0.2))
    assert [each.numbers["metric"] for each in redone.validations()] == [0.3, 0.2]


def test_of_two_looks_after_one_step_the_later_counts():
    start, first, *_ = whole()
    again = started(10, "2026-01-01T01:00:00Z")
    run = run_of(start, first, validated(10, 0.3), again, resumed(10), validated(10, 0.4))
    assert [each.numbers["metric"] for each in run.validations()] == [0.4]


def test_time_to_reach_it_adds_the_processes_before():
    start, first, second, *_ = whole()
    again = started(10, "2026-01-01T01:00:00Z")
    reached = validated(20, 0.1, reached=True, seconds=9.0)
    lines = (start, first, stopped(10, 30.0), again, resumed(10), second, reached)
    assert run_of(*lines).seconds_to_reach(UNTIL) == 39.0
    assert run_of(*lines, stopped(20, 9.5)).seconds_to_reach(UNTIL) == 39.0


def test_time_to_reach_another_bound_is_known_afterwards():
    start, first, second, *_ = whole()
    run = run_of(start, first, validated(10, 0.3, seconds=4.0), second, validated(20, 0.1))
    assert run.seconds_to_reach(parse_until("metric<=0.3")) == 4.0


def test_time_to_reach_it_is_unknown_after_a_kill():
    start, first, second, *_ = whole()
    again = started(10, "2026-01-01T01:00:00Z")
    reached = validated(20, 0.1, reached=True, seconds=9.0)
    assert run_of(start, first, again, resumed(10), second, reached).seconds_to_reach(UNTIL) is None


def test_what_did_not_hold_in_the_end_was_not_reached():
    start, first, second, *_ = whole()
    run = run_of(start, first, validated(10, 0.3), second, validated(20, 0.2), stopped(20, 9.0))
    assert run.seconds_to_reach(UNTIL) is None


def test_quality_names_the_newest_and_the_best():
    found = (validated(10, 0.25), validated(20, 0.3, best=False))
    assert str(quality_of(found)) == "metric 0.3 after epoch 2, best 0.25 after epoch 1"
    assert best_step(found) == 10
    assert str(quality_of(found[:1])) == "metric 0.25 after epoch 1, the best so far"


def test_quality_without_a_number_says_so():
    found = quality_of((validated(10, math.nan, best=False),))
    assert str(found) == "metric no number after epoch 1"
    assert found.model_dump(mode="json")["value"] is None


def test_a_record_that_is_missing_or_damaged_tells_nothing(tmp_path):
    path = tmp_path / "record.jsonl"
    assert record.read_if_whole(path).lines == ()
    path.write_text("nonsense\n")
    assert record.read_if_whole(path).lines == ()
