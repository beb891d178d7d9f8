"""Output and refusals of `plan --provider=slurm`, without Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.provisioned import basis
from cloudgan.cli.main import main
from cloudgan.core.errors import ConfigError
from cloudgan.core.options import build
from cloudgan.launch.plan.request import LaunchRequest, check_request


def launch_flags(**given):
    return build(LaunchRequest, given, command="cloudgan deploy")


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
    flags = ("--store=shared", "--queue=gpu", "--accelerator=v100:4", "--nodes=2", "--json")
    code, out, _ = plan(*flags)
    assert code == 0
    assert "sbatch slurm/job.sh" in basis(out)
    assert "slurm (queue gpu)" in basis(out)


def test_a_folder_as_store_is_named_in_full_and_jobs_may_wait_for_days(plan, tmp_path):
    code, out, _ = plan("--store=shared", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["store"] == str(tmp_path / "shared")
    assert found["limits"]["gang_timeout_seconds"] == 7 * 86400
    assert found["workers"]["image"] is None


def test_account_qos_constraint_reservation_and_prologue_are_in_plan_and_script(plan):
    Path("site.sh").write_text("module load cuda/12.5\n", encoding="utf-8")
    code, out, err = plan(
        *("--store=shared", "--account=hep-ml", "--qos=gpu", "--constraint=a100&ib"),
        *("--reservation=week", "--prologue=site.sh", "--memory-per=cpu", "--json"),
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["target"]["slurm"]["account"] == "hep-ml"
    bodies = {step["path"]: step["body"] for step in found["steps"]}
    assert bodies["slurm/prologue.sh"] == "module load cuda/12.5\n"
    options = [line for line in bodies["slurm/job.sh"].splitlines() if line.startswith("#SBATCH")]
    wanted = (
        "--account=hep-ml",
        "--qos=gpu",
        "--constraint='a100&ib'",
        "--reservation=week",
        "--mem-per-cpu=2048M",
    )
    assert {f"#SBATCH {one}" for one in wanted} <= set(options)


def test_slurm_s_flags_are_refused_elsewhere():
    with pytest.raises(ConfigError, match=r"--account and --qos: only valid with --provider=slurm"):
        check_request(launch_flags(account="hep", qos="gpu"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "--store=FOLDER"),
        (("--store=pvc:claim",), "--store=FOLDER"),
        (("--store=.",), "keeps the local copies"),
        (("--store=shared", "--image=x"), "--provider=slurm was given"),
        (("--store=shared", "--account=a\nb"), "--account="),
        (("--store=shared", "--qos=a b"), "--qos=a b must be a name of the cluster"),
        (("--store=shared", "--constraint=$(id)"), "--constraint=$(id) must be"),
        (("--store=shared", "--reservation=--wrap=id"), "--reservation=--wrap=id must be"),
        (("--store=shared", "--prologue=missing.sh"), "missing.sh"),
        (("--store=shared", "--prologue=control.sh"), "without control characters"),
    ],
)
def test_flags_that_slurm_cannot_use_are_refused(plan, flags, said):
    Path("control.sh").write_text("echo \x1b[2J\n", encoding="utf-8")
    code, _, err = plan(*flags)
    assert code == 2
    assert said in err
