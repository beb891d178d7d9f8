"""A run that was killed or told to stop goes on, by the real processes of `cloudgan train`."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from cloudgan.core import record
from cloudgan.run_folder import RunFolder

pytestmark = pytest.mark.tf
CODES = {signal.SIGTERM: 75, signal.SIGINT: 130}


def test_a_run_killed_in_the_middle_of_an_epoch_goes_on_to_the_same_bits(
    config_file, tmp_path, run_cloudgan, start, saved_arrays
):
    config = config_file(batch_per_replica=8, checkpoint={"every_steps": 3, "keep": 9})
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    started = ("train", f"--config={config}", f"--run={killed}", "--max_steps=400")
    process = start(*started, until=RunFolder(killed).checkpoints / "step-000000006.npz")
    process.kill()
    process.communicate()
    saved = max(int(p.stem[5:]) for p in RunFolder(killed).checkpoints.glob("step-*.npz"))
    end = saved + 8
    run_cloudgan("train", f"--run={killed}", f"--max_steps={end}")
    run_cloudgan("train", f"--config={config}", f"--run={unbroken}", f"--max_steps={end}")
    theirs, ours = saved_arrays(unbroken, end), saved_arrays(killed, end)
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    lines = record.read(RunFolder(killed).record_file).lines
    resumed = [line for line in lines if isinstance(line, record.Resumed)]
    assert [line.step for line in resumed] == [saved]
    assert resumed[0].numbers_change == ()


@pytest.mark.parametrize("number", CODES)
def test_a_signal_saves_and_ends_with_its_code_and_the_run_goes_on(
    config_file, tmp_path, run_cloudgan, start, number
):
    config = config_file(plain=True, batch_per_replica=8, checkpoint={"every_steps": 2})
    run = tmp_path / "run"
    started = ("train", f"--config={config}", f"--run={run}", "--max_steps=4000")
    process = start(*started, until=RunFolder(run).checkpoints / "step-000000002.npz")
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == CODES[number], out
    last = record.read(RunFolder(run).record_file).lines[-1]
    assert isinstance(last, record.Stopped)
    assert (RunFolder(run).checkpoints / f"step-{last.step:09d}.npz").exists()
    done = run_cloudgan("train", f"--run={run}", f"--max_steps={last.step + 1}", "--json")
    assert json.loads(done.stdout)["step"] == last.step + 1


def test_a_signal_before_the_first_step_ends_at_once(config_file, tmp_path, start):
    config, run = config_file(batch_per_replica=8), tmp_path / "run"
    first = RunFolder(run).checkpoints / "step-000000000.npz"
    process = start("train", f"--config={config}", f"--run={run}", until=first)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 75
