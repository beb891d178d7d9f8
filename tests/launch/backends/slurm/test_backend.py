import shutil

import pytest

from cloudgan.core.errors import ConfigError, LaunchError, PlanError
from cloudgan.launch.backends.run_document import ForeignDocumentError
from cloudgan.launch.backends.slurm.backend import SlurmBackend
from cloudgan.launch.backends.slurm.client import SlurmCommands
from cloudgan.launch.backends.slurm.job_state import JobFiles
from cloudgan.launch.backends.slurm.requests import (
    JOB_FOLDER,
    PLAN_FILE,
    comment,
    run_folder,
    slurm_steps,
)
from cloudgan.schema.plan import write


class Cluster:
    """A cluster with at most one job that records the commands."""

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
    asked.answers["sinfo"] = "debug*|infinite|2|256000|(null)\n"
    runs = tmp_path / "runs"
    return SlurmBackend(runs, asked, python="/py", poll_seconds=0.01, gone_seconds=0.1)


@pytest.mark.parametrize(
    "change",
    [
        ("run", "theirs", "run is 'theirs'"),
        ("owner", "someone-else", "cloudgan-owner is 'someone-else'"),
        ("store", "/elsewhere", "store is '/elsewhere'"),
    ],
)
def test_a_plan_in_the_folder_of_a_job_must_be_that_of_the_job(
    provider, plan, cluster, tmp_path, change
):
    key, value, message = change
    store = tmp_path / "shared"
    folder = store / "runs" / plan.run
    plan = plan.model_copy(update={"store": str(store)})
    cluster.line = f"7|RUNNING|None|{comment(plan, folder)}\n"
    folder.mkdir(parents=True)
    write(folder / PLAN_FILE, plan)
    assert provider.desired_state(plan.run) == plan
    write(folder / PLAN_FILE, plan.model_copy(update={key: value}))
    for act in (provider.stop, lambda run: list(provider.destroy(run))):
        with pytest.raises(ForeignDocumentError, match=message):
            act(plan.run)
    assert cluster.done == []


@pytest.fixture
def started(provider, plan, tmp_path):
    (tmp_path / "runs" / plan.run).mkdir(parents=True)
    write(tmp_path / "runs" / plan.run / PLAN_FILE, plan)
    for step in provider.steps(plan):
        provider.ensure(step, plan)
    return provider


def test_each_step_is_applied_once(started, plan, cluster):
    assert not any(started.ensure(step, plan) for step in started.steps(plan))
    assert cluster.done == ["sbatch"]


@pytest.mark.parametrize("is_queued", [True, False])
def test_a_job_that_slurm_queues_without_an_answer_is_not_submitted_again(
    plan, program, tmp_path, is_queued
):
    """https://github.com/rwth-i6/sisyphus/issues/281 (2025-11): `sbatch` timed out, and there were two jobs."""
    queued = tmp_path / "squeue-line"
    queued.write_text(f"7|PENDING|None|{comment(plan, run_folder(plan))}\n" if is_queued else "")
    program("sinfo", "echo 'debug*|infinite|2|256000|(null)'")
    program("squeue", f"[ ! -e tried ] || cat {queued}")
    lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    program(
        "sbatch",
        f'echo >>tried; [ "$(wc -l <tried)" = 2 ] && echo 8 && exit; echo "{lost}" >&2; exit 1',
    )
    commands = SlurmCommands(pause_seconds=0.01)
    provider = SlurmBackend(tmp_path / "runs", commands, python="/py", poll_seconds=0.01)
    assert all(provider.ensure(step, plan) for step in provider.steps(plan))
    assert len((tmp_path / "tried").read_text()) == (1 if is_queued else 2)
    assert JobFiles(run_folder(plan) / JOB_FOLDER).job() == ("7" if is_queued else "8")


def test_a_new_job_starts_without_old_status_files(started, plan, cluster):
    notes = JobFiles(run_folder(plan) / JOB_FOLDER)
    notes.request_stop()
    (notes.folder / "end").write_text("7 stopped 75 2026-11-21T15:20:49Z")
    (notes.folder / "logs").mkdir()
    (notes.folder / "logs" / "worker-0.log").write_text("kept\n")
    cluster.line = ""
    started.ensure(started.steps(plan)[-1], plan)
    assert not notes.is_stopped()
    assert notes.end() is None
    assert notes.job() == "7"
    assert [line.text for line in started.log_sources("gan")["worker-0"](False)] == ["kept"]


