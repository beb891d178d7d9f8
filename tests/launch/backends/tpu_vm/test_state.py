"""State of a run from Cloud TPU, the VM's status file and the heartbeat."""

import datetime as dt

import pytest

from cloudgan.launch.backends.tpu_vm.state import VmStatus, run_state
from cloudgan.schema.heartbeat import Heartbeat

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
BOOT = int(NOON.timestamp()) + 300


def resource(state, **data):
    name = "projects/lab-1/locations/us-central1-b/queuedResources/gan-1"
    return {"name": name, "createTime": "2026-11-21T12:00:00Z", "state": {"state": state, **data}}


def status(phase, exit_code=None, stop_reason="", booted_at=BOOT):
    return VmStatus(
        phase=phase,
        exit_code=exit_code,
        stop_reason=stop_reason,
        booted_at=booted_at,
        deadline_seconds=3600,
        written_at=booted_at + 100,
    )


def beat(message="", after=60):
    time = (NOON + dt.timedelta(seconds=300 + after)).isoformat()
    values = {"config_hash": "0" * 16, "phase": "training", "world": 1, "missing_workers": ()}
    values |= {"generation": 1, "restarts": 0, "epochs": 5, "message": message}
    return Heartbeat(time=time, **values)


@pytest.mark.parametrize(
    ("queued", "vm", "heartbeat", "phase", "why"),
    [
        (None, None, None, "absent", ""),
        (resource("ACCEPTED"), None, None, "waiting", "is queued"),
        (resource("WAITING_FOR_RESOURCES"), None, None, "waiting", "no such TPU is available"),
        (resource("PROVISIONING"), None, None, "waiting", "being provisioned"),
        (resource("ACTIVE"), None, None, "starting", "boots"),
        (resource("ACTIVE"), status("installing"), None, "starting", "installs its wheels"),
        (resource("ACTIVE"), status("training"), None, "starting", "worker starts"),
        (resource("ACTIVE"), status("training"), beat(), "running", ""),
        (resource("ACTIVE"), status("training"), beat(after=-60), "starting", "worker starts"),
        (
            resource("ACTIVE"),
            status("training", booted_at=BOOT - 9999),
            beat(),
            "starting",
            "boots",
        ),
        (resource("ACTIVE"), status("ended", 0), None, "finished", ""),
        (resource("DELETING"), status("ended", 0), None, "finished", ""),
        (None, status("ended", 0), None, "finished", ""),
        (None, status("ended", 75, "stopped"), None, "stopped", ""),
        (None, status("ended", 75, "deadline"), None, "failed", "deadline has passed"),
        (None, status("ended", 76), None, "failed", "no newer checkpoint"),
        (None, status("ended", 1), beat("disk is full"), "failed", "disk is full"),
        (None, status("training"), beat(), "stopped", "gone"),
        (None, status("ended", 75, "preempted"), None, "waiting", "requesting it again"),
        (resource("SUSPENDED"), status("training"), beat(), "waiting", "requesting it again"),
        (resource("SUSPENDING"), None, None, "waiting", "requesting it again"),
        (resource("DELETING"), status("training"), beat(), "stopped", "being deleted"),
    ],
)
def test_the_state_follows_from_all_three(queued, vm, heartbeat, phase, why):
    found = run_state(queued, vm, heartbeat)
    assert found.phase == phase
    assert why in found.reason
    if found.workers and phase != "stopped":
        assert found.workers[0].index == 0


def test_a_failed_request_shows_googles_message():
    data = {"error": {"code": 8, "message": "no capacity was found"}}
    found = run_state(resource("FAILED", failedData=data), None, None)
    assert (found.phase, found.reason, found.cause) == (
        "failed",
        "no capacity was found",
        "placement",
    )


def test_an_ended_run_has_start_and_end_times_of_the_vms_clock():
    found = run_state(None, status("ended", 0), None)
    assert (found.started_at, found.ended_at) == (
        "2026-11-21T12:05:00+00:00",
        "2026-11-21T12:06:40+00:00",
    )


def test_a_vm_whose_clock_is_a_little_slow_is_still_the_current_one():
    early = status("training", booted_at=int(NOON.timestamp()) - 30)
    assert run_state(resource("ACTIVE"), early, beat()).phase == "running"
