"""The workflows of this repository: pinned actions, few rights, and commands that are targets of the Makefile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(
    re.findall(r"^([a-z]+):.*?(?:## |$)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
)
OTHERS = {"echo", "gh"}
"""A login at the registry and a release, which are no part of a checkout."""

if not FILES:
    pytest.skip("a source distribution has no workflows", allow_module_level=True)


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def text(request):
    return request.param.read_text(encoding="utf-8")


def steps(text):
    return [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]


def test_every_action_is_pinned_by_a_commit_and_says_its_version(text):
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[0-9.]+", action) for action in used)


def test_what_runs_are_targets_of_the_makefile(text):
    commands = [step["run"].split() for step in steps(text) if "run" in step]
    assert {words[0] for words in commands} <= {"make", *OTHERS}
    named = [word for words in commands if words[0] == "make" for word in words[1:]]
    assert {word for word in named if "=" not in word} <= TARGETS
    assert named


def test_a_workflow_may_read_and_a_job_says_what_more_it_needs(text):
    found = yaml.safe_load(text)
    assert found["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in found["jobs"].values())
    checkouts = [step for step in steps(text) if "actions/checkout" in step.get("uses", "")]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_the_index_is_asked_with_a_token_of_the_run_and_no_secret():
    job = yaml.safe_load((ROOT / ".github/workflows/publish.yaml").read_text("utf-8"))["jobs"]
    assert job["index"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in str(job["index"])


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_all_parts_of_a_target_run_and_the_failed_ones_are_named():
    command = ["make", "--directory", ROOT, "test", "MAKE=false"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "failed: fast full\n" in done.stderr


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    ("target", "selected"),
    [
        ("test", ["not tf and not slow", "tf and not slow"]),
        ("slow", ["not tf and slow", "tf and slow"]),
        ("tests", ["not tf", "tf"]),
    ],
)
def test_a_target_selects_the_tests_of_both_environments(target, selected):
    command = ["make", "--directory", ROOT, "--dry-run", target]
    # These tests may run below `make tests`, whose variables an inner make would inherit.
    own = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    own.pop("SPEED", None)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    assert re.findall(r'--no-loadscope-reorder -m "(.*)"', done.stdout) == selected
