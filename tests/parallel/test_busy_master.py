"""A master for which a message always waits; the clock of these tests counts the turns of the ranks."""

from __future__ import annotations

import threading

import pytest

from cloudgan.core.errors import TryAgain
from cloudgan.core.progress import Silent
from cloudgan.parallel import master
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.folder import FolderStore
from cloudgan.training.checkpoint import Checkpoints, read_checkpoint
from cloudgan.training.stopping import StopFlag
from parallel.world_in_turns import Loop, config_of, run_world, work
from ranks.turns import Turns

TURN_SECONDS = 0.002
MANY = 3000


@pytest.fixture
def turns(monkeypatch, request):
    """Ranks (four by default); the steps of workers take no time: the queue of the master is never empty."""
    found = Turns(getattr(request, "param", 4))
    found.more = 0.0
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(f"time.{name}", lambda: found.count * TURN_SECONDS + found.more)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return found


@pytest.mark.parametrize(
    ("turns", "options"),
    [
        (4, {"mode": "downpour"}),
        (4, {"mode": "easgd"}),
        (4, {"mode": "gem"}),
        (5, {"mode": "easgd", "ranks": 5, "masters": 2, "master_sync_every": 3}),
    ],
    indirect=["turns"],
)
def test_a_master_that_is_never_idle_ends_the_run_at_its_limit_of_time(tmp_path, turns, options):
    """The end and the last checkpoint reach the workers through the masters between."""
    config = config_of(workers=3, steps=MANY, training={"max_seconds": 20}, **options)
    outcome, *others = run_world(turns, tmp_path / "run", config)
    assert outcome.reason == "max_seconds"
    assert 20 <= outcome.train_seconds < 25
    assert record.read(RunFolder(tmp_path / "run").record_file).stopped().reason == "max_seconds"
    steps = [found[0] for found in others if found]
    assert sum(steps) == outcome.step < MANY
    assert read_checkpoint(outcome.checkpoint).state.worker_steps == tuple(steps)


def test_a_run_with_all_its_steps_has_not_ended_at_a_limit_of_time(tmp_path, turns, monkeypatch):
    monkeypatch.setattr(master, "_LOOK_SECONDS", 0.0)
    run_world(turns, tmp_path / "run", config_of(workers=3, steps=9))
    again = config_of(workers=3, steps=9, training={"max_seconds": 1e-9})
    turns.__post_init__()  # the same clock goes on
    outcome = run_world(turns, tmp_path / "run", again)[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 9)


def test_a_master_that_is_never_idle_notices_a_frozen_worker(tmp_path, turns):
    config = config_of(workers=3, steps=3 * MANY)
    steps = [0] * 4

    def freeze(world, loop):
        steps[world.rank] = loop.step
        while world.rank == 2 and loop.step == 5:
            turns.next(world.rank, moved=True)

    with pytest.raises(TryAgain, match=r"worker 1 \(rank 2\) has sent nothing for 6\d s"):
        run_world(turns, tmp_path / "run", config, step=freeze)
    assert steps[1] < MANY  # the others go on


@pytest.mark.parametrize("turns", [3], indirect=True)
def test_a_worker_that_freezes_before_it_joins_is_noticed(tmp_path, turns, monkeypatch):
    monkeypatch.setattr(master, "ROUND_SECONDS", 5.0)
    config, folder = config_of(workers=2, steps=9), RunFolder(tmp_path / "run")

    def act(world):
        rank = Rank.join(world, config, folder)
        if world.rank == 1:
            work(rank)
        if world.rank:
            while turns.problem is None:
                turns.next(world.rank, moved=True)
        keeper = RunKeeper(rank, Silent(), start_time=0.0, validator=None)
        return master.Master(rank, StopFlag(), keeper).run()

    with pytest.raises(TryAgain, match=r"rank 2 has sent nothing for 5 s and may be frozen"):
        turns.run(act)


@pytest.mark.parametrize("seconds", [[400, 0, 0], [75, 75, 75]], ids=["compiles", "is slow"])
@pytest.mark.parametrize(
    ("turns", "options"),
    [
        (3, {"mode": "downpour"}),
        (3, {"mode": "gem"}),
        (3, {"mode": "downpour", "synchronous": True}),
        (5, {"mode": "easgd", "ranks": 5, "masters": 2, "master_sync_every": 1}),
        (5, {"synchronous": True, "ranks": 5, "masters": 2, "master_sync_every": 1}),
    ],
    indirect=["turns"],
)
def test_a_slow_worker_is_not_frozen_nor_one_that_waits_for_it(tmp_path, turns, options, seconds):
    def take_longer(world, loop):
        if world.rank == turns.size - 1:
            for _ in range(seconds[loop.step]):
                turns.more += 1
                turns.next(world.rank, moved=True)

    config = config_of(workers=2, steps=6, **options)
    outcome = run_world(turns, tmp_path / "run", config, step=take_longer)[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 6)


