"""Supervision of workers: restarts, permanent failures, common end; their processes, state file and lock."""

import errno
import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.backends.local import supervisor as supervisors
from cloudgan.launch.backends.local.backend import local_steps
from cloudgan.launch.backends.local.supervisor import (
    LocalJob,
    Process,
    StateFile,
    Supervisor,
    process_start_time,
)
from cloudgan.launch.kubernetes.job_state import command
from cloudgan.launch.kubernetes.manifests import job
from launch.backends.local.shell_job import ANSWER, shell_job
from waiting import until

TIMES = "n=$(cat times 2>/dev/null || echo 0); echo $((n + 1)) > times; "
AT_WORK = 'cd "$CLOUDGAN_WORK"; ' + TIMES
QUICK = {"initialDelaySeconds": 0, "periodSeconds": 0.05, "timeoutSeconds": 0.3}


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Supervises a Job in this process; returns the last state and keeps all states."""
    monkeypatch.setattr(supervisors, "_INITIAL_BACKOFF_SECONDS", 0.02)
    monkeypatch.setattr(supervisors, "_POLL_SECONDS", 0.02)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(script, **asked):
        state, notes = StateFile(tmp_path), []
        write = state.write
        state.write = lambda note: (notes.append(note), write(note))
        several = asked.get("world", 1) > 1
        Supervisor(LocalJob(shell_job(script, **asked), tmp_path, several), state).run()
        run.notes = notes
        return StateFile(tmp_path).read()

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def said(tmp_path, index=0):
    return (tmp_path / "pods" / "logs" / f"worker-{index}.log").read_text()


def test_the_run_finishes_when_all_workers_are_done(keep, tmp_path):
    note = keep("echo I am $JOB_COMPLETION_INDEX", world=2)
    assert (note.phase, note.reason, note.cause) == ("finished", "", "")
    assert [one.phase for one in note.workers] == ["done", "done"]
    assert note.started_at <= note.ended_at
    assert said(tmp_path, 1) == "I am 1\n"


def test_workers_have_peers_and_separate_folders(keep, tmp_path):
    keep('echo "$CLOUDGAN_PEERS $CLOUDGAN_WORK"', world=2)
    (peers, mine), (same, other) = (said(tmp_path, n).split() for n in range(2))
    assert peers == same
    ports = [int(one.removeprefix("127.0.0.1:")) for one in peers.split(",")]
    assert len({*ports, *(port + 1 for port in ports)}) == 4, "each has a control port beside"
    assert mine != other


def test_no_other_program_gets_a_port_of_a_worker_before_its_server_listens(keep, tmp_path):
    bind = f"""exec {sys.executable} -S -c '
import os, socket
for peer in os.environ["CLOUDGAN_PEERS"].split(","):
    for more in (0, 1):
        with socket.socket() as one:
            print(one.connect_ex(("127.0.0.1", int(peer[10:]) + more)), end=" ")
        try:
            socket.create_server(("127.0.0.1", int(peer[10:]) + more))
        except OSError as error:
            print(error.errno)
' """
    keep(bind, world=2)
    assert said(tmp_path, 1).split("\n") == [f"{errno.ECONNREFUSED} {errno.EADDRINUSE}"] * 4 + [""]


def test_workers_get_a_network_for_their_trainers_and_a_private_secret(keep, tmp_path):
    key = tmp_path / "pods" / "secret" / "key"
    keep(f'echo "$CLOUDGAN_NETWORK"; readlink /proc/self/ns/net; stat -c %a {key}', world=2)
    network, own, mode = said(tmp_path).split()
    assert network
    assert own == str(Path("/proc/self/ns/net").readlink()), "the workers stay outside"
    assert mode == "600"
    assert not key.exists(), "it is deleted when the run ends"


def test_one_worker_needs_no_network_and_no_secret(keep, tmp_path):
    keep('echo "[$CLOUDGAN_NETWORK]"')
    assert said(tmp_path) == "[]\n"
    assert not (tmp_path / "pods" / "secret").exists()


