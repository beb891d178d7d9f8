from __future__ import annotations

import pytest

from cloudgan.launch.kubernetes.job_spec import CONFIG, WORK, JobSpec, describe_exit_code
from cloudgan.launch.kubernetes.manifests import load_manifest


@pytest.fixture
def body():
    return JobSpec(load_manifest("job"))


def test_limits_are_read_from_the_manifest(body):
    assert (body.world, body.deadline_seconds, body.grace_seconds) == (1, 86400, 60)
    assert body.probe["httpGet"]["path"] == "/state"


def test_a_worker_runs_the_containers_command_with_the_given_python(body):
    assert body.command("/venv/bin/python") == [
        "/venv/bin/python",
        "-m",
        "cloudgan",
        "worker",
        "--grace-seconds=55",
    ]


def test_mount_paths_are_replaced_but_not_longer_names(body):
    for variable in body.body["spec"]["template"]["spec"]["containers"][0]["env"]:
        if variable["name"] == "CLOUDGAN_RUN":
            variable["value"] = "/cloudgan/scratchpad"
    found = body.environment({CONFIG: "/here/config", WORK: "/here/work"})
    assert found["CLOUDGAN_CONFIG"] == "/here/config/run.yaml"
    assert found["CLOUDGAN_WORK"] == found["TMPDIR"] == "/here/work"
    assert found["CLOUDGAN_RUN"] == "/cloudgan/scratchpad"
    assert not {"HOME", "CLOUDGAN_PEERS"} & set(found)


def test_the_pod_failure_policy_decides_about_restarts(body):
    assert body.restart_exit_codes() == (75, 137, 143)
    for code in (0, 1, 2, 75, 76, 137, 143):
        assert body.restarts_after(code) == (code in body.restart_exit_codes() or code == 0)


def test_no_progress_has_its_own_cause():
    assert describe_exit_code(76)[1] == "no progress"
    assert describe_exit_code(1) == ("exited with code 1", "program")
    assert describe_exit_code(2)[0].endswith("do not fit the plan (exit code 2)")
