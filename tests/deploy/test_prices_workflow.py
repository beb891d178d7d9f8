"""The workflow that refreshes the prices: pinned, and it proposes a difference and merges nothing."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import command_options
from cloudgan.money.prices import prices

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "prices-workflow.yaml").read_text()
STEPS = yaml.safe_load(TEXT)["jobs"]["prices"]["steps"]


def test_every_action_is_pinned_and_nothing_is_installed_without_a_hash():
    used = re.findall(r"uses: (\S+)( # v[0-9.]+)?", TEXT)
    assert len(used) == 2
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) and tag for action, tag in used)
    install = next(step["run"] for step in STEPS if "pip" in step.get("run", ""))
    locked, own = (line for line in install.replace("\\\n", " ").splitlines() if "pip" in line)
    assert "--require-hashes" in locked
    assert "python -P cloudgan/core/lock.py build aws > locked.txt" in install
    assert {"--no-index", "--no-build-isolation", "--no-deps", "."} <= set(own.split())


def test_its_command_is_one_that_there_is_and_writes_the_shipped_file():
    command = next(step["run"] for step in STEPS if "cloudgan prices" in step.get("run", ""))
    words = command.partition("|")[0].split()
    command_options.parse(prices, words[2:])
    output = next(word for word in words if word.startswith("--output="))
    assert (ROOT / output.removeprefix("--output=")).exists()


def test_it_opens_a_pull_request_and_merges_none():
    found = yaml.safe_load(TEXT)
    assert found["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "gh pr create" in TEXT
    assert "merge" not in TEXT
    assert set(found["on"]) == {"schedule", "workflow_dispatch"}