@pytest.mark.parametrize(
    ("code", "cause", "reason"),
    [
        (1, "program", "worker 1: exited with code 1"),
        (139, "program", "worker 1: exited with code 139"),
        (76, "no progress", "worker 1: no newer checkpoint after three restarts (exit code 76)"),
    ],
)
def test_a_permanent_failure_ends_all_workers(keep, tmp_path, code, cause, reason):
    script = f'trap "echo stopped; exit 75" TERM; test $JOB_COMPLETION_INDEX = 1 && exit {code}; '
    note = keep(script + "sleep 60 & wait", world=2)
    assert (note.phase, note.cause, note.reason) == ("failed", cause, reason)
    assert [one.phase for one in note.workers] == ["stopped", "failed"]
    assert note.workers[1].restarts == 0
    assert [one.pid for one in note.workers] == [None, None]


@pytest.mark.parametrize("how", ["exit 75", "kill -9 $$", "kill -TERM $$"])
def test_a_transient_failure_restarts_the_worker(keep, how):
    note = keep(AT_WORK + f"test $n -lt 2 && {how}; exit 0")
    assert note.phase == "finished"
    assert note.workers[0].restarts == 2
    assert {one.phase for one in keep.notes} >= {"running", "starting", "finished"}


def test_child_processes_of_a_dead_worker_are_killed(keep, tmp_path):
    keep(AT_WORK + "test $n = 0 && { sleep 60 & echo $! > child; exit 75; }; exit 0")
    child = int((tmp_path / "pods" / "worker-0" / "child").read_text())
    assert process_start_time(child) == ""


def test_the_deadline_ends_all_workers_after_sigterm(keep, tmp_path):
    note = keep('trap "echo saved; exit 75" TERM; echo up; sleep 60 & wait', deadline=0.5)
    assert (note.phase, note.cause) == ("failed", "deadline")
    assert note.reason == "its deadline of 0 s has passed"
    assert said(tmp_path).split()[-1:] == ["saved"]


def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace_period(keep):
    started_at = time.monotonic()
    note = keep('trap "" TERM; while :; do sleep 0.1; done', deadline=0.3, grace=0.3)
    assert note.phase == "failed"
    assert time.monotonic() - started_at < 20


def test_sigterm_stops_the_run_and_the_workers_save(keep, tmp_path):
    note = keep('trap "echo saved; exit 75" TERM; kill -TERM $PPID; sleep 60 & wait')
    assert (note.phase, note.cause, note.reason) == ("stopped", "", "")
    assert said(tmp_path) == "saved\n"
    assert note.ended_at


@pytest.mark.parametrize(("script", "phase"), [("exit 0", "finished"), ("exit 1", "failed")])
def test_a_run_is_not_over_while_workers_stop(keep, script, phase):
    """A state that is over has an end time."""
    keep(script)
    assert [one.phase for one in keep.notes if one.ended_at] == [phase]
    assert not [one for one in keep.notes if one.phase == phase and not one.ended_at]


