"""Failures of workers, pods, trainers and the store, with a stub trainer."""

import gzip
import json
import os
import signal
import time
from pathlib import Path

import pytest

from cloudgan.core.errors import TryAgain
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.run_secret import write_secret
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.storage.store import open_store
from cloudgan.worker.pod_environment import Peers
from cloudgan.worker.preemption import StopRequest
from cloudgan.worker.rendezvous import AgentState, AgentStatus, JoinResponse
from cloudgan.worker.restart_rounds import FILE_NAME, RestartRounds, count_restart
from cloudgan.worker.trainer_process import Timeouts
from worker.conftest import is_dead

LONG = 1_000_000  # steps: it will not end before it is ended
HEAVY = {"tensorflow", "keras", "numpy", "scipy", "h5py", "matplotlib"}


@pytest.fixture
def training(team):
    """Returns a function that starts a team and its workers, in threads or processes: all train, with a checkpoint."""

    def start(world=2, *, processes=(), orders=None, environment=None, **timeouts):
        some = team(world, orders={"steps": LONG} | (orders or {}), **timeouts)
        workers = [
            some.start_process(index)
            if index in processes
            else some.start(index, **(environment or {}))
            for index in range(world)
        ]
        some.checkpoint(20)
        return some, *workers

    return start


def test_workers_wait_for_each_other_and_train_to_the_end(team):
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


def test_a_missing_worker_is_named_and_the_worker_can_restart(team):
    lonely = team(3, barrier_seconds=0.8)
    chief, other = lonely.start(0), lonely.start(1)
    assert chief.wait() == 75
    assert f"worker 2 ({lonely.peers[2].rpartition(':')[0]}:" in chief.output
    assert "no response" in chief.output
    assert "worker 1 (" not in chief.output
    assert lonely.heartbeat().missing_workers == (2,)
    assert "were ready within" in lonely.heartbeat().message
    assert other.wait() == 75  # the chief is gone


def test_an_unresolved_name_is_reported_and_others_are_looked_up_once():
    peers, asked = Peers.parse("run-{index}.run:2222", world=2, index=0), []

    def look_up(host, port):
        asked.append(host)
        if host == "run-1.run":
            raise OSError

    class Alone:
        next_generation = lambda self: None
        missing_workers = lambda self: (1,)
        response = JoinResponse

    waiting = RestartRounds(
        peers,
        AgentState(0, 2, AgentStatus(incarnation="pod-0")),
        Timeouts(barrier_seconds=0.5, resolve_every_seconds=0.05),
        rendezvous_client=Alone(),
        stop=StopRequest(),
        liveness=LivenessFile(None),
        prepare=lambda: lambda: True,
        start=None,
        is_finished=None,
        say=None,
        look_up=look_up,
    )
    with pytest.raises(TryAgain) as raised:
        waiting.run()
    assert "worker 1 (run-1.run:2223): its name does not resolve" in str(raised.value)
    assert "worker 0 (" not in str(raised.value)
    assert (asked.count("run-0.run"), asked.count("run-1.run") > 1) == (1, True)


def test_after_a_killed_trainer_all_pods_restart(training):
    two, chief, other = training()
    end = two.end_soon()
    os.kill(two.trainer_pid(1), signal.SIGKILL)
    assert (chief.wait(), other.wait()) == (0, 0)
    assert two.newest() == end
    first, second = two.began(0)
    assert first == 0
    assert second >= 20
    assert two.began(1)[1] == second
    assert "the trainer was ended by SIGKILL" in other.output
    assert "with an old liveness file" not in chief.output
    assert two.heartbeat().generation == 2


@pytest.mark.parametrize("index", [0, 1])
def test_a_failure_after_a_lost_worker_is_no_user_error(training, index):
    """TensorFlow reports a lost peer with various errors."""
    two, *workers = training(orders={"lost": 1})
    two.end_soon()
    os.kill(two.trainer_pid(index), signal.SIGKILL)
    assert [worker.wait() for worker in workers] == [0, 0]
    assert "treated as a consequence" in workers[1 - index].output


