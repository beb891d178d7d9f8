from __future__ import annotations

import pytest

from cloudgan.core import record
from cloudgan.core.errors import DataError


def epoch(number, *, step, seconds=10.0, first=False, complete=True):
    return record.Epoch(
        time="2026-01-01T00:00:00Z",
        step=step,
        epoch=number,
        first=first,
        complete=complete,
        steps=10,
        samples=320,
        carried_samples=0,
        dropped_samples=0,
        train_seconds=seconds,
        trace_seconds=0.0,
        validation_seconds=1.0,
        checkpoint_seconds=0.5,
        samples_per_second=32.0,
        losses={},
        test_losses=None,
    )


def resumed(step):
    return record.Resumed(time="2026-01-01T00:00:00Z", step=step, path="x", numbers_change=())


def stopped(step, seconds=5.0):
    return record.Stopped(
        time="2026-01-01T00:00:00Z",
        step=step,
        reason="finished",
        program_seconds=seconds,
        train_seconds=seconds,
    )


def test_lines_come_back_as_they_were_written(tmp_path):
    path, lines = tmp_path / "record.jsonl", (epoch(0, step=10), resumed(10), stopped(10))
    for line in lines:
        record.append(path, line)
    assert record.read(path).lines == lines


def test_a_line_cut_short_by_a_crash_is_left_out_and_healed_by_the_next(tmp_path):
    path = tmp_path / "record.jsonl"
    record.append(path, epoch(0, step=10))
    with path.open("ab") as file:
        file.write(b'{"kind": "epoch", "st')
    assert len(record.read(path).lines) == 1
    record.append(path, epoch(1, step=20))
    assert [line.step for line in record.read(path).lines] == [10, 20]


def test_a_broken_line_inside_is_named_by_its_number(tmp_path):
    path = tmp_path / "record.jsonl"
    record.append(path, epoch(0, step=10))
    with path.open("ab") as file:
        file.write(b'{"kind": "nonsense"}\n')
    record.append(path, epoch(1, step=20))
    with pytest.raises(DataError, match=r"record.jsonl, line 2"):
        record.read(path)


def test_a_missing_record_says_what_to_name(tmp_path):
    with pytest.raises(DataError, match="runs/NAME"):
        record.read(tmp_path / "record.jsonl")


def test_an_epoch_repeated_after_a_resume_counts_once():
    lines = (epoch(0, step=10), epoch(1, step=20), resumed(10), epoch(1, step=20, seconds=7.0))
    epochs = record.RunRecord(lines=lines).epochs()
    assert [(e.epoch, e.train_seconds) for e in epochs] == [(0, 10.0), (1, 7.0)]


def test_the_steady_epoch_leaves_out_tracing_and_broken_epochs():
    lines = (
        epoch(0, step=10, seconds=99.0, first=True),
        epoch(1, step=20, seconds=10.0),
        epoch(2, step=30, seconds=12.0),
        epoch(3, step=35, seconds=3.0, complete=False),
    )
    run = record.RunRecord(lines=lines)
    assert run.steady_epoch_seconds() == 11.0
    assert run.first_epoch_seconds() == 99.0


def test_what_was_never_measured_is_unknown_not_zero():
    run = record.RunRecord(lines=())
    assert run.steady_epoch_seconds() is None
    assert run.samples_per_second() is None
    assert run.stopped() is None


def test_program_time_adds_up_over_the_processes_of_a_run():
    run = record.RunRecord(lines=(stopped(10, 5.0), resumed(10), stopped(20, 6.0)))
    assert run.program_seconds() == 11.0
    assert run.stopped() == stopped(20, 6.0)
