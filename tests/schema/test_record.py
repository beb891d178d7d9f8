"""The run record: its lines, what counts, and its warnings."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import records
from cloudgan.core.errors import DataError
from cloudgan.core.hardware import Hardware
from cloudgan.money.processes import record_warnings
from cloudgan.schema import record
from cloudgan.schema.quality import best_step, quality_of
from cloudgan.schema.stop_criterion import parse_stop_criterion

TIME = "2026-01-01T00:00:00Z"


def epoch(number, *, step, seconds=10.0, first=False, **changes):
    usual = {"time": TIME, "samples": 320, "validation_seconds": 1.0, "checkpoint_seconds": 0.5}
    usual |= {"samples_per_second": 32.0}
    return records.epoch(number, seconds, step=step, first=first, **usual | changes)


def resumed(step):
    return records.resumed(step).model_copy(update={"time": TIME})


def started(step=0, time=TIME, processor="a chip"):
    hardware = Hardware(processor=processor, cores=2, memory_gib=4)
    return records.started(step, time=time, training_showers=320, hardware=hardware)


def whole():
    """A run of one process without warnings."""
    epochs = (epoch(number, step=10 * (number + 1), first=not number) for number in range(3))
    return (started(), *epochs, stopped(30, 50.0))


def run_of(*lines):
    return record.RunRecord(lines=lines)


def stopped(step, seconds=5.0):
    return records.stopped(step, seconds, time=TIME)


@pytest.fixture
def path(tmp_path):
    """A record of one epoch."""
    record.append(tmp_path / "record.jsonl", epoch(0, step=10))
    return tmp_path / "record.jsonl"


def changed(path, key, value):
    """The text of its line with another value of a key, as it is written."""
    return re.sub(rf'"{key}":[^,]+', f'"{key}":{value}', path.read_text())


def test_lines_come_back_as_they_were_written(tmp_path):
    path, lines = tmp_path / "record.jsonl", (epoch(0, step=10), resumed(10), stopped(10))
    for line in lines:
        record.append(path, line)
    assert record.read(path).lines == lines


def test_a_line_cut_short_by_a_crash_is_a_warning_and_healed_by_the_next(path):
    whole = record.read(path)
    with path.open("ab") as file:
        file.write(b'{"kind": "epoch", "st')
    found = record.read(path)
    assert (found.lines, found.truncated, whole.truncated) == (whole.lines, True, False)
    assert "cut short" in record_warnings(found)[0]
    record.append(path, epoch(1, step=20))
    assert [line.step for line in record.read(path).lines] == [10, 20]


@pytest.mark.parametrize(
    ("text", "said"),
    [('ONE{"kind": "nonsense"}\nONE', r"record.jsonl, line 2"), ("\nONE", "line 1")],
    ids=["broken", "blank"],
)
def test_a_broken_line_inside_is_named_by_its_number(path, text, said):
    path.write_text(text.replace("ONE", path.read_text()))
    with pytest.raises(DataError, match=said):
        record.read(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train_seconds", "1e308"),
        ("train_seconds", "1e999"),
        ("samples_per_second", "1e308"),
        ("samples", "9" * 100),
        ("step", str(10**12)),
        ("step", "9" * 5000),
        *(
            (key, value)
            for key in ("train_seconds", "checkpoint_seconds", "samples_per_second")
            for value in ("-1", "NaN", "Infinity", '"inf"')
        ),
    ],
)
def test_a_number_that_no_run_reaches_is_refused_by_line(path, key, value):
    path.write_text(path.read_text() + changed(path, key, value))
    with pytest.raises(DataError, match=r"record.jsonl, line 2: .*delete the line"):
        record.read(path)


def test_the_steady_epoch_leaves_out_tracing_and_broken_epochs():
    run = run_of(
        epoch(0, step=10, seconds=99.0, first=True),
        epoch(1, step=20, seconds=10.0),
        epoch(2, step=30, seconds=12.0),
        epoch(3, step=35, seconds=3.0, complete=False),
    )
    assert run.steady_epoch_seconds() == 11.0
    assert run.first_epoch_seconds() == 99.0


def test_what_was_never_measured_is_unknown_not_zero():
    run = run_of()
    assert run.steady_epoch_seconds() is None
    assert run.samples_per_second() is None
    assert run.whole_program_seconds() is None
    assert run.stopped() is None


def test_program_time_adds_up_over_the_processes_of_a_run():
    run = record.RunRecord(lines=(stopped(10, 5.0), resumed(10), stopped(20, 6.0)))
    assert run.program_seconds() == 11.0
    assert run.stopped() == stopped(20, 6.0)


def test_a_killed_and_resumed_run_counts_once_and_says_what_it_lacks():
    start, first, second, third, end = whole()
    again = started(10, "2026-01-01T01:00:00Z")
    late = epoch(1, step=20, seconds=7.0, first=True, time="2026-01-01T02:00:00Z")
    run = run_of(start, first, second, again, resumed(10), late, third, end)
    assert [(e.epoch, e.train_seconds) for e in run.epochs()] == [(0, 10.0), (1, 7.0), (2, 10.0)]
    assert run.whole_program_seconds() is None
    assert any(
        "line 1 started at 2026-01-01T00:00:00Z did not record" in w for w in record_warnings(run)
    )


def test_a_damaged_checkpoint_between_two_processes_is_a_warning_and_no_process():
    damaged = record.DamagedCheckpoint(
        time="2026-01-01T00:00:00Z", step=30, path="step-30.npz.damaged", reason="truncated"
    )
    late = epoch(2, step=30, first=True)
    run = run_of(*whole(), damaged, started(20), resumed(20), late, stopped(30, 60.0))
    assert [bool(part.started and part.stopped) for part in run.processes()] == [True, True]
    assert run.damaged_checkpoints() == (30,)
    (warning,) = record_warnings(run)
    assert warning == (
        "the checkpoint of step 30 was not used (line 6): truncated; the one before was. It is kept"
        " as step-30.npz.damaged"
    )


@given(st.integers(0, 4), st.integers(0, 5))
def test_a_repeated_line_counts_once_at_any_position(doubled, place):
    lines = list(whole())
    once = run_of(*lines)
    place = max(place, doubled + 1)
    lines.insert(place, lines[doubled])
    twice = run_of(*lines)
    assert twice.epochs() == once.epochs()
    assert twice.program_seconds() == once.program_seconds() == 50
    assert twice.whole_program_seconds() is not None
    (warning,) = record_warnings(twice)
    assert f"line {place + 1} repeats line {doubled + 1} (" in warning


START, FIRST, SECOND, THIRD, END = whole()
LATER = "2026-01-01T01:00:00Z"
FROM_0, FROM_10, FROM_15 = (
    started(step, LATER).model_copy(update={"hardware": START.hardware}) for step in (0, 10, 15)
)
OTHER = epoch(1, step=20, seconds=7.0)
HALF, REST = (
    epoch(1, step=step, complete=False, first=step == 20).model_copy(update={"steps": 5})
    for step in (15, 20)
)
REPEATED = "epoch 1 stands in lines 3 and 4 with no resume between; the later line counts"


@pytest.mark.parametrize(
    ("lines", "counted", "count", "said"),
    [
        ((FIRST, SECOND, resumed(10), OTHER), [(0, 10), (1, 7)], 0, ""),
        ((START, FIRST, SECOND, FROM_10, OTHER), [(0, 10), (1, 7)], 0, ""),
        ((START, FIRST, SECOND, FROM_10, resumed(10)), [(0, 10)], 0, ""),
        ((*whole(), FROM_0, OTHER), [(1, 7)], 0, ""),
        ((START, FIRST, SECOND, OTHER, THIRD, END), [(0, 10), (1, 7), (2, 10)], 1, REPEATED),
        (
            (START, FIRST, HALF, stopped(15, 30), FROM_15, resumed(15), REST, stopped(20, 20)),
            [(0, 10), (1, 10), (1, 10)],
            1,
            "clock",
        ),
        ((*whole(), *whole()), [(0, 10), (1, 10), (2, 10)], 5, "repeats line"),
        (
            (START, FIRST, THIRD, SECOND, END),
            [(0, 10), (2, 10), (1, 10)],
            2,
            "epoch 1 (line 4) stands after epoch 2; none was resumed",
        ),
    ],
    ids=[
        *("after a resume", "a start without its resume", "void before it is run again"),
        *("restarted at step 0", "recorded twice with other figures", "two parts", "written twice"),
        "back without a resume",
    ],
)
def test_an_epoch_counts_once_as_it_was_last_run(lines, counted, count, said):
    run = run_of(*lines)
    assert [(e.epoch, e.train_seconds) for e in run.epochs()] == counted
    if said:
        assert len(record_warnings(run)) == count
        assert said in record_warnings(run)[-1]
        assert run.program_seconds() == 50


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((FIRST, SECOND, THIRD, END), "line of its start is missing"),
        ((START, SECOND, THIRD, END), "epoch 0, before line 2, not recorded"),
        ((START, FIRST, THIRD, END), "epoch 1, before line 3, not recorded"),
        ((START, FIRST, SECOND, THIRD), "did not record its end: it runs still or was killed"),
        (
            (START, FIRST, epoch(5, step=60), END),
            "epochs 1 to 4, before line 3, not recorded",
        ),
        (
            (START, FIRST, SECOND.model_copy(update={"steps": 8}), THIRD, END),
            "steps 10 to 12, before line 3, are in no",
        ),
        (
            (START, FIRST, SECOND.model_copy(update={"steps": 12}), THIRD, END),
            "steps 8 to 10 are in two epochs' lines",
        ),
        (
            (START, FIRST, SECOND.model_copy(update={"time": "yesterday"}), THIRD, END),
            "line 3 has the time 'yesterday'",
        ),
        ((START, FIRST, SECOND, THIRD, stopped(30, 5.0)), "took 34 s, but the process 5 s"),
        (
            (
                *(START, FIRST, stopped(10, 20.0)),
                *(started(10, processor="another chip"), resumed(10), SECOND, THIRD, END),
            ),
            "different machines (2 cores of a chip, 4 GiB; 2 cores of another chip",
        ),
        (
            (START, FIRST, stopped(10, 20.0), SECOND, stopped(20, 25.0)),
            "a process wrote line 4, but the line of its start is missing",
        ),
        ((started(), stopped(0)), "no epoch was finished"),
        ((), "empty"),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_a_warning(lines, expected):
    (warning,) = record_warnings(run_of(*lines))
    assert expected in warning


def test_a_time_without_zone_is_utc():
    bare = THIRD.model_copy(update={"time": "2026-01-01T00:00:00"})
    assert record_warnings(run_of(START, FIRST, SECOND, bare, END)) == ()


def test_a_clock_that_goes_back_is_a_warning_and_changes_no_duration():
    early = SECOND.model_copy(update={"time": "2025-12-31T23:00:00Z"})
    run = run_of(START, FIRST, early, THIRD, END)
    assert record_warnings(run) == (
        "the clock went back by 3600 s between lines 2 and 3; no duration is taken from these times",
    )
    assert (run.steady_epoch_seconds(), run.program_seconds()) == (10, 50)


def test_a_process_whose_start_and_whose_predecessors_end_are_lost_is_no_known_time():
    run = run_of(START, FIRST, THIRD.model_copy(update={"first": True}), END)
    assert run.whole_program_seconds() is None


def test_a_held_out_loss_that_is_no_number_leaves_the_record_readable(tmp_path):
    path = tmp_path / "record.jsonl"
    record.append(path, epoch(0, step=10, held_out_losses={"generator": {"total": math.nan}}))
    assert '"total":"NaN"' in path.read_text()
    (line,) = record.read(path).lines
    assert math.isnan(line.held_out_losses["generator"]["total"])


UNTIL = parse_stop_criterion("metric<0.15")


def validated(step, value, *, best=True, reached=False, seconds=1.0):
    more = {"metrics": {"metric": value, "hits": 0.5}, "until": "metric<0.15", "time": TIME}
    more |= {"best": best, "reached": reached, "program_seconds": seconds}
    return records.validated(step // 10 - 1, value, step=step, **more)


def test_a_record_without_validations_has_no_quality():
    assert run_of(*whole()).validations() == ()
    assert run_of(*whole()).seconds_to_reach(UNTIL) is None
    assert quality_of(()) is None


def test_a_validation_changes_neither_epochs_nor_warnings_nor_processes():
    start, first, *rest = whole()
    run = run_of(start, first, validated(10, 0.3), *rest)
    assert run.epochs() == run_of(*whole()).epochs()
    assert record_warnings(run) == ()
    assert len(run.processes()) == 1


@pytest.mark.parametrize(
    ("after", "metrics"),
    [
        ((), [0.3]),
        ((OTHER, validated(20, 0.2)), [0.3, 0.2]),
        ((validated(10, 0.4),), [0.4]),
    ],
    ids=["void", "run again", "of two after one step the later"],
)
def test_a_validation_that_a_resume_voids_does_not_count(after, metrics):
    lines = (START, FIRST, validated(10, 0.3), SECOND, validated(20, 0.1), FROM_10, resumed(10))
    found = run_of(*lines, *after).validations()
    assert [each.metrics["metric"] for each in found] == metrics


REACHED = validated(20, 0.1, reached=True, seconds=9.0)
AGAIN = (started(10, "2026-01-01T01:00:00Z"), resumed(10))


@pytest.mark.parametrize(
    ("lines", "until", "seconds"),
    [
        ((FIRST, stopped(10, 30.0), *AGAIN, SECOND, REACHED), UNTIL, 39.0),
        ((FIRST, stopped(10, 30.0), *AGAIN, SECOND, REACHED, stopped(20, 9.5)), UNTIL, 39.0),
        (
            (FIRST, validated(10, 0.3, seconds=4.0), SECOND, validated(20, 0.1)),
            parse_stop_criterion("metric<=0.3"),
            4.0,
        ),
        ((FIRST, *AGAIN, SECOND, REACHED), UNTIL, None),
        (
            (FIRST, validated(10, 0.3), SECOND, validated(20, 0.2), stopped(20, 9.0)),
            UNTIL,
            None,
        ),
    ],
    ids=["processes before", "and an end", "another bound", "after a kill", "not reached"],
)
def test_the_time_to_reach_a_bound_is_that_of_all_processes_or_unknown(lines, until, seconds):
    assert run_of(START, *lines).seconds_to_reach(until) == seconds


def test_quality_names_the_newest_and_the_best():
    found = (validated(10, 0.25), validated(20, 0.3, best=False))
    assert str(quality_of(found)) == "metric 0.3 after epoch 2, best 0.25 after epoch 1"
    assert best_step(found) == 10
    assert str(quality_of(found[:1])) == "metric 0.25 after epoch 1, the best so far"


def test_quality_without_a_number_says_so():
    found = quality_of((validated(10, math.nan, best=False),))
    assert str(found) == "metric not finite after epoch 1"
    assert found.model_dump(mode="json")["value"] is None


def test_a_missing_or_damaged_record_has_no_lines(tmp_path):
    path = tmp_path / "record.jsonl"
    assert record.read_if_whole(path).lines == ()
    with pytest.raises(DataError, match="runs/NAME"):
        record.read(path)
    path.write_text("nonsense\n")
    assert record.read_if_whole(path).lines == ()
