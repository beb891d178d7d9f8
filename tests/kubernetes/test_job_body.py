from __future__ import annotations

import pytest

from cloudgan.kubernetes.job_body import CONFIG, WORK, JobBody, why_failed
from cloudgan.kubernetes.overlay import base


@pytest.fixture
def body():
    return JobBody(base("job"))


def test_limits_are_the_manifests(body):
    assert (body.world, body.deadline_seconds, body.grace_seconds) == (1, 86400, 60)
    assert body.probe["httpGet"]["path"] == "/state"


def test_a_worker_runs_the_containers_command_with_the_python_that_is_meant(body):
    assert body.command("/venv/bin/python") == [
        "/venv/bin/python",
        "-m",
        "cloudgan",
        "worker",
        "--grace_seconds=55",
    ]


def test_mounted_folders_are_replaced_and_nothing_that_only_begins_like_them(body):
    for variable in body.body["spec"]["template"]["spec"]["containers"][0]["env"]:
        if variable["name"] == "CLOUDGAN_RUN":
            variable["value"] = "/cloudgan/scratchpad"
    found = body.environment({CONFIG: "/here/config", WORK: "/here/work"})
    assert found["CLOUDGAN_CONFIG"] == "/here/config/run.yaml"
    assert found["CLOUDGAN_WORK"] == found["TMPDIR"] == "/here/work"
    assert found["CLOUDGAN_RUN"] == "/cloudgan/scratchpad"
    assert not {"HOME", "CLOUDGAN_PEERS"} & set(found)


def test_the_rules_of_the_job_say_who_is_tried_again(body):
    assert body.tried_again() == (75, 137, 143)
    for code in (0, 1, 2, 75, 76, 137, 143):
        assert body.is_tried_again(code) == (code in body.tried_again() or code == 0)


def test_no_progress_is_told_apart_from_other_failures():
    assert why_failed(76)[1] == "no progress"
    assert why_failed(2) == ("it ended with exit code 2", "program")