@pytest.mark.parametrize("world", [1, 2])
def test_a_failure_of_all_workers_ends_the_run(team, world):
    all_ = team(world, orders={"steps": 5, "exit": 1})
    workers = [all_.start(index) for index in range(world)]
    assert {worker.wait() for worker in workers} == {1}


def test_the_other_workers_wait_for_a_lost_pod(training, wait_until):
    two, chief, lost = training(processes=[1])
    end = two.end_soon()
    os.killpg(lost.pid, signal.SIGKILL)
    lost.wait()
    wait_until(
        lambda: (beat := two.heartbeat()) and beat.missing_workers == (1,), "a missing worker"
    )
    assert chief.thread.is_alive()
    two.new_machine(1)
    replacement = two.start(1)
    assert (chief.wait(), replacement.wait()) == (0, 0)
    assert two.began(0)[1] >= 20
    assert two.newest() == end


def test_a_replaced_chief_resumes_from_record_and_checkpoint(training, wait_until):
    two, lost, other = training(processes=[0])
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


def test_followers_leave_a_frozen_chief_and_rejoin_it(training, wait_until):
    two, chief, other = training(processes=[0], grace_seconds=5.0)
    end = two.end_soon()
    os.killpg(chief.pid, signal.SIGSTOP)
    wait_until(lambda: "worker 0 did not respond for 1 s" in other.output, "silence")
    wait_until(lambda: other.agent.state.status.phase == "waiting", "waiting")
    os.killpg(chief.pid, signal.SIGCONT)
    assert other.wait() == 0
    out, _ = chief.communicate(timeout=600)
    assert chief.returncode == 0, out
    assert two.newest() >= end


def test_a_frozen_trainer_is_killed_when_the_others_wait(training):
    two, chief, other = training()
    two.end_soon()
    frozen = two.trainer_pid(1)
    os.kill(frozen, signal.SIGSTOP)
    os.kill(two.trainer_pid(0), signal.SIGKILL)  # as TensorFlow ends when its peer is silent
    assert (chief.wait(), other.wait()) == (0, 0)
    assert "the other workers wait for a restart" in other.output
    assert is_dead(frozen)


def test_a_stalled_trainer_that_is_stopped_dumps_its_stacks_and_restarts(training):
    one, worker = training(1, stall_seconds=0.4)
    end = one.end_soon()
    os.kill(one.trainer_pid(0), signal.SIGSTOP)
    assert worker.wait() == 0
    assert "no step finished" in worker.output
    assert "fake_training.py" in worker.output.partition("Thread 0x")[2]
    assert one.began(0)[1] >= 20
    assert one.newest() == end


def test_restarts_without_a_newer_checkpoint_end_the_run(team):
    one = team(1, orders={"steps": 5, "exit": 75})
    worker = one.start(0)
    assert worker.wait() == 76
    assert one.began(0) == [0, 0, 0, 0]
    assert "without a newer one" in one.heartbeat().message
    one.order(steps=5)
    assert one.start(0).wait() == 0  # a manual restart resets the count


def test_a_user_error_ends_the_worker_with_its_code_and_message(team):
    one = team(1, orders={"steps": 5, "exit": 2})
    worker = one.start(0)
    assert worker.wait() == 2
    assert one.began(0) == [0]
    assert one.heartbeat().exit_code == 2
    assert one.heartbeat().message == "this is why"


@pytest.mark.parametrize("index", [0, 1])
def test_sigterm_ends_one_pod_after_a_checkpoint_while_the_others_wait(training, index):
    two, *workers = training()
    end = two.end_soon()
    workers[index].stop.request()
    assert workers[index].wait() == 75
    assert workers[1 - index].thread.is_alive()
    workers[index] = two.start(index)
    assert [worker.wait() for worker in workers] == [0, 0]
    assert two.newest() == end


def test_after_sigterm_all_files_are_in_the_store(training):
    one, process = training(1, processes=[0])
    process.terminate()
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 75, out
    beat = one.heartbeat()
    assert (beat.phase, beat.exit_code) == ("ended", 75)
    (log,) = (one.run / "logs" / "0").glob("*.log.gz")
    assert "cloudgan: stopped when asked" in gzip.decompress(log.read_bytes()).decode()
    last = (one.run / "record.jsonl").read_text().splitlines()[-1]
    assert last == f"step {one.newest()}"


