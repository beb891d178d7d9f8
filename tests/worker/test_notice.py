"""A worker whose machine is taken away: it saves, tells, and ends with 75."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from cloudgan.core import record
from cloudgan.core.record_count import processes
from cloudgan.worker import notices
from cloudgan.worker.metadata import Notice
from cloudgan.worker.notice_watch import NoticeWatch
from cloudgan.worker.stop_request import StopRequest
from worker.metadata_double import MetadataDouble

LONG = 1_000_000


@pytest.fixture
def metadata():
    made = []

    def make(cloud):
        made.append(MetadataDouble(cloud))
        return made[-1]

    yield make
    for one in made:
        one.close()


def on(cloud, double):
    return {"CLOUDGAN_CLOUD": cloud, "CLOUDGAN_METADATA": double.url}


@pytest.mark.parametrize(("cloud", "seconds"), [("aws", 120), ("azure", 30), ("gcp", 30)])
def test_a_notice_stops_the_training_which_saves_and_the_worker_ends_with_75(
    team, metadata, cloud, seconds
):
    double, one = metadata(cloud), team(1, orders={"steps": LONG})
    worker = one.start(0, **on(cloud, double))
    one.checkpoint(10)
    double.take_away(seconds)
    assert worker.wait() == 75
    assert "stopped when asked" in worker.said
    assert f"{cloud} takes this machine away in {seconds - 1}" in worker.said or (
        f"{cloud} takes this machine away in {seconds}" in worker.said
    )
    beat = one.heartbeat()
    assert beat.notices == {0: pytest.approx(seconds, abs=3)}
    assert beat.exit_code == 75


def test_azure_is_answered_only_when_all_is_in_the_store(team, metadata):
    double, one = metadata("azure"), team(1, orders={"steps": LONG})
    seen = []
    double_post = double.posted.append

    class Posted(list):
        def append(self, body):
            seen.append(one.newest())
            double_post(body)

    double.posted = Posted()
    worker = one.start(0, **on("azure", double))
    one.checkpoint(10)
    double.take_away(30)
    assert worker.wait() == 75
    assert seen == [one.newest()], "after the last checkpoint"


def test_a_store_that_is_away_keeps_azure_from_being_answered(team, metadata, wait_until):
    double, one = metadata("azure"), team(1, orders={"steps": LONG}, grace_seconds=1.0)
    worker = one.start(0, **on("azure", double))
    one.checkpoint(10)
    wait_until((one.run / "logs").is_dir, "a first log")
    logs = one.run / "logs"
    logs.rename(one.run / "elsewhere")
    logs.write_text("not a folder")
    double.take_away(30)
    assert worker.wait() == 75
    assert double.posted == []
    assert "still not in the store" in worker.said


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_a_service_that_is_away_is_told_once_and_keeps_nobody_from_training(team, metadata, cloud):
    double, one = metadata(cloud), team(1)
    double.close()
    worker = one.start(0, **on(cloud, double))
    assert worker.wait() == 0
    assert worker.said.count("nobody tells whether") == 1
    assert one.heartbeat().notices == {}


def test_the_chief_tells_and_notes_that_another_worker_loses_its_machine(
    team, metadata, wait_until
):
    """The follower saves and goes; the chief, which lives on, has it in its heartbeat and record."""
    double, two = metadata("azure"), team(2, orders={"steps": LONG, "record": False})
    stopped = record.Stopped(
        time="2026-11-21T12:00:00Z", step=7, reason="terminated", program_seconds=9, train_seconds=5
    )
    two.run.mkdir(parents=True)
    (two.run / "record.jsonl").write_text(stopped.model_dump_json() + "\n")
    chief, other = two.start(0), two.start(1, **on("azure", double))
    two.checkpoint(10)
    double.take_away(30)
    assert other.wait() == 75
    wait_until(lambda: two.heartbeat().notices, "a heartbeat that tells")
    assert two.heartbeat().notices == {1: pytest.approx(30, abs=3)}
    chief.stop.ask()
    assert chief.wait() == 75
    lines = record.read(two.run / "record.jsonl").lines
    noticed = [line for line in lines if line.kind == "noticed"]
    assert [(line.worker, line.cloud) for line in noticed] == [(1, "azure")]


def test_a_worker_that_still_waits_ends_as_well(team, metadata):
    double, two = metadata("gcp"), team(2)
    worker = two.start(0, **on("gcp", double))
    double.take_away(30)
    assert worker.wait() == 75
    assert "told to stop while it waited" in worker.said


def test_without_a_cloud_nobody_is_asked(team, metadata):
    double, one = metadata("aws"), team(1)
    assert one.start(0, CLOUDGAN_METADATA=double.url).wait() == 0
    assert double.asked == []


class Service:
    """Answers what a test wants, and counts."""

    every_seconds = 0.01

    def __init__(self, *answers):
        self.answers, self.looks = list(answers), 0

    def look(self):
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_who_does_not_answer_is_asked_ever_more_rarely(wait_until):
    service, lines = Service(OSError("away")), []
    watch = NoticeWatch(service, lambda notice: None, lines.append)
    wait_until(lambda: service.looks >= 5, "five looks")
    looks = service.looks
    time.sleep(0.1)  # the pauses are 0.02, 0.04, 0.08, 0.16, 0.32 s
    assert service.looks <= looks + 1
    assert len(lines) == 1
    watch.close()


def test_who_comes_back_is_heard(wait_until):
    heard = []
    service = Service(OSError("away"), ValueError("odd"), None, Notice("aws", 90.0))
    NoticeWatch(service, heard.append, lambda line: None)
    wait_until(lambda: heard, "notice")
    assert heard == [Notice("aws", 90.0)]
    assert service.looks == 4


def test_the_sigterm_that_follows_a_notice_kills_nothing():
    """A kubelet that shuts its node down says SIGTERM while the training saves."""
    stop, killed, before = StopRequest(), [], signal.getsignal(signal.SIGTERM)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        stop.take_signals(lambda: killed.append(1))
        stop.ask(within_seconds=25)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert killed == []
        assert 20 < stop.left_seconds <= 25
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


def test_a_notice_that_leaves_less_than_the_grace_makes_it_shorter(team, metadata):
    """A training that does not stop is killed early enough to ship what there is."""
    double, one = metadata("aws"), team(1, orders={"steps": LONG, "deaf": True}, grace_seconds=600)
    worker = one.start(0, **on("aws", double))
    one.checkpoint(10)
    double.take_away(2)
    assert worker.wait(20) == 75


def test_the_record_tells_of_the_notice_behind_the_end_of_the_process(tmp_path):
    path = tmp_path / "record.jsonl"
    notices.note(path, 1, Notice("gcp", 30.0))
    assert not path.exists(), "a run without a record gets none"
    stopped = record.Stopped(
        time="2026-11-21T12:00:00Z", step=7, reason="terminated", program_seconds=9, train_seconds=5
    )
    record.append(path, stopped)
    notices.note(path, 1, Notice("gcp", 30.0))
    found = record.read(path)
    noticed = found.lines[-1]
    assert (noticed.worker, noticed.cloud, noticed.seconds, noticed.step) == (1, "gcp", 30, 7)
    assert found.stopped() == stopped
    (process,) = processes(enumerate(found.lines, start=1))
    assert process.stopped == stopped
    record.append(path, stopped.model_copy(update={"step": 9}))
    assert len(record.read(path).processes()) == 2, "what follows is another process"
    assert json.loads(path.read_text().splitlines()[1])["kind"] == "noticed"
