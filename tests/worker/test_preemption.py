"""Metadata services of the clouds, and a worker whose node is preempted."""

import json
import os
import signal
import time

import pytest

from cloudgan.schema import record
from cloudgan.worker.preemption import (
    MetadataService,
    PreemptionNotice,
    PreemptionWatcher,
    StopRequest,
    record_notice,
)

CLOUDS = ("aws", "azure", "gcp")
STOPPED = record.Stopped(
    time="2026-11-21T12:00:00Z", step=7, reason="terminated", program_seconds=9, train_seconds=5
)


@pytest.mark.parametrize(("cloud", "seconds"), [("aws", 120), ("azure", 30), ("gcp", 30)])
def test_a_notice_is_read_with_its_remaining_seconds(metadata, cloud, seconds):
    double = metadata(cloud)
    service = MetadataService(cloud, double.url)
    assert service.read_notice() is None
    double.preempt(seconds)
    notice = service.read_notice()
    assert notice.cloud == cloud
    assert notice.seconds == pytest.approx(seconds, abs=2)


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(
    "unexpected",
    [(200, "<html>a captive portal</html>"), (200, "[]"), (500, ""), (403, "no"), (200, "")],
)
def test_an_unexpected_response_is_an_error(metadata, cloud, unexpected):
    double = metadata(cloud)
    double.unexpected = unexpected
    with pytest.raises(ValueError, match=r"returned|expected|Expecting"):
        MetadataService(cloud, double.url).read_notice()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_an_unreachable_service_is_a_network_error(metadata, cloud):
    double = metadata(cloud)
    double.close()
    with pytest.raises(OSError, match="refused"):
        MetadataService(cloud, double.url).read_notice()


def test_google_keeps_the_second_request_open_until_a_change(metadata):
    double = metadata("gcp")
    service = MetadataService("gcp", double.url)
    assert service.read_notice() is None
    double.preempt(30)
    assert service.read_notice() == PreemptionNotice("gcp", 30.0)
    assert len(double.asked) == 2


def test_an_ec2_token_is_cached_and_renewed_when_it_expires(metadata):
    double = metadata("aws")
    service = MetadataService("aws", double.url)
    service.read_notice()
    service.read_notice()
    tokens = [one for one in double.asked if one.startswith("PUT")]
    assert len(tokens) == 1
    double.tokens.clear()
    assert service.read_notice() is None
    assert len([one for one in double.asked if one.startswith("PUT")]) == 2


def test_an_azure_event_counts_only_if_it_names_this_node(metadata):
    double = metadata("azure")
    service = MetadataService("azure", double.url)
    double.resources = ["aks-gpu-123-vmss_4"]
    double.preempt(30)
    assert service.read_notice() is None
    double.resources = ["AKS-GPU-123-VMSS_3"]
    notice = service.read_notice()
    assert notice.event == "P1"
    service.acknowledge(notice)
    assert double.posted == [{"StartRequests": [{"EventId": "P1"}]}]


def test_an_invalid_time_leaves_the_seconds_unknown(metadata):
    double = metadata("aws")
    service = MetadataService("aws", double.url)
    service.read_notice()
    double.unexpected = (200, '{"action": "terminate", "time": "soon"}')
    assert service.read_notice() == PreemptionNotice("aws", None)


LONG = 1_000_000


def on(cloud, double):
    return {"CLOUDGAN_CLOUD": cloud, "CLOUDGAN_METADATA": double.url}


@pytest.fixture
def training(team, metadata):
    """Returns a function that starts a worker on a cloud's node: its metadata service, team and worker, with a checkpoint."""

    def start(cloud, *, deaf=False, **timeouts):
        double, one = metadata(cloud), team(1, orders={"steps": LONG, "deaf": deaf}, **timeouts)
        worker = one.start(0, **on(cloud, double))
        one.checkpoint(10)
        return double, one, worker

    return start


def test_after_a_notice_the_trainer_saves_and_the_worker_exits_with_75(training):
    double, one, worker = training("gcp")
    double.preempt(30)
    assert worker.wait() == 75
    assert "stopped when asked" in worker.output
    assert "gcp preempts this node in 30 s" in worker.output
    assert "exiting with code 75: gcp preempts this node" in worker.output
    beat = one.heartbeat()
    assert beat.notices == {0: 30}
    assert beat.exit_code == 75


def test_the_azure_event_is_acknowledged_after_the_uploads(training):
    double, one, worker = training("azure")
    seen = []

    class Posted(list):
        def append(self, body):
            seen.append(one.newest())

    double.posted = Posted()
    double.preempt(30)
    assert worker.wait() == 75
    assert seen == [one.newest()], "after the last checkpoint"


