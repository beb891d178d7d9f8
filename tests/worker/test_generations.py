"""A team of workers through all that can happen to it; what they train is a stand-in."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from pathlib import Path

import pytest

from cloudgan.core.errors import TryAgain
from cloudgan.core.pulse import PulseFile
from cloudgan.worker.background import Background
from cloudgan.worker.generations import Crew, Generations
from cloudgan.worker.limits import Limits
from cloudgan.worker.peers import Names, Peers
from cloudgan.worker.state import WorkerState
from cloudgan.worker.stop_request import StopRequest

LONG = 1_000_000  # steps: it will not end before it is ended
HEAVY = {"tensorflow", "keras", "numpy", "scipy", "h5py", "matplotlib"}


def is_dead(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"  # an orphan may wait for somebody to collect it


def test_workers_wait_for_each_other_and_train_to_the_end(team, wait_until):
    two = team(2)
    other = two.start(1)
    time.sleep(0.3)
    assert two.began(1) == []
    chief = two.start(0)
    assert (chief.wait(), other.wait()) == (0, 0)
    assert two.newest() == 30
    beat = two.heartbeat()
    assert (beat.phase, beat.exit_code, beat.generation, beat.restarts) == ("ended", 0, 1, 0)
    assert (two.run / "record.jsonl").read_text().splitlines()[-1] == "step 30"


def test_a_worker_alone_needs_nobody(team):
    alone = team(1).start(0)
    assert alone.wait() == 0
    assert "TF_CONFIG" not in alone.said


def test_who_is_missing_is_named_and_the_worker_can_be_started_again(team):
    lonely = team(3, barrier_seconds=0.8)
    chief, other = lonely.start(0), lonely.start(1)
    assert chief.wait() == 75
    assert f"worker 2 ({lonely.peers[2].rpartition(':')[0]}:" in chief.said
    assert "it did not answer" in chief.said
    assert "worker 1 (" not in chief.said
    assert lonely.heartbeat().missing == (2,)
    assert "came within" in lonely.heartbeat().sentence
    assert other.wait() == 75  # the chief is gone


def test_a_name_that_does_not_resolve_is_told(team):
    peers = Peers.parse("run-{index}.run:2222", world=2, index=0)

    def look_up(host, port):
        if host == "run-1.run":
            raise OSError

    class Alone:
        go = is_over = lambda self: None
        missing = lambda self: (1,)

    crew = Crew(
        membership=Alone(),
        names=Names(peers, look_up),
        stop=StopRequest(),
        pulse=PulseFile(None),
        prepare=lambda: Background(lambda: None, "prepare"),
        start=None,
        is_finished=None,
        say=None,
    )
    waiting = Generations(peers, WorkerState(0, 2, "pod-0"), Limits(barrier_seconds=0.2), crew)
    with pytest.raises(TryAgain) as told:
        waiting.run()
    assert "worker 1 (run-1.run:2223): its name does not resolve" in str(told.value)
    assert "worker 0 (" not in str(told.value)


def test_a_training_that_is_killed_begins_again_in_all_pods(team, wait_until):
    two = team(2, orders={"steps": LONG})
    chief, other = two.start(0), two.start(1)
    two.checkpoint(20)
    end = two.end_soon()
    os.kill(two.child(1), signal.SIGKILL)
    assert (chief.wait(), other.wait()) == (0, 0)
    assert two.newest() == end
    first, second = two.began(0)
    assert first == 0
    assert second >= 20
    assert two.began(1)[1] == second
    assert "the training process ended by SIGKILL" in other.said
    assert "with an old pulse" not in chief.said
    assert two.heartbeat().generation == 2


@pytest.mark.parametrize("index", [0, 1])
def test_a_fault_that_follows_from_a_lost_worker_is_no_mistake_of_the_user(team, index):
    """TensorFlow has many ways to say that a peer is gone, and may find a new one."""
    two = team(2, orders={"steps": LONG, "lost": 1})
    workers = [two.start(0), two.start(1)]
    two.checkpoint(20)
    two.end_soon()
    os.kill(two.child(index), signal.SIGKILL)
    assert [worker.wait() for worker in workers] == [0, 0]
    assert "taken for a consequence" in workers[1 - index].said


@pytest.mark.parametrize("world", [1, 2])
def test_a_fault_of_all_is_a_fault(team, world):
    all_ = team(world, orders={"steps": 5, "exit": 1})
    workers = [all_.start(index) for index in range(world)]
    assert {worker.wait() for worker in workers} == {1}


def test_a_pod_that_is_lost_is_awaited_by_the_others_where_they_are(team, wait_until):
    two = team(2, orders={"steps": LONG})
    chief = two.start(0)
    lost = two.start_process(1)
    two.checkpoint(20)
    end = two.end_soon()
    os.killpg(lost.pid, signal.SIGKILL)
    lost.wait()
    wait_until(lambda: (beat := two.heartbeat()) and beat.missing == (1,), "a missing worker")
    assert chief.thread.is_alive()
    two.new_machine(1)
    replacement = two.start(1)
    assert (chief.wait(), replacement.wait()) == (0, 0)
    assert two.began(0)[1] >= 20
    assert two.newest() == end


def test_a_chief_that_is_lost_is_awaited_too_and_takes_up_record_and_checkpoint(team, wait_until):
    two = team(2, orders={"steps": LONG})
    lost = two.start_process(0)
    other = two.start(1)
    two.checkpoint(20)
    wait_until((two.run / "record.jsonl").exists, "a record in the store")
    end = two.end_soon()
    os.killpg(lost.pid, signal.SIGKILL)
    lost.wait()
    two.new_machine(0)
    chief = two.start(0)
    assert (chief.wait(), other.wait()) == (0, 0)
    assert two.began(0)[1] == two.began(1)[1] >= 20
    lines = (two.run / "record.jsonl").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("step 1", f"step {end}")


def test_a_chief_that_is_frozen_is_left_and_joined_again_when_it_wakes(team, wait_until):
    two = team(2, orders={"steps": LONG}, grace_seconds=5.0)
    chief, other = two.start_process(0), two.start(1)
    two.checkpoint(20)
    end = two.end_soon()
    os.killpg(chief.pid, signal.SIGSTOP)
    wait_until(lambda: "worker 0 did not answer for 1 s" in other.said, "silence")
    wait_until(lambda: other.pod.state.standing.phase == "waiting", "waiting")
    os.killpg(chief.pid, signal.SIGCONT)
    assert other.wait() == 0
    out, _ = chief.communicate(timeout=30)
    assert chief.returncode == 0, out
    assert two.newest() >= end


def test_a_frozen_training_is_killed_once_the_others_wait(team, wait_until):
    two = team(2, orders={"steps": LONG})
    chief, other = two.start(0), two.start(1)
    two.checkpoint(20)
    two.end_soon()
    frozen = two.child(1)
    os.kill(frozen, signal.SIGSTOP)
    os.kill(two.child(0), signal.SIGKILL)  # as TensorFlow ends when its peer is silent
    assert (chief.wait(), other.wait()) == (0, 0)
    assert "the others wait to begin anew" in other.said
    assert is_dead(frozen)


def test_a_training_that_hangs_says_where_and_begins_again(team, wait_until):
    one = team(1, orders={"steps": LONG, "silent": 25}, stall_seconds=0.4)
    worker = one.start(0)
    wait_until(lambda: "no step was finished" in worker.said, "a stall")
    one.order(steps=40)
    assert worker.wait() == 0
    assert "Thread 0x" in worker.said
    assert "fake_training.py" in worker.said.partition("Thread 0x")[2]
    assert one.began(0) == [0, 20]


def test_a_training_that_is_stopped_is_woken_to_say_where_it_was(team, wait_until):
    one = team(1, orders={"steps": LONG}, stall_seconds=0.4)
    worker = one.start(0)
    one.checkpoint(20)
    end = one.end_soon()
    os.kill(one.child(0), signal.SIGSTOP)
    assert worker.wait() == 0
    assert "Thread 0x" in worker.said
    assert one.newest() == end


def test_without_a_newer_checkpoint_a_run_is_given_up(team):
    one = team(1, orders={"steps": 5, "exit": 75})
    worker = one.start(0)
    assert worker.wait() == 76
    assert one.began(0) == [0, 0, 0, 0]
    assert "never came to a newer one" in one.heartbeat().sentence
    one.order(steps=5)
    assert one.start(0).wait() == 0  # whoever starts it again begins to count again


def test_a_mistake_of_the_user_ends_the_worker_with_its_code_and_its_words(team):
    one = team(1, orders={"steps": 5, "exit": 2})
    worker = one.start(0)
    assert worker.wait() == 2
    assert one.began(0) == [0]
    assert one.heartbeat().exit_code == 2
    assert one.heartbeat().sentence == "this is why"


@pytest.mark.parametrize("index", [0, 1])
def test_sigterm_saves_and_ends_one_pod_while_the_others_wait(team, index, wait_until):
    two = team(2, orders={"steps": LONG})
    workers = [two.start(0), two.start(1)]
    two.checkpoint(20)
    end = two.end_soon()
    workers[index].stop.ask()
    assert workers[index].wait() == 75
    assert workers[1 - index].thread.is_alive()
    workers[index] = two.start(index)
    assert [worker.wait() for worker in workers] == [0, 0]
    assert two.newest() == end


def test_sigterm_reaches_the_program_and_leaves_everything_in_the_store(team):
    one = team(1, orders={"steps": LONG})
    process = one.start_process(0)
    one.checkpoint(20)
    process.terminate()
    out, _ = process.communicate(timeout=15)
    assert process.returncode == 75, out
    beat = one.heartbeat()
    assert (beat.phase, beat.exit_code) == ("ended", 75)
    (log,) = (one.run / "logs" / "0").glob("*.log.gz")
    assert "cloudgan: stopped when asked" in gzip.decompress(log.read_bytes()).decode()
    last = (one.run / "record.jsonl").read_text().splitlines()[-1]
    assert last == f"step {one.newest()}"


def test_a_second_sigterm_ends_at_once(team, wait_until):
    one = team(1, orders={"steps": LONG, "deaf": True}, grace_seconds=60.0)
    process = one.start_process(0)
    child = one.child(0)
    one.checkpoint(10)
    process.terminate()
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=5)
    assert process.returncode == 75
    wait_until(lambda: is_dead(child), "the end of the training")


def test_a_training_that_does_not_stop_is_killed_within_the_grace(team):
    one = team(1, orders={"steps": LONG, "deaf": True}, grace_seconds=1.0)
    worker = one.start(0)
    one.checkpoint(10)
    worker.stop.ask()
    assert worker.wait(5) == 75
    assert one.heartbeat().sentence == "the training process did not end in time and was killed"


def test_the_worker_itself_imports_nothing_heavy(team):
    process = team(1).start_process(0)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, out
    imported = set(out.splitlines()[-1].split())
    assert "pydantic" in imported
    assert not imported & HEAVY


def test_a_finished_run_is_not_trained_again_but_a_longer_one_is(team):
    one = team(1)
    assert one.start(0).wait() == 0
    again = one.start(0)
    assert again.wait() == 0
    assert "finished already" in again.said
    assert len(one.began(0)) == 1
    document = json.loads(one.config.read_text())
    one.config.write_text(json.dumps(document | {"training": {"epochs": 70}}))
    one.order(steps=50)
    assert one.start(0).wait() == 0
    assert one.newest() == 50


def test_a_replacement_that_comes_when_all_is_done_ends_well(team):
    two = team(2)
    workers = [two.start(0), two.start(1)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert two.start(1).wait() == 0


def test_a_store_that_fails_for_a_while_does_not_end_a_training(team, wait_until):
    one = team(1, orders={"steps": LONG})
    worker = one.start(0)
    one.checkpoint(20)
    beat = one.run / "heartbeat.json"
    wait_until(beat.exists, "a heartbeat")
    beat.unlink()
    beat.mkdir()
    (beat / "in-the-way").touch()
    wait_until(lambda: "heartbeat.json is not in the store" in worker.said, "a failure")
    one.checkpoint(one.newest() + 20)  # training went on
    (beat / "in-the-way").unlink()
    beat.rmdir()
    wait_until(beat.is_file, "a heartbeat again")
    worker.stop.ask()
    assert worker.wait() == 75
    assert one.heartbeat().exit_code == 75
    assert worker.said.count("heartbeat.json is not in the store") == 1
