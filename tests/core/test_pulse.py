from __future__ import annotations

import time

import pytest

from cloudgan.core.pulse import PulseFile


def test_a_pulse_is_read_as_it_was_written_and_forgotten(tmp_path):
    pulse = PulseFile(tmp_path / "pulse.json")
    assert pulse.read() is None
    pulse.beat(7, 2)
    found = PulseFile(tmp_path / "pulse.json").read()
    assert (found.step, found.epoch, found.steps_per_second) == (7, 2, 0.0)
    pulse.forget()
    assert pulse.read() is None


def test_quick_steps_are_written_once_a_second(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pulse = PulseFile(tmp_path / "pulse.json")
    for step in range(1, 6):
        pulse.beat(step, 0)
        now[0] += 0.3
    assert pulse.read().step == 5
    pulse.beat(6, 0)
    assert pulse.read().step == 5
    assert pulse.read().steps_per_second == pytest.approx((5 - 1) / (4 * 0.3))


def test_neither_no_file_nor_a_full_disk_ends_a_training(tmp_path):
    PulseFile(None).beat(1, 0)
    PulseFile(None).forget()
    PulseFile(tmp_path / "absent" / "pulse.json").beat(1, 0)


def test_a_file_that_holds_something_else_is_no_pulse(tmp_path):
    (tmp_path / "pulse.json").write_text("{")
    assert PulseFile(tmp_path / "pulse.json").read() is None
