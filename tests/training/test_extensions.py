"""A network is one entry: everything else follows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

pytestmark = pytest.mark.tf
PROGRAM = Path(__file__).parent / "extension_program.py"


def run_extended(*words):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_and_json_schema_name_the_new_network():
    assert "tiny (9x9x25, half the filters)" in " ".join(
        run_extended("train", "--help-all").split()
    )
    definitions = json.loads(run_extended("schema", "run.yaml"))["$defs"]
    assert "tiny" in definitions["Preset"]["properties"]["networks"]["enum"]


def test_training_uses_the_new_network(store, tmp_path):
    run = tmp_path / "run"
    run_extended("train", "--preset=tiny", f"--data={store}", f"--run={run}", "--max-steps=1")
    lines = record.read(RunFolder(run).record_file).lines
    (epoch,) = [line for line in lines if line.kind == "epoch"]
    assert epoch.samples == 5
