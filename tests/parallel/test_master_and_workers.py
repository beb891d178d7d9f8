"""A master and workers as real ranks, without TensorFlow: each step sleeps and adds 1 to every weight."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cloudgan.bench.sleeping_ranks import run_world
from cloudgan.core.documents import read_json
from cloudgan.parallel.rank import find_point, rank_folder
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder

_VALUES = 1000


def world(folder: Path, *, workers: int, steps: int, **options: Any) -> dict[str, float]:
    """Runs a world; its options are of the section `parallel`, except those that are named here."""
    showers, training = options.pop("showers", 10**9), options.pop("training", {})
    checkpoint = {"every_steps": options.pop("every_steps", 4), "keep": 2}
    config = RunConfig.model_validate(
        {
            "model": {"preset": "smoke"},
            "training": {"max_steps": steps} | training,
            "checkpoint": checkpoint,
            "parallel": {"ranks": _ranks(workers, **options)} | options,
        }
    )
    (folder / "config.json").write_text(config.model_dump_json())
    return run_world(folder / "run", config, values=_VALUES, sleep_seconds=0.01, showers=showers)


def _ranks(workers: int, *, masters: int = 1, **_: Any) -> int:
    return workers + masters + (masters > 1)


def test_the_centre_of_downpour_has_the_steps_of_all_workers_and_a_point_that_all_saved(tmp_path):
    found = world(tmp_path, workers=3, steps=19, mode="downpour", damping="none", sync_every=2)
    # 19 steps of 3 workers are 7, 6 and 6: each sends the steps since its last exchange, undamped.
    assert found["steps"] == 19
    assert found["centre"] == 19.0
    assert found["updates"] == 4 + 3 + 3
    folder = RunFolder(tmp_path / "run")
    run = record.read(folder.record_file)
    assert run.stopped().reason == "max_steps"
    exchanged = [line for line in run.lines if line.kind == "exchanged"]
    by_worker = {line.worker: line for line in exchanged}
    assert {number: line.updates for number, line in by_worker.items()} == {
        None: 10,
        0: 4,
        1: 3,
        2: 3,
    }
    assert sum(by_worker[None].staleness.values()) == 10
    assert by_worker[1].seconds["train"] > 0.05  # six steps of 10 ms
    # Checkpoints are written when all workers have saved theirs.
    points = [line.step for line in run.lines if line.kind == "checkpointed"]
    assert points[0] == 0
    assert points[-1] == 19
    saved, _ = find_point(read_config(tmp_path), folder, [[0, 7], [0, 6], [0, 6]])
    assert saved.state.worker_steps == (7, 6, 6)
    earlier = find_point(read_config(tmp_path), folder, [[0], [0, 6], [0]])
    assert earlier[0].state.step == 0  # the first worker lost its last checkpoint


def test_a_synchronous_master_adds_the_mean_of_all_workers_once_per_round(tmp_path):
    found = world(tmp_path, workers=3, steps=12, mode="downpour", synchronous=True)
    assert found["centre"] == 4  # rounds, each by the mean of ones
    assert found["updates"] == 12


def test_a_tree_of_masters_adds_the_steps_of_all_workers_and_each_rank_saves_its_part(tmp_path):
    options = {"mode": "downpour", "damping": "none", "master_sync_every": 2, "trace": True}
    found = world(tmp_path, workers=3, masters=2, steps=18, **options)
    # Workers 0 and 1 have master 1, worker 2 has master 2; each trains six steps.
    assert (found["steps"], found["centre"]) == (18, 18.0)
    assert found["updates"] == 6 + 3  # exchanges of the masters with rank 0, after two updates each
    folder = RunFolder(tmp_path / "run")
    run = record.read(folder.record_file)
    lines = [line for line in run.lines if line.kind == "exchanged"]
    assert [(line.rank, line.worker, line.master, line.updates) for line in lines] == [
        (0, None, None, 9),
        (1, None, 0, 12),
        (2, None, 0, 6),
        (3, 0, 1, 6),
        (4, 1, 1, 6),
        (5, 2, 2, 6),
    ]
    assert all(sum(line.staleness.values()) == line.updates for line in lines)
    assert lines[2].staleness == {"0": 6}  # its only worker
    assert lines[4].seconds["train"] > 0.05
    assert lines[1].seconds["train"] == 0
    events = json.loads(folder.trace_file.read_bytes())["traceEvents"]
    spans = Counter((event["pid"] - 1, event["name"]) for event in events if event["ph"] == "X")
    assert [spans[rank, "train"] for rank in range(6)] == [0, 0, 0, 6, 6, 6]
    assert [spans[rank, "gather"] for rank in range(6)] == [0, 6, 3, 6, 6, 6]
    assert all(spans[rank, routine] for rank in range(6) for routine in ("update", "wait", "save"))
    trained = [event["dur"] for event in events if event["name"] == "train"]
    assert min(trained) >= 10_000  # microseconds of a step that sleeps 10 ms
    all_have = {"worker_steps": [[0, 6]] * 3, "master_steps": [[12], [6]]}
    point, _ = find_point(read_config(tmp_path), folder, **all_have)
    assert point.state.step == folder.saved_steps()[-1] == 18
    assert (point.state.worker_steps, point.state.master_steps) == ((6, 6, 6), (12, 6))
    assert [rank_folder(folder, rank).saved_steps()[-1] for rank in (1, 2)] == [12, 6]
    lost = all_have | {"master_steps": [[12], []]}
    point, _ = find_point(read_config(tmp_path), folder, **lost)
    assert point.state.step == 0  # masters save none: they begin from the run's


@pytest.mark.slow
def test_an_epoch_that_ends_while_a_checkpoint_is_open_is_validated_afterwards(tmp_path):
    # Two epochs of 6 steps; a checkpoint opens with the step before the end of each of them.
    world(
        tmp_path,
        workers=1,
        steps=12,
        mode="downpour",
        showers=48,
        every_steps=5,
        training={"validate_every": 1},
    )
    run = record.read(RunFolder(tmp_path / "run").record_file)
    found = {line.epoch: line for line in run.lines if line.kind == "validated"}
    assert sorted(found) == [0, 1]
    assert [found[0].step, found[1].step] == [6, 12]
    assert found[1].metrics == {"metric": 12.0}
    points = [line.step for line in run.lines if line.kind == "checkpointed"]
    assert points == [0, 5, 6, 11, 12]


def test_the_master_ends_the_run_when_the_centre_no_longer_improves(tmp_path):
    # The metric of a centre is its first weight, which grows with each step.
    training = {"validate_every": 1, "patience": 1}
    world(tmp_path, workers=1, steps=10**4, mode="downpour", showers=48, training=training)
    run = record.read(RunFolder(tmp_path / "run").record_file)
    found = [(line.epoch, line.plateau) for line in run.lines if line.kind == "validated"]
    assert found[:2] == [(0, False), (1, True)]
    assert run.stopped().reason == "plateau"
    assert "no improvement of metric in 1 validations" in run.stopped().message


def read_config(folder: Path) -> RunConfig:
    return read_json(folder / "config.json", RunConfig)