def test_a_rejected_job_is_reported_with_slurms_message(provider, plan, cluster, refused):
    cluster.refusal = refused("Requested node configuration is not available")
    *files, send = provider.steps(plan)
    for step in files:
        provider.ensure(step, plan)
    with pytest.raises(PlanError, match=r"node configuration is not available.*sinfo"):
        provider.ensure(send, plan)


def test_stopping_a_running_job_signals_its_workers(started, plan, cluster):
    started.stop("gan")
    assert cluster.done == ["sbatch", "--signal=TERM 7"]
    assert JobFiles(run_folder(plan) / JOB_FOLDER).is_stopped()


def test_stopping_a_pending_job_cancels_it(started, cluster):
    cluster.line = cluster.line.replace("RUNNING", "PENDING")
    cluster.ends_by = "7"
    started.stop("gan")
    assert cluster.done == ["sbatch", "7"]


def test_a_job_that_does_not_end_is_cancelled_or_reported(started, cluster):
    cluster.ends_by = "nothing"
    with pytest.raises(LaunchError, match="scontrol show job 7"):
        started.stop("gan")
    assert cluster.done == ["sbatch", "--signal=TERM 7", "7"]


def test_destroying_names_what_it_deletes_and_keeps_results(started, plan):
    results = run_folder(plan) / "record.jsonl"
    results.write_text("{}")
    assert len(list(started.destroy("gan"))) == 2
    assert list(started.destroy("gan")) == []
    assert results.exists()
    assert started.state("gan").phase == "absent"
    assert started.desired_state("gan") is None, "other settings may take its name"
    assert started.list_runs() == ()


def test_a_job_whose_files_somebody_deleted_is_still_the_run(started, cluster, plan):
    shutil.rmtree(run_folder(plan) / JOB_FOLDER)
    assert started.desired_state("gan").run == "gan"
    assert next(iter(started.destroy("gan"))) == "job 7"


def test_a_run_is_found_from_another_folder_by_its_jobs_comment(
    started, answers, cluster, tmp_path
):
    elsewhere = SlurmBackend(tmp_path / "other", answers(squeue=cluster.squeue))
    assert elsewhere.desired_state("gan").run == "gan"
    assert elsewhere.list_runs() == ("gan",)
    assert elsewhere.desired_state("other") is None


def test_steps_have_this_interpreter_and_the_clusters_accelerators(provider, make_plan):
    provider._commands.answers["sinfo"] = "gpu*|infinite|2|256000|gpu:tesla_v100:4\n"
    plan = make_plan(workers={"accelerator": "v100", "accelerators_per_node": 4})
    provider.check(plan)
    body = provider.steps(plan)[2].body
    assert "--gres=gpu:tesla_v100:4" in body
    assert "exec /py -m cloudgan worker" in body
    assert slurm_steps(plan)[2].body != body


def test_a_job_has_a_new_secret_that_only_its_user_can_read(started, plan, cluster):
    path = run_folder(plan) / JOB_FOLDER / "secret" / "key"
    first = path.read_text()
    assert len(first) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    others = [one for one in run_folder(plan).rglob("*") if one.is_file() and one != path]
    assert others
    assert not [one for one in others if first in one.read_text()]
    cluster.line = ""
    started.ensure(started.steps(plan)[-1], plan)
    assert path.read_text() != first


def test_a_partition_that_shares_its_nodes_is_refused(provider, make_plan):
    def sinfo(*arguments):
        shares = "debug*|FORCE:4\ngpu|NO\n"
        return shares if "--format=%P|%h" in arguments else "debug*|infinite|2|256000|(null)\n"

    provider._commands.answers["sinfo"] = sinfo
    with pytest.raises(ConfigError, match=r"OverSubscribe=FORCE:4.*--allow-open-ports"):
        provider.check(make_plan())
    assert provider.check(make_plan(workers={"allow_open_ports": True})) == ()
    assert provider.check(make_plan(workers={"nodes": 1})) == ()
