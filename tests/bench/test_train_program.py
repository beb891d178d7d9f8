"""On the real program, as far as it comes without TensorFlow."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from bench.processes import children_doing, is_gone
from cloudgan.bench.scaling import BASE, make_configs
from cloudgan.bench.train_program import run_train
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
    words = ("simulate", str(tmp_path / "showers.h5"), "--events=1000000")
    program = (
        "from pathlib import Path; from cloudgan.bench.train_program import run_program;"
        f" run_program({words!r}, Path({str(tmp_path / 'log')!r}))"
    )
    us = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    started = []
    deadline = time.monotonic() + 30
    while not started and time.monotonic() < deadline:
        time.sleep(0.05)
        started = children_doing(str(tmp_path), of=us.pid)
    us.send_signal(signal.SIGINT)
    _, told = us.communicate(timeout=30)
    assert told.rstrip().endswith(b"KeyboardInterrupt")
    assert is_gone(started[0], seconds=0.5)
