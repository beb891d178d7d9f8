"""What this machine makes of a Job."""

from __future__ import annotations

import sys

import pytest

from cloudgan.kubernetes.manifests import job
from cloudgan.providers.local.job_file import JobFile
from cloudgan.providers.local.requests import steps
from providers.local.shell_job import shell_job


@pytest.fixture
def file_of(plan_of, tmp_path):
    def build(**asked):
        plan = plan_of(requests=steps, wheels=(), **asked)
        return JobFile(job(plan), tmp_path / "runs" / "gan")

    return build


def test_numbers_are_those_of_the_manifest(file_of):
    found = file_of(workers={"nodes": 3, "grace_seconds": 25}, max_hours=2)
    assert (found.world, found.grace_seconds, found.deadline_seconds) == (3, 25.0, 7200.0)
    assert found.probe["httpGet"]["path"] == "/state"


def test_python_is_the_one_that_runs_this(file_of, tmp_path):
    assert file_of().command_here()[:4] == [sys.executable, "-m", "cloudgan", "worker"]
    assert JobFile(shell_job("exit 0"), tmp_path).command_here() == ["sh", "-c", "exit 0"]


def test_a_workers_environment_is_a_pods_with_folders_of_this_machine(file_of, tmp_path):
    found = file_of(store="gs://lab/runs").environment_of(1, "127.0.0.1:1,127.0.0.1:3")
    folder = tmp_path / "runs" / "gan"
    assert found == {
        "JOB_COMPLETION_INDEX": "1",
        "CLOUDGAN_RUN": "gan",
        "CLOUDGAN_IMAGE": "tensorflow/tensorflow:2.21.0",
        "CLOUDGAN_WORLD": "1",
        "CLOUDGAN_PEERS": "127.0.0.1:1,127.0.0.1:3",
        "CLOUDGAN_STORE": "gs://lab/runs",
        "CLOUDGAN_CONFIG": str(folder / "pods" / "config" / "run.yaml"),
        "CLOUDGAN_WORK": str(folder / "pods" / "worker-1"),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder / "pods" / "worker-1"),
    }


def test_only_whole_names_of_mounts_are_replaced(file_of):
    found = file_of(store="/cloudgan/scratched/on").environment_of(0, "")
    assert found["CLOUDGAN_STORE"] == "/cloudgan/scratched/on"


@pytest.mark.parametrize(
    ("code", "again"),
    [(1, False), (2, False), (75, True), (76, False), (137, True), (139, False), (143, True)],
)
def test_a_worker_is_replaced_by_the_rules_of_the_job(file_of, code, again):
    assert file_of().is_tried_again(code) is again


def test_a_code_that_no_rule_names_is_tried_again(file_of):
    found = file_of()
    del found.body["spec"]["podFailurePolicy"]["rules"][2]
    assert found.is_tried_again(1)