def test_the_azure_event_is_not_acknowledged_without_the_uploads(training, wait_until):
    double, one, worker = training("azure", grace_seconds=1.0)
    wait_until((one.run / "logs").is_dir, "a first log")
    logs = one.run / "logs"
    logs.rename(one.run / "elsewhere")
    logs.write_text("not a folder")
    double.preempt(30)
    assert worker.wait() == 75
    assert double.posted == []
    assert "not uploaded within" in worker.output


def test_a_notice_shortens_the_grace_period(training):
    """A trainer that does not stop is killed early enough for the uploads."""
    double, _, worker = training("aws", deaf=True, grace_seconds=600)
    double.preempt(2)
    assert worker.wait(20) == 75


def test_an_unreachable_metadata_service_is_logged_once_and_training_runs(team, metadata):
    double, one = metadata("aws"), team(1)
    double.close()
    worker = one.start(0, **on("aws", double))
    assert worker.wait() == 0
    assert worker.output.count("gives no preemption notices") == 1
    assert one.heartbeat().notices == {}


def test_the_chief_records_another_workers_notice(team, metadata, wait_until):
    """The follower exits; the chief has the notice in heartbeat and record."""
    double, two = metadata("azure"), team(2, orders={"steps": LONG, "record": False})
    two.run.mkdir(parents=True)
    record.append(two.run / "record.jsonl", STOPPED)
    chief, other = two.start(0), two.start(1, **on("azure", double))
    two.checkpoint(10)
    double.preempt(30)
    assert other.wait() == 75
    wait_until(lambda: two.heartbeat().notices, "a heartbeat with the notice")
    assert two.heartbeat().notices == {1: pytest.approx(30, abs=3)}
    chief.stop.request()
    assert chief.wait() == 75
    lines = record.read(two.run / "record.jsonl").lines
    noticed = [line for line in lines if line.kind == "noticed"]
    assert [(line.worker, line.cloud) for line in noticed] == [(1, "azure")]


def test_a_waiting_worker_exits_after_a_notice(team, metadata):
    double, two = metadata("gcp"), team(2)
    worker = two.start(0, **on("gcp", double))
    double.preempt(30)
    assert worker.wait() == 75
    assert "stopped while waiting" in worker.output


def test_without_a_cloud_no_metadata_service_is_queried(team, metadata):
    double, one = metadata("aws"), team(1)
    assert one.start(0, CLOUDGAN_METADATA=double.url).wait() == 0
    assert double.asked == []


class Service:
    """A metadata service with scripted responses that counts requests."""

    every_seconds = 0.01

    def __init__(self, *answers):
        self.answers, self.looks = list(answers), 0

    def read_notice(self):
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_polling_of_an_unreachable_service_backs_off(wait_until):
    service, lines = Service(OSError("away")), []
    watch = PreemptionWatcher(service, lambda notice: None, lines.append)
    wait_until(lambda: service.looks >= 5, "five looks")
    looks = service.looks
    time.sleep(0.1)  # the pauses are 0.02, 0.04, 0.08, 0.16, 0.32 s
    assert service.looks <= looks + 1
    assert len(lines) == 1
    watch.close()


def test_a_service_that_becomes_reachable_is_polled_again(wait_until):
    heard = []
    service = Service(OSError("away"), ValueError("odd"), None, PreemptionNotice("aws", 90.0))
    PreemptionWatcher(service, heard.append, lambda line: None)
    wait_until(lambda: heard, "notice")
    assert heard == [PreemptionNotice("aws", 90.0)]
    assert service.looks == 4


def test_the_first_sigterm_after_a_notice_does_not_kill():
    """The kubelet of an ending node sends SIGTERM while the trainer saves."""
    stop, killed, before = StopRequest(), [], signal.getsignal(signal.SIGTERM)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        stop.install_signal_handlers(lambda: killed.append(1))
        stop.request(within_seconds=25)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert killed == []
        assert 20 < stop.remaining_seconds <= 25
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


def test_a_notice_is_recorded_after_the_end_of_the_process(tmp_path):
    path = tmp_path / "record.jsonl"
    record_notice(path, 1, PreemptionNotice("gcp", 30.0))
    assert not path.exists(), "a run without a record gets none"
    record.append(path, STOPPED)
    record_notice(path, 1, PreemptionNotice("gcp", 30.0))
    found = record.read(path)
    noticed = found.lines[-1]
    assert (noticed.worker, noticed.cloud, noticed.seconds, noticed.step) == (1, "gcp", 30, 7)
    assert found.stopped() == STOPPED
    (process,) = found.processes()
    assert process.stopped == STOPPED
    record.append(path, STOPPED.model_copy(update={"step": 9}))
    assert len(record.read(path).processes()) == 2, "later lines are of another process"
    assert json.loads(path.read_text().splitlines()[1])["kind"] == "noticed"
