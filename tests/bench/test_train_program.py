"""On the real program, as far as it comes without TensorFlow."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from bench.processes import children_doing, is_gone
from cloudgan.bench.scaling import BASE, make_configs
from cloudgan.bench.train_program import run_program, run_train
from cloudgan.core.errors import CloudganError


def test_a_run_that_fails_is_told_with_its_last_lines(tmp_path):
    (config,) = make_configs(
        "weak", [BASE], preset="smoke", batch=8, steps=1, kernels="auto"
    ).values()
    with pytest.raises(CloudganError) as told:
        run_train(config, tmp_path / "round")
    assert "ended with exit code 2; its last lines" in str(told.value)
    assert "no showers named; give --data=FILE.h5" in str(told.value)


def test_ctrl_c_ends_the_program_before_it_ends_us(tmp_path):
    started = []

    def press():
        deadline = time.monotonic() + 30
        while not started and time.monotonic() < deadline:
            time.sleep(0.05)
            started.extend(children_doing(str(tmp_path)))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    words = ("simulate", str(tmp_path / "showers.h5"), "--count=1000000")
    with pytest.raises(KeyboardInterrupt):
        run_program(words, tmp_path / "log")
    assert is_gone(started[0], seconds=0.5)
