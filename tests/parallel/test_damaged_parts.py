"""A checkpoint of one rank that is damaged: all ranks resume from the point before."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import DataError, TryAgain
from cloudgan.parallel.rank import Rank, find_point, rank_folder
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from parallel.world_in_turns import centre, config_of, run_world
from ranks.turns import Turns

TREE = config_of(
    workers=2,
    steps=6,
    checkpoint={"every_steps": 2},
    synchronous=True,
    ranks=5,
    masters=2,
    master_sync_every=1,
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run of a tree that has ended."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # only one rank runs
    run_world(Turns(5), tmp_path / "run", TREE)
    return RunFolder(tmp_path / "run")


def damage(folder):
    """Cuts the newest checkpoint of a folder; returns its path."""
    newest = max(folder.checkpoints.glob("step-*.npz"))
    newest.write_bytes(newest.read_bytes()[:100])
    return newest


@pytest.mark.parametrize("part", [None, 0], ids=["the centre", "the rules of rank 0"])
def test_a_damaged_part_of_rank_0_costs_one_point_and_is_recorded(run, part):
    steps, (_, weights) = run.saved_steps(), centre(run.path)
    cut = damage(run if part is None else rank_folder(run, part))
    run_world(Turns(5), run.path, TREE)
    found = record.read(run.record_file)
    assert (found.damaged_checkpoints(), steps[-1]) == ((6,), 6)
    assert [line.step for line in found.lines if line.kind == "resumed"] == [4]
    assert cut.with_name(f"{cut.name}.damaged").exists()
    assert centre(run.path)[1].tobytes() == weights.tobytes(), "the same run"


def test_a_damaged_part_of_another_master_starts_all_ranks_again(run):
    _, weights = centre(run.path)
    cut = damage(rank_folder(run, 1))
    with pytest.raises(TryAgain, match=rf"{cut}: damaged .*; start all ranks again: they resume"):
        run_world(Turns(5), run.path, TREE)
    run_world(Turns(5), run.path, TREE)
    lines = record.read(run.record_file).lines
    assert [line.step for line in lines if line.kind == "resumed"] == [6, 4]
    assert centre(run.path)[1].tobytes() == weights.tobytes(), "the same run"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.write_bytes(b"PK"), r"000003.npz: damaged \("),
        (lambda path: path.unlink(), "000003.npz is gone"),
    ],
)
def test_a_damaged_part_of_a_worker_starts_all_ranks_again(run, harm, said):
    def act(world):
        rank = Rank.join(world, TREE, run)
        if rank.is_leader and not rank.worker:
            harm(rank.checkpoints().path_of(rank.first_step))
            rank.read_part()

    with pytest.raises(TryAgain, match=said):
        Turns(5).run(act)
    there = [rank_folder(run, rank).saved_steps() for rank in (3, 4, 1, 2)]
    assert 3 not in there[0]
    assert find_point(TREE, run, there[:2], there[2:])[0].state.step == 4


def test_a_run_of_which_every_point_lacks_a_part_is_refused(run):
    for path in rank_folder(run, 0).checkpoints.glob("step-*.npz"):
        path.write_bytes(b"PK")
    with pytest.raises(DataError, match="no checkpoint has its part in every folder below"):
        run_world(Turns(5), run.path, TREE)
