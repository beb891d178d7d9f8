"""The backend on a real Slurm of two nodes with workers written in bash.

It proves what sbatch, srun, scancel and squeue really do with the script; not several machines, no
accelerators, no accounting, and no other version than the one installed here.
"""

import time

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.launch.backends.slurm.backend import SlurmBackend
from cloudgan.launch.backends.slurm.client import all_jobs
from cloudgan.launch.backends.slurm.requests import PLAN_FILE
from cloudgan.schema.plan import write

pytestmark = pytest.mark.slurm

# A signal reaches `sleep` first, so that the worker itself must outlive it.
STOPPABLE = 'trap "echo saved; exit 75" TERM; echo up; while :; do sleep 0.2; done'


@pytest.fixture
def launch(slurm, make_plan, tmp_path, monkeypatch):
    """Starts a run with workers written in bash; returns its backend."""
    monkeypatch.chdir(tmp_path)
    started = []

    def start(lines, name="gan", **how):
        worker = (
            tmp_path / "python"
        )  # proctrack/linuxproc cannot signal processes whose name has a space
        worker.write_text(f"#!/bin/bash\ncd '{tmp_path}'\n{lines}\n", encoding="utf-8")
        worker.chmod(0o755)
        plan = make_plan(run=name, **how)
        provider = SlurmBackend(tmp_path / "runs", python=str(worker), poll_seconds=0.1)
        provider.check(plan)
        (tmp_path / "runs" / name).mkdir(parents=True, exist_ok=True)
        write(tmp_path / "runs" / name / PLAN_FILE, plan)
        started.append((provider, name))
        for step in provider.steps(plan):
            provider.ensure(step, plan)
        return provider

    yield start
    for provider, name in started:
        list(provider.destroy(name))


def until(provider, is_true, run="gan"):
    deadline = time.monotonic() + 60
    while not is_true(state := provider.state(run)):
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    return state


def texts(provider, run="gan"):
    sources = provider.log_sources(run)
    return {name: [line.text for line in source(False)] for name, source in sources.items()}


def test_a_run_is_watched_stopped_resumed_and_destroyed(launch):
    provider = launch(STOPPABLE)
    until(provider, lambda state: state.phase == "running")
    until(provider, lambda _: all("up" in lines for lines in texts(provider).values()))
    assert provider.list_runs() == ("gan",)
    provider.stop("gan")
    state = provider.state("gan")
    assert (state.phase, state.reason) == ("stopped", "")
    printed = texts(provider)
    assert all("saved" in lines for lines in printed.values()), (printed, state)
    launch("exit 0")
    assert until(provider, lambda state: state.is_over).phase == "finished"
    assert len(list(provider.destroy("gan"))) == 1
    assert list(provider.destroy("gan")) == []


def test_a_run_started_in_a_job_has_our_environment_and_not_that_of_the_job(launch, monkeypatch):
    """SLURM_MEM_PER_CPU beside --mem is refused by srun; a site can export nothing by default."""
    outer = {
        "SLURM_JOB_ID": "7",
        "SLURM_MEM_PER_CPU": "4000",
        "SLURM_NTASKS": "9",
        "PMI_RANK": "3",
        "SLURM_EXPORT_ENV": "NONE",
        "SBATCH_EXPORT": "NONE",
        "SBATCH_MEM_PER_CPU": "3",
    }
    for name, value in outer.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", "offline")
    provider = launch('echo "$WANDB_MODE ${PMI_RANK:-none} $SLURM_NTASKS"')
    state = until(provider, lambda state: state.is_over)
    assert (state.phase, state.reason) == ("finished", "")
    assert list(texts(provider).values()) == [["offline none 2"]] * 2


@pytest.mark.parametrize("per", ["cpu", "none"])
def test_a_job_without_memory_per_node_finishes(launch, per):
    provider = launch("exit 0", target={"slurm": {"memory_per": per}})
    assert until(provider, lambda state: state.is_over).phase == "finished"


def test_a_job_cancelled_in_slurm_stays_cancelled(launch):
    provider = launch(STOPPABLE)
    until(provider, lambda _: list(texts(provider).values()) == [["up"], ["up"]])
    provider._commands.run("scancel", "--name=cloudgan-gan")
    assert until(provider, lambda state: state.is_over).phase == "stopped"
    assert all_jobs(provider._commands) == ()


def test_an_impossible_job_is_rejected_by_slurm(launch):
    with pytest.raises(PlanError, match=r"Slurm rejects the job: .*Invalid feature specification"):
        launch("exit 0", target={"slurm": {"constraint": "absent"}})


def test_more_memory_than_a_node_has_is_refused_before_submission(launch):
    with pytest.raises(PlanError, match=r"has 999 GiB for a worker; .* has 1\.9 GiB"):
        launch("exit 0", workers={"memory_gib": 999})
