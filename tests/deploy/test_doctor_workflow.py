"""The workflow that runs `cloudgan doctor`: read only, pinned, with an existing command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import command_options
from cloudgan.core.lock import locked
from cloudgan.launch.operations.doctor import doctor

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "doctor-workflow.yaml").read_text()
STEPS = yaml.safe_load(TEXT)["jobs"]["doctor"]["steps"]


def test_every_action_is_pinned_by_a_commit_and_says_its_version():
    used = re.findall(r"uses: (\S+)( # v[0-9.]+)?", TEXT)
    assert len(used) == 5
    assert all(
        re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) and version for action, version in used
    )


def test_it_may_read_and_log_in_and_keeps_no_secret():
    found = yaml.safe_load(TEXT)
    assert found["permissions"] == {"contents": "read", "id-token": "write"}
    assert "secrets." not in TEXT
    assert "--delete" not in TEXT


def test_nothing_is_installed_without_a_hash_while_it_may_ask_for_credentials():
    scripts = [one.get("run", "").replace("\\\n", " ") for one in STEPS]
    commands = [line for script in scripts for line in script.splitlines() if "pip" in line]
    locked, own = commands
    assert "--require-hashes" in locked
    assert locked.endswith("-r locked.txt")
    assert {"--no-index", "--no-build-isolation", "--no-deps", "."} <= set(own.split())
    assert any("python -P cloudgan/core/lock.py build " in script for script in scripts)


@pytest.mark.parametrize("provider", ["gcp", "aws", "azure"])
def test_its_command_is_one_that_there_is_and_its_locks_too(provider):
    run = STEPS[-1]["run"].replace("${{ matrix.provider }}", provider).split()
    assert run[:2] == ["cloudgan", "doctor"]
    command_options.parse(doctor, run[2:])
    assert "--hash=sha256:" in locked("build", provider)


def test_every_scenario_of_the_live_test_has_a_line_in_what_is_not_tested():
    from live.harness import LiveTestOptions
    from live.scenarios import scenarios

    setting = LiveTestOptions("live-test", "gcp", (), "T4:1", Path(), usd_per_hour=1.6)
    page = (ROOT / "docs" / "what-is-not-tested.md").read_text()
    for number, one in enumerate(scenarios(setting), start=1):
        assert f"| {number}, {one.name}" in page