def test_a_second_sigterm_kills_at_once(training, wait_until):
    one, process = training(1, processes=[0], orders={"deaf": True}, grace_seconds=3600.0)
    child = one.trainer_pid(0)
    process.terminate()
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=600)
    assert process.returncode == 75
    wait_until(lambda: is_dead(child), "the end of the training")


def test_a_trainer_that_does_not_stop_is_killed_within_the_grace_period(training):
    one, worker = training(1, orders={"deaf": True}, grace_seconds=1.0)
    worker.stop.request()
    assert worker.wait(5) == 75
    assert one.heartbeat().message == "the trainer did not exit in time and was killed"


def test_the_agent_imports_no_heavy_packages(team):
    process = team(1).start_process(0)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    imported = set(out.splitlines()[-1].split())
    assert "pydantic" in imported
    assert not imported & HEAVY


def test_a_finished_run_is_not_trained_again_but_a_longer_one_is(team):
    one = team(1)
    assert one.start(0).wait() == 0
    again = one.start(0)
    assert again.wait() == 0
    assert "has finished already" in again.output
    assert len(one.began(0)) == 1
    document = json.loads(one.config.read_text())
    one.config.write_text(json.dumps(document | {"training": {"epochs": 70}}))
    one.order(steps=50)
    assert one.start(0).wait() == 0
    assert one.newest() == 50


def test_a_replacement_after_the_end_exits_with_0(team):
    two = team(2)
    workers = [two.start(0), two.start(1)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert two.start(1).wait() == 0


def test_a_transient_store_failure_does_not_end_the_training(training, wait_until):
    one, worker = training(1)
    beat = one.run / "heartbeat.json"
    wait_until(beat.exists, "a heartbeat")
    beat.unlink()
    beat.mkdir()
    (beat / "in-the-way").touch()
    wait_until(lambda: "heartbeat.json was not uploaded" in worker.output, "a failure")
    one.checkpoint(one.newest() + 20)  # training went on
    (beat / "in-the-way").unlink()
    beat.rmdir()
    wait_until(beat.is_file, "a heartbeat again")
    worker.stop.request()
    assert worker.wait() == 75
    assert one.heartbeat().exit_code == 75
    assert worker.output.count("heartbeat.json was not uploaded") == 1


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_restarts_from_one_checkpoint_are_counted_and_a_newer_one_resets(store):
    steps = (None, None, 0, 0, 0, 50)
    assert [count_restart(store, step, 3) for step in steps] == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"checkpoint_step": 1, "restarts": -1}'])
def test_an_invalid_count_is_ignored(store, content):
    store.put(FILE_NAME, content)
    assert count_restart(store, 1, 3) == 0


def test_workers_agree_on_new_random_ports_for_each_generation(training):
    two, *started = training(environment={"CLOUDGAN_PORTS": "random"})
    two.end_soon()
    os.kill(two.trainer_pid(1), signal.SIGKILL)
    assert [worker.wait() for worker in started] == [0, 0]
    clusters = [[task["cluster"] for task, _ in two.seen(index)] for index in range(2)]
    assert clusters[0] == clusters[1]
    first, second = (set(cluster["worker"]) for cluster in clusters[0])
    assert len(first) == 2
    assert not first & second
    assert not (first | second) & set(two.peers)


def test_trainers_share_a_network_that_the_workers_are_not_in(team):
    network = LoopbackNetwork.create()
    two = team(2)
    started = [two.start(index, CLOUDGAN_NETWORK=str(network)) for index in range(2)]
    assert [worker.wait() for worker in started] == [0, 0]
    network.close()
    ((_, one),), ((_, other),) = two.seen(0), two.seen(1)
    assert one == other
    assert one != str(Path("/proc/self/ns/net").readlink())


def test_a_worker_with_another_secret_is_not_accepted_and_says_why(team, tmp_path):
    two = team(2, barrier_seconds=1.0)
    other = tmp_path / "other"
    write_secret(other)
    chief, stray = two.start(0), two.start(1, CLOUDGAN_SECRET_FILE=str(other))
    assert (chief.wait(), stray.wait()) == (75, 75)
    assert "does not have the secret of this run" in stray.output
