"""The same on a real Slurm of two nodes; its workers are a few lines of bash, so that it is quick.

It proves what sbatch, srun, scancel and squeue really do with the script; not several machines, no
accelerators, no accounting, and no other version than the one installed here.
"""

from __future__ import annotations

import time

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.core.plan import write
from cloudgan.providers.slurm.provider import SlurmProvider
from cloudgan.providers.slurm.requests import PLAN_FILE

pytestmark = pytest.mark.slurm

# A signal reaches `sleep` first, so that the worker itself must outlive it.
STOPPABLE = 'trap "echo saved; exit 75" TERM; echo up; while :; do sleep 0.2; done'


@pytest.fixture
def launch(slurm, make_plan, tmp_path, monkeypatch):
    """Starts a run whose workers are lines of bash; returns its provider."""
    monkeypatch.chdir(tmp_path)
    started = []

    def start(lines, name="gan", **how):
        worker = tmp_path / "python"  # proctrack/linuxproc signals nobody where a name has a space
        worker.write_text(f"#!/bin/bash\ncd '{tmp_path}'\n{lines}\n", encoding="utf-8")
        worker.chmod(0o755)
        plan = make_plan(run=name, **how)
        provider = SlurmProvider(tmp_path / "runs", python=str(worker), poll_seconds=0.1)
        provider.check(plan)
        (tmp_path / "runs" / name).mkdir(parents=True, exist_ok=True)
        write(tmp_path / "runs" / name / PLAN_FILE, plan)
        started.append((provider, name))
        for step in provider.steps(plan):
            provider.ensure(step, plan)
        return provider

    yield start
    for provider, name in started:
        list(provider.remove(name))


def until(provider, is_true, run="gan"):
    deadline = time.monotonic() + 60
    while not is_true(state := provider.state(run)):
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    return state


def texts(provider, run="gan"):
    sources = provider.log_sources(run)
    return {name: [line.text for line in source(False)] for name, source in sources.items()}


def test_two_workers_on_two_nodes_find_each_other_and_finish(launch):
    provider = launch('echo "$JOB_COMPLETION_INDEX of $CLOUDGAN_WORLD at $CLOUDGAN_PEERS"')
    state = until(provider, lambda state: state.is_over)
    assert (state.phase, state.why) == ("finished", "")
    assert [(one.phase, one.node) for one in state.workers] == [("done", "n1"), ("done", "n2")]
    assert state.began <= state.ended
    (first,), (second,) = texts(provider).values()
    index, _, peers = first.partition(" of 2 at ")
    assert index == "0"
    assert second == f"1 of 2 at {peers}"
    assert len(set(peers.split(","))) == 2


def test_a_run_is_followed_stopped_continued_and_removed(launch):
    provider = launch(STOPPABLE)
    until(provider, lambda state: state.phase == "running")
    until(provider, lambda _: all("up" in lines for lines in texts(provider).values()))
    assert provider.runs() == ("gan",)
    provider.stop("gan")
    state = provider.state("gan")
    assert (state.phase, state.why) == ("stopped", "")
    printed = texts(provider)
    assert all("saved" in lines for lines in printed.values()), (printed, state)
    launch("exit 0")
    assert until(provider, lambda state: state.is_over).phase == "finished"
    assert len(list(provider.remove("gan"))) == 1
    assert list(provider.remove("gan")) == []


def test_a_worker_that_fails_ends_the_run_with_its_own_code(launch):
    provider = launch("[[ $JOB_COMPLETION_INDEX == 0 ]] || exit 76; sleep 120")
    state = until(provider, lambda state: state.is_over)
    assert (state.phase, state.cause) == ("failed", "no progress")
    assert state.why.startswith("worker 1:")


def test_a_worker_that_is_killed_is_replaced_on_its_node(launch):
    provider = launch("[[ -e did$JOB_COMPLETION_INDEX ]] && exit; touch did0 did1; kill -9 $$")
    state = until(provider, lambda state: state.is_over)
    assert state.phase == "finished"
    assert sum(worker.replaced for worker in state.workers) >= 1


def test_a_job_that_somebody_cancels_in_slurm_stays_cancelled(launch):
    provider = launch(STOPPABLE)
    until(provider, lambda _: list(texts(provider).values()) == [["up"], ["up"]])
    provider._commands.run("scancel", "--name=cloudgan-gan")
    assert until(provider, lambda state: state.is_over).phase == "stopped"
    assert provider._jobs.all() == ()


def test_a_job_that_slurm_makes_room_with_waits_in_the_queue_again(launch):
    provider = launch(STOPPABLE)
    until(provider, lambda _: list(texts(provider).values()) == [["up"], ["up"]])
    provider._commands.run("scancel", "--signal=TERM", "--name=cloudgan-gan")
    until(provider, lambda state: state.phase == "waiting" and "begins again" in state.why)


def test_a_job_that_no_node_can_take_is_refused_by_slurm_itself(launch):
    with pytest.raises(PlanError, match="Requested node configuration is not available"):
        launch("exit 0", workers={"memory_gib": 999})
