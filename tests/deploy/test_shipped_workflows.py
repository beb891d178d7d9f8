"""The workflows in deploy/, for another repository: pinned, with existing commands, and with few rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import command_options
from cloudgan.core.lock import locked
from cloudgan.launch.operations.doctor import doctor
from cloudgan.money.prices import prices

ROOT = Path(__file__).parents[2]
TEXTS = {
    name: (ROOT / "deploy" / f"{name}-workflow.yaml").read_text() for name in ("doctor", "prices")
}


def steps(name):
    return yaml.safe_load(TEXTS[name])["jobs"][name]["steps"]


@pytest.mark.parametrize(("name", "actions"), [("doctor", 5), ("prices", 2)])
def test_every_action_is_pinned_by_a_commit_and_nothing_is_installed_without_a_hash(name, actions):
    used = re.findall(r"uses: (\S+)( # v[0-9.]+)?", TEXTS[name])
    assert len(used) == actions
    assert all(
        re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) and version for action, version in used
    )
    scripts = [one.get("run", "").replace("\\\n", " ") for one in steps(name)]
    commands = [line for script in scripts for line in script.splitlines() if "pip" in line]
    of_lock, own = commands
    assert "--require-hashes" in of_lock
    assert of_lock.endswith("-r locked.txt")
    assert {"--no-index", "--no-build-isolation", "--no-deps", "."} <= set(own.split())
    lock = "python -P cloudgan/core/lock.py build "
    assert any(lock in script and "> locked.txt" in script for script in scripts)


def test_doctor_may_read_and_log_in_and_keeps_no_secret():
    found = yaml.safe_load(TEXTS["doctor"])
    assert found["permissions"] == {"contents": "read", "id-token": "write"}
    assert "secrets." not in TEXTS["doctor"]
    assert "--delete" not in TEXTS["doctor"]


def test_prices_opens_a_pull_request_and_merges_none():
    found = yaml.safe_load(TEXTS["prices"])
    assert found["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "gh pr create" in TEXTS["prices"]
    assert "merge" not in TEXTS["prices"]
    assert set(found["on"]) == {"schedule", "workflow_dispatch"}


@pytest.mark.parametrize("provider", ["gcp", "aws", "azure"])
def test_the_command_of_doctor_is_one_that_there_is_and_its_locks_too(provider):
    run = steps("doctor")[-1]["run"].replace("${{ matrix.provider }}", provider).split()
    assert run[:2] == ["cloudgan", "doctor"]
    command_options.parse(doctor, run[2:])
    assert "--hash=sha256:" in locked("build", provider)


def test_the_command_of_prices_is_one_that_there_is_and_writes_the_shipped_file():
    runs = [step.get("run", "") for step in steps("prices")]
    words = next(run for run in runs if "cloudgan prices" in run).partition("|")[0].split()
    command_options.parse(prices, words[2:])
    output = next(word for word in words if word.startswith("--output="))
    assert (ROOT / output.removeprefix("--output=")).exists()
