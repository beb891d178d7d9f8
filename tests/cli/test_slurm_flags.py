"""What `plan --provider=slurm` says and refuses, without any Slurm."""

from __future__ import annotations

import json

import pytest

from cloudgan.cli.main import main


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*flags):
        code = 0
        try:
            code = main(["plan", "--provider=slurm", "--preset=smoke", "--name=gan", *flags])
        except SystemExit as end:
            code = end.code
        shown = capsys.readouterr()
        return code or 0, shown.out, shown.err

    return run


def test_a_plan_needs_no_slurm_and_names_what_it_would_send(plan):
    code, out, _ = plan("--store=shared", "--queue=gpu", "--accelerator=v100:4", "--nodes=2")
    assert code == 0
    assert "sbatch slurm/job.sh" in out
    assert "slurm (queue gpu)" in out


def test_a_folder_as_store_is_named_in_full_and_jobs_may_wait_for_days(plan, tmp_path):
    code, out, _ = plan("--store=shared", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["store"] == str(tmp_path / "shared")
    assert found["limits"]["gang_timeout_seconds"] == 7 * 86400
    assert found["workers"]["image"] is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "--store=FOLDER"),
        (("--store=pvc:claim",), "--store=FOLDER"),
        (("--store=.",), "keeps the local copies"),
        (("--store=shared", "--image=x"), "--provider=slurm was given"),
    ],
)
def test_flags_that_slurm_cannot_use_are_refused(plan, flags, said):
    code, _, err = plan(*flags)
    assert code == 2
    assert said in err
