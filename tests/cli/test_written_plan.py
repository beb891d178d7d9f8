"""`plan --output`: the files are what `deploy` sends."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.provisioned import few_showers

NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)
PROGRAMS = {
    "sinfo": 'case "$*" in *%h*) echo "gpu*|NO" ;; *) echo "gpu*|infinite|2|gpu:tesla_v100:4" ;; esac',
    "squeue": "",
    "scancel": "",
    "scontrol": "exit 1",
    "sbatch": 'cp "$2" "$RECEIVED" && env >"$RECEIVED.env" && echo 7',
}
ASKED = (
    *("--provider=slurm", "--store=shared", "--name=gan", "--preset=smoke", "--nodes=2"),
    *("--accelerator=v100:4", "--prologue=site.sh", "--env=LAB_MODE=on", "--secret=LAB_LOGIN"),
    "--data=showers",
)


@pytest.fixture
def login_node(user_folder, tmp_path, monkeypatch):
    """Stubs of Slurm's programs; sbatch keeps the script and its environment."""
    for name, text in PROGRAMS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("RECEIVED", str(tmp_path / "received"))
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")
    monkeypatch.setattr("cloudgan.launch.plan.launch_plan.utc_moment", lambda: NOW)
    few_showers(user_folder / "showers")
    (user_folder / "site.sh").write_text("module load cuda\n")
    return user_folder


def test_the_script_of_a_plan_is_what_sbatch_receives(cloudgan_here, login_node, tmp_path):
    cloudgan_here("plan", *ASKED, "--output=made")
    assert {path.name for path in (login_node / "made").iterdir()} == {
        *("job.sh", "run.yaml", "prologue.sh")
    }
    subprocess.run(["bash", "-n", "made/job.sh"], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "made/job.sh"], check=True)
    assert "LAB_MODE=on" in Path("made/job.sh").read_text()
    cloudgan_here("deploy", *ASKED, "--detach", "--yes")
    assert Path("made/job.sh").read_bytes() == (tmp_path / "received").read_bytes()
    given = Path("shared/runs/gan/slurm/prologue.sh")
    assert Path("made/prologue.sh").read_bytes() == given.read_bytes()
    assert "gpu:tesla_v100:4" in Path("made/job.sh").read_text(), "the cluster's own name"


def test_a_secret_is_in_a_private_file_beside_the_script_and_not_in_what_sbatch_gets(
    cloudgan_here, login_node, tmp_path
):
    cloudgan_here("deploy", *ASKED, "--detach", "--yes")
    found = [
        path for path in tmp_path.rglob("*") if path.is_file() and b"pl4nted" in path.read_bytes()
    ]
    assert found == [login_node / "shared/runs/gan/slurm/secret/variable.LAB_LOGIN"]
    assert found[0].stat().st_mode & 0o777 == 0o600
    assert "LAB_MODE" not in (tmp_path / "received.env").read_text()
    cloudgan_here("cancel", "gan")
    assert not found[0].exists(), "a job that never started has left it"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--provider=local"], "give --provider=kubernetes or --provider=slurm, not local"),
        (
            ["--provider=gcp", "--accelerator=t4:1"],
            "give --provider=kubernetes or --provider=slurm, not gcp",
        ),
        (
            ["--provider=kubernetes", "--store=s3://lab/x", "--secret=LAB_LOGIN"],
            "--output would write the value of LAB_LOGIN to a file",
        ),
        (
            ["--provider=slurm", "--store=x", "--secret=LAB_MISSING"],
            "--secret=LAB_MISSING: LAB_MISSING is not set",
        ),
    ],
)
def test_files_that_do_not_exist_or_would_hold_a_secret_are_refused(
    cloudgan_here, login_node, flags, expected
):
    before = sorted(login_node.rglob("*"))
    said = cloudgan_here("plan", *flags, "--preset=smoke", "--output=made", exits=2).stderr
    assert expected in said
    assert sorted(login_node.rglob("*")) == before
