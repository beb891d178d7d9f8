from __future__ import annotations

import pytest

from cloudgan.core.errors import LaunchError, PlanError
from cloudgan.core.plan import write
from cloudgan.providers.slurm.notes import Notes
from cloudgan.providers.slurm.provider import SlurmProvider
from cloudgan.providers.slurm.requests import PLAN_FILE, run_folder, steps
from cloudgan.providers.slurm.script import JOB_FOLDER, comment


class Cluster:
    """One job at most; what is done to it is noted."""

    def __init__(self, plan):
        self.line = ""
        self.done = []
        self.label = comment(plan, run_folder(plan))
        self.refusal = None

    def sbatch(self, *arguments):
        if self.refusal:
            raise self.refusal
        self.done.append("sbatch")
        self.line = f"7|RUNNING|None|{self.label}\n"
        return "7;tiny\n"

    def squeue(self, *arguments):
        return self.line

    def scancel(self, *arguments):
        self.done.append(" ".join(arguments))
        if self.ends_by in arguments:
            self.line = ""
        return ""

    ends_by = "--signal=TERM"


@pytest.fixture
def plan(make_plan):
    return make_plan(workers={"grace_seconds": 1})


@pytest.fixture
def cluster(plan):
    return Cluster(plan)


@pytest.fixture
def provider(plan, cluster, answers, tmp_path):
    asked = answers(sbatch=cluster.sbatch, squeue=cluster.squeue, scancel=cluster.scancel)
    asked.answers["sinfo"] = "debug*|infinite|2|(null)\n"
    runs = tmp_path / "runs"
    return SlurmProvider(runs, asked, python="/py", poll_seconds=0.01, gone_seconds=0.1)


@pytest.fixture
def started(provider, plan, tmp_path):
    (tmp_path / "runs" / plan.run).mkdir(parents=True)
    write(tmp_path / "runs" / plan.run / PLAN_FILE, plan)
    for step in provider.steps(plan):
        provider.ensure(step, plan)
    return provider


def test_each_step_is_done_once(started, plan, cluster):
    assert not any(started.ensure(step, plan) for step in started.steps(plan))
    assert cluster.done == ["sbatch"]


def test_a_job_that_is_sent_again_has_nothing_of_the_last_ones_notes(started, plan, cluster):
    notes = Notes(run_folder(plan) / JOB_FOLDER)
    notes.ask_to_stop()
    (notes.folder / "end").write_text("7 stopped 75 2026-11-21T15:20:49Z")
    (notes.folder / "logs").mkdir()
    (notes.folder / "logs" / "worker-0.log").write_text("kept\n")
    cluster.line = ""
    started.ensure(started.steps(plan)[-1], plan)
    assert not notes.is_stopped()
    assert notes.end() is None
    assert notes.job() == "7"
    assert [line.text for line in started.log_sources("gan")["worker-0"](False)] == ["kept"]


def test_slurms_refusal_is_told_with_its_words(provider, plan, cluster, refused):
    cluster.refusal = refused("Requested node configuration is not available")
    *files, send = provider.steps(plan)
    for step in files:
        provider.ensure(step, plan)
    with pytest.raises(PlanError, match=r"node configuration is not available.*Nothing runs"):
        provider.ensure(send, plan)


def test_a_run_that_runs_is_told_to_save_and_its_job_is_left_to_end(started, plan, cluster):
    started.stop("gan")
    assert cluster.done == ["sbatch", "--signal=TERM 7"]
    assert Notes(run_folder(plan) / JOB_FOLDER).is_stopped()


def test_a_run_that_waits_is_taken_out_of_the_queue(started, cluster):
    cluster.line = cluster.line.replace("RUNNING", "PENDING")
    cluster.ends_by = "7"
    started.stop("gan")
    assert cluster.done == ["sbatch", "7"]


def test_a_job_that_does_not_save_is_cancelled_and_one_that_stays_is_told(started, cluster):
    cluster.ends_by = "nothing"
    with pytest.raises(LaunchError, match="scontrol show job 7"):
        started.stop("gan")
    assert cluster.done == ["sbatch", "--signal=TERM 7", "7"]


def test_what_is_removed_is_named_and_results_stay(started, plan):
    results = run_folder(plan) / "record.jsonl"
    results.write_text("{}")
    assert len(list(started.remove("gan"))) == 2
    assert list(started.remove("gan")) == []
    assert results.exists()
    assert started.state("gan").phase == "absent"


def test_a_run_is_found_from_elsewhere_by_its_jobs_comment(started, answers, cluster, tmp_path):
    elsewhere = SlurmProvider(tmp_path / "other", answers(squeue=cluster.squeue))
    assert elsewhere.intent("gan").run == "gan"
    assert elsewhere.runs() == ("gan",)
    assert elsewhere.intent("other") is None


def test_steps_name_this_python_and_the_clusters_accelerators(provider, make_plan):
    provider._commands.answers["sinfo"] = "gpu*|infinite|2|gpu:tesla_v100:4\n"
    plan = make_plan(workers={"accelerator": "v100", "accelerators_per_node": 4})
    provider.check(plan)
    body = provider.steps(plan)[2].body
    assert "--gres=gpu:tesla_v100:4" in body
    assert "exec /py -m cloudgan worker" in body
    assert steps(plan)[2].body != body
