"""Runs with ranks, in real processes of `cloudgan train`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder, checkpoint_name
from cloudgan.training.checkpoint import read_checkpoint

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def processes(run):
    return json.loads((run / "ranks" / "processes.json").read_text())


def steps(run):
    return RunFolder(run).checkpoints.exists() and sorted(
        int(path.stem[5:]) for path in RunFolder(run).checkpoints.glob("step-*.npz")
    )


def test_one_group_that_no_centre_attracts_trains_as_two_workers_do_bit_for_bit(
    config_file, tmp_path, start, saved_arrays, same_bits
):
    parallel = {"mode": "easgd", "ranks": 3, "group": 2, "sync_every": 2, "elastic_force": 0}
    ranks, workers = tmp_path / "ranks", tmp_path / "workers"
    tracked = {"max_steps": 6, "track": "tensorboard"}
    config = config_file(global_batch_size=8, parallel=parallel, **tracked)
    process = start("train", f"--config={config}", f"--run={ranks}", "--json")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert json.loads(out[out.index("{") :])["ended"] == "max_steps"
    plain = config_file(global_batch_size=8, **tracked)
    process = start(
        "train", f"--config={plain}", f"--run={workers}", "--workers=2", "--strategy=multiworker"
    )
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    same_bits(ranks / "ranks" / "001", workers, 6)
    for run in (ranks, workers):  # only rank 0, and the chief
        (events,) = run.rglob("*.tfevents.*")
        assert events.parent == run / "tensorboard"
    # The centre stayed where the run began, and is a checkpoint with all arrays.
    centre, begin = saved_arrays(ranks, 6), saved_arrays(workers, 0)
    assert set(centre) == set(saved_arrays(workers, 6))
    kernels = [key for key in begin if key.startswith(("generator/", "discriminator/"))]
    for key in kernels:
        np.testing.assert_array_equal(centre[key], begin[key], err_msg=key)


def test_a_tree_starts_again_after_a_rank_is_killed_and_ctrl_c_saves(
    config_file, tmp_path, start, wait_for
):
    run = tmp_path / "run"
    parallel = {"mode": "downpour", "ranks": 5, "masters": 2, "sync_every": 2, "trace": True}
    config = config_file(
        plain=True, global_batch_size=4, checkpoint={"every_steps": 10}, parallel=parallel
    )
    process = start(
        "train",
        f"--config={config}",
        f"--run={run}",
        "--max-steps=1000000",
        "--epochs=100000",
        until=lambda: steps(run) and steps(run)[-1] > 0,
    )
    before, saved = processes(run), steps(run)[-1]
    os.kill(before[1], signal.SIGKILL)  # a master; tests/parallel kills all ranks at each message
    wait_for(process, lambda: steps(run)[-1] > saved)
    assert not set(before) & set(processes(run))
    assert not any(Path(f"/proc/{pid}").exists() for pid in before)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 130, out
    assert "a rank was killed" in out
    found = record.read(RunFolder(run).record_file)
    assert found.stopped().reason == "interrupted"
    assert found.stopped().step == steps(run)[-1]
    resumed = [line for line in found.lines if line.kind == "resumed"]
    assert len(resumed) == 1
    saved = [line.step for line in found.lines if line.kind == "checkpointed"]
    assert all(line.step in saved for line in resumed)
    seen = {line.worker for line in found.lines if line.kind == "exchanged"}
    assert seen == {None, 0, 1}
    newest = read_checkpoint(RunFolder(run).checkpoints / checkpoint_name(steps(run)[-1])).state
    assert len(newest.master_steps) == len(newest.worker_steps) == 2
    events = json.loads(RunFolder(run).trace_file.read_bytes())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X"} == {1, 2, 3, 4, 5}
