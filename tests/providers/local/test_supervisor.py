"""Workers are kept as Kubernetes keeps pods: replaced, failed, ended together."""

from __future__ import annotations

import signal
import time

import pytest

from cloudgan.providers.local import supervisor as supervisors
from cloudgan.providers.local.job_file import JobFile
from cloudgan.providers.local.process import process_mark
from cloudgan.providers.local.state_file import StateFile
from cloudgan.providers.local.supervisor import Supervisor
from providers.local.shell_job import ANSWER, shell_job

TIMES = "n=$(cat times 2>/dev/null || echo 0); echo $((n + 1)) > times; "
AT_WORK = 'cd "$CLOUDGAN_WORK"; ' + TIMES
QUICK = {"initialDelaySeconds": 0, "periodSeconds": 0.05, "timeoutSeconds": 0.3}


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Supervises a Job in this process to its end; returns the last note, keeps all of them."""
    monkeypatch.setattr(supervisors, "_FIRST_BACK_OFF_SECONDS", 0.02)
    monkeypatch.setattr(supervisors, "_POLL_SECONDS", 0.02)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(script, **asked):
        state, notes = StateFile(tmp_path), []
        write = state.write
        state.write = lambda note: (notes.append(note), write(note))
        Supervisor(JobFile(shell_job(script, **asked), tmp_path), state).run()
        run.notes = notes
        return StateFile(tmp_path).read()

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def said(tmp_path, index=0):
    return (tmp_path / "pods" / "logs" / f"worker-{index}.log").read_text()


def test_workers_that_are_all_done_finish_the_run(keep, tmp_path):
    note = keep("echo I am $JOB_COMPLETION_INDEX", world=2)
    assert (note.phase, note.why, note.cause) == ("finished", "", "")
    assert [one.phase for one in note.workers] == ["done", "done"]
    assert note.began <= note.ended
    assert said(tmp_path, 1) == "I am 1\n"


def test_workers_know_each_other_and_have_a_folder_each(keep, tmp_path):
    keep('echo "$CLOUDGAN_PEERS $CLOUDGAN_WORK"', world=2)
    (peers, mine), (same, other) = (said(tmp_path, n).split() for n in range(2))
    assert peers == same
    ports = [int(one.removeprefix("127.0.0.1:")) for one in peers.split(",")]
    assert len({*ports, *(port + 1 for port in ports)}) == 4, "each has a control port beside"
    assert mine != other


@pytest.mark.parametrize(
    ("code", "cause", "why"),
    [
        (1, "program", "worker 1: it ended with exit code 1"),
        (139, "program", "worker 1: it ended with exit code 139"),
        (76, "no progress", "worker 1: three restarts brought no newer checkpoint (exit code 76)"),
    ],
)
def test_a_worker_that_fails_for_good_ends_all(keep, tmp_path, code, cause, why):
    script = f'trap "echo told; exit 75" TERM; test $JOB_COMPLETION_INDEX = 1 && exit {code}; '
    note = keep(script + "sleep 60 & wait", world=2)
    assert (note.phase, note.cause, note.why) == ("failed", cause, why)
    assert [one.phase for one in note.workers] == ["stopped", "failed"]
    assert note.workers[1].replaced == 0
    assert [one.pid for one in note.workers] == [None, None]


@pytest.mark.parametrize("how", ["exit 75", "kill -9 $$", "kill -TERM $$"])
def test_a_worker_that_may_do_better_is_replaced_and_the_run_goes_on(keep, how):
    note = keep(AT_WORK + f"test $n -lt 2 && {how}; exit 0")
    assert note.phase == "finished"
    assert note.workers[0].replaced == 2
    assert {one.phase for one in keep.notes} >= {"running", "starting", "finished"}


def test_what_a_dead_worker_left_running_is_ended(keep, tmp_path):
    keep(AT_WORK + "test $n = 0 && { sleep 60 & echo $! > child; exit 75; }; exit 0")
    child = int((tmp_path / "pods" / "worker-0" / "child").read_text())
    assert process_mark(child) == ""


def test_the_deadline_ends_all_with_a_word_before(keep, tmp_path):
    note = keep('trap "echo saved; exit 75" TERM; echo up; sleep 60 & wait', deadline=0.5)
    assert (note.phase, note.cause) == ("failed", "deadline")
    assert note.why == "its deadline of 0 s is over"
    assert said(tmp_path).split()[-1:] == ["saved"]


def test_a_worker_that_does_not_listen_is_killed_after_its_grace(keep):
    began = time.monotonic()
    note = keep('trap "" TERM; while :; do sleep 0.1; done', deadline=0.3, grace=0.3)
    assert note.phase == "failed"
    assert time.monotonic() - began < 20


def test_sigterm_stops_the_run_and_the_workers_save(keep, tmp_path):
    note = keep('trap "echo saved; exit 75" TERM; kill -TERM $PPID; sleep 60 & wait')
    assert (note.phase, note.cause, note.why) == ("stopped", "", "")
    assert said(tmp_path) == "saved\n"
    assert note.ended


@pytest.mark.parametrize(("script", "phase"), [("exit 0", "finished"), ("exit 1", "failed")])
def test_while_a_run_is_being_ended_it_is_not_over(keep, script, phase):
    """Whoever sees that it is over sees when it ended, too."""
    keep(script)
    assert [one.phase for one in keep.notes if one.ended] == [phase]
    assert not [one for one in keep.notes if one.phase == phase and not one.ended]


def test_a_worker_that_answers_its_probe_is_left_alone(keep, monkeypatch):
    """Also where this machine reaches the world by a proxy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    note = keep(ANSWER + "3", probe=QUICK | {"failureThreshold": 1000})
    assert (note.phase, note.workers[0].replaced) == ("finished", 0)


def test_a_frozen_worker_is_killed_by_its_probe_and_replaced(keep):
    script = AT_WORK + "test $n = 1 && exit 0; " + ANSWER + "1 frozen"
    note = keep(script, probe=QUICK | {"initialDelaySeconds": 0.5, "failureThreshold": 2})
    assert note.phase == "finished"
    assert note.workers[0].replaced == 1
    assert any("did not answer any more" in one.workers[0].why for one in keep.notes)


def test_an_answer_that_is_no_http_is_a_miss_and_no_fault_of_ours(keep):
    garbage = ANSWER.replace("HTTP/1.0 200 OK\\r\\n\\r\\n{}", "what do you want?")
    assert garbage != ANSWER
    script = AT_WORK + "test $n = 1 && exit 0; " + garbage + "99"
    note = keep(script, probe=QUICK | {"initialDelaySeconds": 0.5, "failureThreshold": 2})
    assert (note.phase, note.workers[0].replaced) == ("finished", 1)
