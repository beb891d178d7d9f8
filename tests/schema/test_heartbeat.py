import time

import pytest

from cloudgan.schema.heartbeat import LivenessFile


def test_a_pulse_is_read_as_it_was_written_and_forgotten(tmp_path):
    liveness = LivenessFile(tmp_path / "liveness.json")
    assert liveness.read() is None
    liveness.update(7, 2)
    found = LivenessFile(tmp_path / "liveness.json").read()
    assert (found.step, found.epoch, found.steps_per_second) == (7, 2, 0.0)
    liveness.clear()
    assert liveness.read() is None


def test_quick_steps_are_written_once_a_second(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    liveness = LivenessFile(tmp_path / "liveness.json")
    for step in range(1, 6):
        liveness.update(step, 0)
        now[0] += 0.3
    assert liveness.read().step == 5
    liveness.update(6, 0)
    assert liveness.read().step == 5
    assert liveness.read().steps_per_second == pytest.approx((5 - 1) / (4 * 0.3))


def test_neither_no_file_nor_a_full_disk_ends_a_training_and_another_file_is_no_pulse(tmp_path):
    LivenessFile(None).update(1, 0)
    LivenessFile(None).clear()
    LivenessFile(tmp_path / "absent" / "liveness.json").update(1, 0)
    (tmp_path / "liveness.json").write_text("{")
    assert LivenessFile(tmp_path / "liveness.json").read() is None