@pytest.mark.parametrize(
    ("turns", "options"),
    [
        (2, {"ranks": 2, "sync_every": 40}),
        (5, {"ranks": 5, "masters": 2, "sync_every": 8, "master_sync_every": 5}),
    ],
    indirect=["turns"],
)
def test_the_first_exchange_may_take_a_minute_per_step(tmp_path, turns, options):
    def take_long(world, loop):
        for _ in range(50):
            turns.more += 1
            turns.next(world.rank, moved=True)

    workers = 1 if turns.size == 2 else 2
    config = config_of(workers=workers, steps=80 * workers, **options)
    outcome = run_world(turns, tmp_path / "run", config, step=take_long)[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 80 * workers)


@pytest.mark.parametrize(
    ("turns", "options"),
    [(3, {}), (5, {"ranks": 5, "masters": 2, "master_sync_every": 2})],
    indirect=["turns"],
)
def test_a_worker_that_waits_for_the_copy_of_its_checkpoint_is_not_frozen(tmp_path, turns, options):
    class Copied(Loop):
        def save(self):
            super().save()
            for _ in range(30):  # a bucket that is slow for 150 s
                for _ in range(50):
                    turns.more += 0.1
                    turns.next(self.rank.world.rank, moved=True)
                self.worker.waits()

    config = config_of(workers=2, steps=40, checkpoint={"every_steps": 20}, **options)
    outcome = run_world(turns, tmp_path / "run", config, make_loop=Copied)[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 40)


@pytest.mark.parametrize("turns", [5], indirect=True)
def test_a_master_that_waits_for_the_copy_of_its_part_is_not_frozen(tmp_path, turns, monkeypatch):
    began = {}

    def is_copied(own, *, within=0.0):
        for _ in range(50 if within else 1):
            turns.more += 0.1
            turns.next(int(threading.current_thread().name), moved=True)
        return turns.more - began.setdefault((own, *own.steps()[-1:]), turns.more) > 150

    monkeypatch.setattr(Checkpoints, "is_copied", is_copied)
    options = {"ranks": 5, "masters": 2, "master_sync_every": 2}
    config = config_of(workers=2, steps=40, checkpoint={"every_steps": 20}, **options)
    outcome = run_world(turns, tmp_path / "run", config)[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 40)


def test_a_worker_whose_message_a_busy_master_has_not_read_is_not_frozen(tmp_path, turns):
    class Slow(Silent):
        def advance(self, amount=1, note=""):
            if note.startswith("step 30,"):
                turns.more += 100
                for _ in range(20):  # the workers train meanwhile
                    turns.next(0, moved=True)

    config = config_of(workers=3, steps=99)
    outcome = run_world(turns, tmp_path / "run", config, progress=Slow())[0]
    assert (outcome.reason, outcome.step) == ("max_steps", 99)


def test_a_store_that_hangs_delays_no_answer_and_the_next_checkpoint_waits_for_it(
    tmp_path, monkeypatch
):
    put, is_released, released_by_workers = FolderStore.put, threading.Event(), []

    def hang(store, name, *content, **options):
        if name == "step-000000004.npz" and not released_by_workers:
            released_by_workers.append(is_released.wait(10))
        put(store, name, *content, **options)

    def release(world, loop):
        if loop.step == 20:
            is_released.set()

    monkeypatch.setattr(FolderStore, "put", hang)
    bucket = tmp_path / "bucket"
    checkpoint = {"every_steps": 4, "url": bucket.as_uri()}
    config = config_of(workers=2, steps=60, checkpoint=checkpoint)
    run_world(Turns(3, rounds=10**6), tmp_path / "run", config, step=release)
    assert released_by_workers == [True]
    lines = record.read(RunFolder(tmp_path / "run").record_file).lines
    points = [line for line in lines if line.kind == "checkpointed"]
    assert all(point.copied for point in points)
    steps = [point.step for point in points]
    assert steps[:2] == [0, 4]
    assert steps[2] >= 40
    assert steps[-1] == 60
    for folder in (bucket, bucket / "ranks" / "000"):
        assert max(folder.glob("step-*.npz")).name == "step-000000060.npz"