def test_a_worker_that_passes_its_probe_keeps_running(keep, monkeypatch):
    """The proxy of the environment is not used."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    note = keep(ANSWER + "3", probe=QUICK | {"failureThreshold": 1000})
    assert (note.phase, note.workers[0].restarts) == ("finished", 0)


def test_a_frozen_worker_fails_its_probe_and_is_restarted(keep):
    script = AT_WORK + "test $n = 1 && exit 0; " + ANSWER + "1 frozen"
    note = keep(script, probe=QUICK | {"initialDelaySeconds": 0.5, "failureThreshold": 2})
    assert note.phase == "finished"
    assert note.workers[0].restarts == 1
    assert any("failed the liveness probe" in one.workers[0].reason for one in keep.notes)


def test_a_response_that_is_not_http_fails_the_probe(keep):
    garbage = ANSWER.replace("HTTP/1.0 200 OK\\r\\n\\r\\n{}", "what do you want?")
    assert garbage != ANSWER
    script = AT_WORK + "test $n = 1 && exit 0; " + garbage + "99"
    note = keep(script, probe=QUICK | {"initialDelaySeconds": 0.5, "failureThreshold": 2})
    assert (note.phase, note.workers[0].restarts) == ("finished", 1)


def test_a_signal_to_an_ended_process_is_no_error(tmp_path):
    process = Process(["true"], {"PATH": os.environ["PATH"]}, tmp_path / "log", tmp_path / "work")
    until(lambda: process.exit_code() is not None)
    process.signal(signal.SIGTERM)
    process.kill()


@pytest.fixture
def file_of(plan_of, tmp_path):
    def build(**asked):
        plan = plan_of(requests=local_steps, wheels=(), **asked)
        return LocalJob(job(plan), tmp_path / "runs" / "gan")

    return build


def test_a_local_worker_uses_this_interpreter(file_of):
    assert command(file_of().body, sys.executable)[:4] == [
        sys.executable,
        "-m",
        "cloudgan",
        "worker",
    ]
    assert command(shell_job("exit 0"), sys.executable) == ["sh", "-c", "exit 0"]


def test_a_local_workers_environment_has_local_folders(file_of, tmp_path):
    found = file_of(store="gs://lab/runs").environment_of(1, "127.0.0.1:1,127.0.0.1:3")
    folder = tmp_path / "runs" / "gan"
    assert found == {
        "JOB_COMPLETION_INDEX": "1",
        "CLOUDGAN_RUN": "gan",
        "CLOUDGAN_IMAGE": "tensorflow/tensorflow:2.21.0",
        "CLOUDGAN_WORLD": "1",
        "CLOUDGAN_ACCELERATORS": "0",
        "CLOUDGAN_PEERS": "127.0.0.1:1,127.0.0.1:3",
        "CLOUDGAN_STORE": "gs://lab/runs",
        "CLOUDGAN_CONFIG": str(folder / "pods" / "config" / "run.yaml"),
        "CLOUDGAN_WORK": str(folder / "pods" / "worker-1"),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder / "pods" / "worker-1"),
    }


def test_only_complete_mount_paths_are_replaced(file_of):
    found = file_of(store="/cloudgan/scratched/on").environment_of(0, "")
    assert found["CLOUDGAN_STORE"] == "/cloudgan/scratched/on"


def test_a_run_that_was_never_started_has_no_state_and_no_supervisor(tmp_path):
    file = StateFile(tmp_path)
    assert file.read() is file.supervisor() is None
    assert list(tmp_path.iterdir()) == [], "reading creates no files"


def test_an_invalid_state_file_is_refused_with_its_path(tmp_path):
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "state.json").write_text('{"phase": "dancing"}')
    with pytest.raises(DataError, match=r"state\.json: not a SavedState"):
        StateFile(tmp_path).read()


def test_a_supervisor_is_found_while_it_holds_the_lock(tmp_path):
    file = StateFile(tmp_path)
    with file.lock():
        assert StateFile(tmp_path).supervisor() == os.getpid()
        with pytest.raises(ConfigError, match="already has a supervisor process"), file.lock():
            pass
    assert file.supervisor() is None, "the lock ends with its process, the file stays"
    with file.lock():
        assert file.supervisor() == os.getpid()


def test_a_short_shared_lock_does_not_prevent_a_supervisor(tmp_path):
    file = StateFile(tmp_path)
    with file.lock():
        pass
    with (tmp_path / "pods" / ".lock").open() as looked:
        fcntl.flock(looked, fcntl.LOCK_SH)
        threading.Timer(0.1, lambda: fcntl.flock(looked, fcntl.LOCK_UN)).start()
        with file.lock():
            assert file.supervisor() == os.getpid()


def test_the_process_id_of_a_starting_supervisor_is_awaited(tmp_path):
    (tmp_path / "pods").mkdir()
    lock = tmp_path / "pods" / ".lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def write():
            time.sleep(0.1)
            held.write("4711")
            held.flush()

        writer = threading.Thread(target=write)
        writer.start()
        assert StateFile(tmp_path).supervisor() == 4711
        writer.join()
