"""From what Cloud TPU, a machine's note and a heartbeat say to one sentence."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.heartbeat import Heartbeat
from cloudgan.providers.gcp.tpu_note import Note
from cloudgan.providers.gcp.tpu_state import run_state

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
BOOT = int(NOON.timestamp()) + 300


def resource(state, **data):
    name = "projects/lab-1/locations/us-central1-b/queuedResources/gan-1"
    return {"name": name, "createTime": "2026-11-21T12:00:00Z", "state": {"state": state, **data}}


def note(phase, exit_code=None, told="", began=BOOT):
    return Note(
        phase=phase,
        exit_code=exit_code,
        told=told,
        began=began,
        deadline_seconds=3600,
        at=began + 100,
    )


def beat(sentence="", after=60):
    time = (NOON + dt.timedelta(seconds=300 + after)).isoformat()
    values = {"configuration": "0" * 16, "phase": "training", "world": 1, "missing": ()}
    values |= {"generation": 1, "restarts": 0, "epochs": 5, "sentence": sentence}
    return Heartbeat(time=time, **values)


@pytest.mark.parametrize(
    ("there", "told", "heard", "phase", "why"),
    [
        (None, None, None, "absent", ""),
        (resource("ACCEPTED"), None, None, "waiting", "stands in the queue"),
        (resource("WAITING_FOR_RESOURCES"), None, None, "waiting", "no such TPU is free"),
        (resource("PROVISIONING"), None, None, "waiting", "being made"),
        (resource("ACTIVE"), None, None, "starting", "boots"),
        (resource("ACTIVE"), note("installing"), None, "starting", "installs its wheels"),
        (resource("ACTIVE"), note("training"), None, "starting", "begins"),
        (resource("ACTIVE"), note("training"), beat(), "running", ""),
        (resource("ACTIVE"), note("training"), beat(after=-60), "starting", "begins"),
        (resource("ACTIVE"), note("training", began=BOOT - 9999), beat(), "starting", "boots"),
        (resource("ACTIVE"), note("ended", 0), None, "finished", ""),
        (resource("DELETING"), note("ended", 0), None, "finished", ""),
        (None, note("ended", 0), None, "finished", ""),
        (None, note("ended", 75, "stopped"), None, "stopped", ""),
        (None, note("ended", 75, "deadline"), None, "failed", "time is over"),
        (None, note("ended", 76), None, "failed", "no newer checkpoint"),
        (None, note("ended", 1), beat("disk is full"), "failed", "disk is full"),
        (None, note("training"), beat(), "stopped", "gone"),
        (None, note("ended", 75, "preempted"), None, "waiting", "asked for again"),
        (resource("SUSPENDED"), note("training"), beat(), "waiting", "asked for again"),
        (resource("SUSPENDING"), None, None, "waiting", "asked for again"),
        (resource("DELETING"), note("training"), beat(), "stopped", "being deleted"),
    ],
)
def test_a_run_is_as_far_as_they_say_together(there, told, heard, phase, why):
    found = run_state(there, told, heard)
    assert found.phase == phase
    assert why in found.why
    if found.workers and phase != "stopped":
        assert found.workers[0].index == 0


def test_a_request_that_failed_tells_googles_sentence():
    data = {"error": {"code": 8, "message": "no capacity was found"}}
    found = run_state(resource("FAILED", failedData=data), None, None)
    assert (found.phase, found.why, found.cause) == ("failed", "no capacity was found", "placement")


def test_a_run_that_ended_says_from_when_until_when_by_its_machines_clock():
    found = run_state(None, note("ended", 0), None)
    assert (found.began, found.ended) == ("2026-11-21T12:05:00+00:00", "2026-11-21T12:06:40+00:00")


def test_a_machine_whose_clock_is_a_little_late_is_still_the_present_one():
    early = note("training", began=int(NOON.timestamp()) - 30)
    assert run_state(resource("ACTIVE"), early, beat()).phase == "running"
