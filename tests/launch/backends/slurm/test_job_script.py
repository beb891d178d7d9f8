"""job.sh, run by bash with stubs of Slurm's programs."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloudgan.core.run_secret import write_secret
from cloudgan.launch.backends.slurm.job_state import JobFiles
from cloudgan.launch.backends.slurm.requests import JOB_FOLDER, run_folder, script
from waiting import until

# Two tasks, each a process group of its own as slurmstepd makes them; a bad exit kills the other.
SRUN = f"""\
#!{sys.executable}
import os, pathlib, signal, subprocess, sys, time

def start(rank):
    own = {{"SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"n{{rank}}"}}
    command = ["bash", "-c", sys.argv[-1]]
    return subprocess.Popen(command, env=os.environ | own, start_new_session=True)

tasks = [start(0), start(1)]
pids = " ".join(str(task.pid) for task in tasks)
pathlib.Path(os.environ["CALLS"], "tasks").write_text(pids)
while any(task.poll() is None for task in tasks):
    if any(task.poll() for task in tasks):
        for task in tasks:
            if task.poll() is None:
                os.killpg(task.pid, signal.SIGKILL)
    time.sleep(0.01)
sys.exit(max(code if code >= 0 else 128 - code for code in (task.poll() for task in tasks)))
"""
SCONTROL = """
echo "$*" >>"$CALLS/scontrol"
case "$*" in
  "show hostnames"*) printf 'n0\\nn1\\n' ;;
  "show job"*) echo "JobId=$3 JobName=gan OverSubscribe=${OVERSUBSCRIBE-NO} Contiguous=0" ;;
  "show node"*) echo "NodeName=$3 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=$3" ;;
esac
"""
SQUEUE = 'cat "$CALLS/state"\n'
GETENT = "exit 2\n"
SLEEP = "exec /bin/sleep 0.02\n"  # between two tries


@pytest.fixture
def job(make_plan, tmp_path):
    """Runs the script of a plan with a worker written in bash."""
    bin_folder, calls = tmp_path / "bin", tmp_path / "calls"
    bin_folder.mkdir()
    calls.mkdir()
    (calls / "state").write_text("RUNNING\n")
    worker = bin_folder / "fake python"
    programs = {"srun": SRUN, "scontrol": SCONTROL, "squeue": SQUEUE, "getent": GETENT}
    for name, text in (programs | {"sleep": SLEEP}).items():
        _program(bin_folder / name, text)

    class Job:
        def __init__(self):
            self.calls, self.plan = calls, make_plan()
            self.folder = run_folder(self.plan) / JOB_FOLDER
            self.folder.mkdir(parents=True)
            self.notes = JobFiles(self.folder)

        def start(self, lines, **environment):
            _program(worker, lines)
            path = self.folder / "job.sh"
            text = script(self.plan, run_folder(self.plan), python=str(worker), gres=None)
            path.write_text(text, encoding="utf-8")
            return subprocess.Popen(
                ["bash", path],
                env={
                    "PATH": f"{bin_folder}:{os.environ['PATH']}",
                    "CALLS": str(calls),
                    "TMPDIR": str(tmp_path),
                    "SLURM_JOB_ID": "7",
                    "SLURM_JOB_NODELIST": "n[0-1]",
                    **environment,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        def end_of(self, process):
            process.communicate(timeout=600)
            return process.returncode

        def run(self, lines, **environment):
            process = self.start(lines, **environment)
            said, _ = process.communicate(timeout=600)
            return process.returncode, said

        def tell_the_tasks(self, marker):
            tasks = self.calls / "tasks"  # srun writes it after it started them
            until(lambda: len(list(self.calls.glob(f"{marker}*"))) == 2)
            until(lambda: tasks.exists() and tasks.read_text())
            for pid in tasks.read_text().split():
                os.killpg(int(pid), signal.SIGTERM)

    return Job()


def _program(path, text):
    path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}", encoding="utf-8")
    path.chmod(0o755)


STOPPABLE = """
trap 'kill $!; exit 75' TERM
/bin/sleep 60 & touch "$CALLS/up-$JOB_COMPLETION_INDEX"; wait
"""


def test_a_job_finishes_when_its_workers_are_done(job):
    code, said = job.run('echo "$JOB_COMPLETION_INDEX $CLOUDGAN_PEERS $*" >>"$CALLS/workers"')
    assert (code, said) == (0, "")
    assert job.notes.end().outcome == "finished"
    lines = sorted((job.calls / "workers").read_text().splitlines())
    first = int(re.search(r"127\.0\.0\.1:(\d+)", lines[0])[1])
    assert 20_000 <= first < 32_000
    assert lines == [
        f"{rank} 127.0.0.1:{first},127.0.0.1:{first + 2} -m cloudgan worker --grace-seconds=55"
        for rank in (0, 1)
    ]
    assert [job.notes.history(rank).split()[2] for rank in range(2)] == ["n0", "n1"]
    assert job.notes.began()


@pytest.mark.parametrize("code", [75, 137, 143])
def test_a_transient_failure_restarts_the_worker_on_its_node(job, code):
    once = f'[[ -e $CALLS/did || $JOB_COMPLETION_INDEX == 0 ]] || {{ touch "$CALLS/did"; exit {code}; }}'
    assert job.run(once)[0] == 0
    assert [job.notes.history(rank).count("started") for rank in range(2)] == [1, 2]
    assert job.notes.end().outcome == "finished"


@pytest.mark.parametrize("code", [1, 2, 76])
def test_a_permanent_failure_ends_the_job_with_its_code(job, code):
    lines = f"[[ $JOB_COMPLETION_INDEX == 0 ]] || exit {code}; exec /bin/sleep 60"
    assert job.run(lines)[0] == code
    assert (job.notes.end().outcome, job.notes.end().exit_code) == ("failed", code)
    assert not list(job.calls.glob("scontrol-requeue"))


def test_stopped_workers_have_time_to_save(job):
    slow = STOPPABLE.replace("exit 75", '/bin/sleep 0.3; touch "$CALLS/saved"; exit 75')
    process = job.start(f"[[ $JOB_COMPLETION_INDEX == 0 ]] && {{ {slow} }}\n{STOPPABLE}")
    job.tell_the_tasks("up")
    job.notes.request_stop()
    assert job.end_of(process) == 75
    assert (job.calls / "saved").exists()
    assert job.notes.end().outcome == "stopped"
    assert "requeue" not in (job.calls / "scontrol").read_text()


def test_a_preempted_job_is_requeued(job):
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert "requeue 7" in (job.calls / "scontrol").read_text().splitlines()
    assert job.notes.end() is None


def test_a_cancelled_job_is_not_requeued(job):
    (job.calls / "state").write_text("COMPLETING\n")
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert "requeue" not in (job.calls / "scontrol").read_text()
    assert job.notes.end().outcome == "stopped"


def test_workers_stopped_near_the_deadline_have_reached_it(job):
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    began = int((job.folder / "began").read_text().split()[1])
    assert job.end_of(process) == 75
    (job.folder / "began").write_text(f"7 {began - 7200 + 90}\n")
    for marker in job.calls.glob("up*"):
        marker.unlink()
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert job.notes.end().outcome == "deadline"


def test_the_deadline_counts_from_the_first_start_of_a_job(job):
    (job.folder / "began").write_text(f"7 {int(time.time()) - 3600}\n")
    assert job.run("exit 0", SLURM_RESTART_COUNT="1")[0] == 0
    (limit,) = re.findall(r"update JobId=7 TimeLimit=(\d+)", (job.calls / "scontrol").read_text())
    assert limit in ("59", "60")
    (job.folder / "began").write_text(f"7 {int(time.time()) - 7201}\n")
    assert job.run('touch "$CALLS/ran"', SLURM_RESTART_COUNT="2")[0] == 75
    assert not (job.calls / "ran").exists()
    assert job.notes.end().outcome == "deadline"


def test_a_job_stopped_before_its_start_does_not_start(job):
    job.notes.request_stop()
    assert job.run('touch "$CALLS/ran"')[0] == 75
    assert not (job.calls / "ran").exists()


def test_a_workers_local_folder_is_deleted(job, tmp_path):
    assert job.run('touch "$CLOUDGAN_WORK/data"; [[ $TMPDIR == "$CLOUDGAN_WORK" ]]')[0] == 0
    assert not list(tmp_path.glob("cloudgan-7-*"))


def test_a_worker_stopped_during_its_backoff_does_not_restart(job, tmp_path):
    _program(tmp_path / "bin" / "sleep", "exit 143")  # killed before the shell hears of it
    once = 'did="$CALLS/did-$JOB_COMPLETION_INDEX"; [[ -e $did ]] && exit; touch "$did"; exit 75'
    code, _ = job.run(once)
    assert code == 75
    assert [job.notes.history(rank).count("started") for rank in range(2)] == [1, 1]


def test_the_ports_of_two_attempts_differ_and_tensorflows_are_random(job):
    for attempt in range(4):
        record = 'echo "$CLOUDGAN_PEERS $CLOUDGAN_PORTS" >>"$CALLS/peers"'
        assert job.run(record, SLURM_RESTART_COUNT=str(attempt))[0] == 0
    seen = set((job.calls / "peers").read_text().splitlines())
    assert len(seen) > 1
    assert all(line.endswith(" random") for line in seen)


@pytest.mark.parametrize(
    ("shared", "code"), [("NO", 0), ("USER", 0), ("OK", 2), ("YES", 2), ("", 2)]
)
def test_workers_start_only_on_nodes_without_jobs_of_other_users(job, shared, code):
    ended, said = job.run('touch "$CALLS/ran"', OVERSUBSCRIBE=shared)
    assert ended == code
    assert (job.calls / "ran").exists() is (code == 0)
    assert ("--allow-open-ports" in said) is (code != 0)
    assert job.notes.end().outcome == ("failed" if code else "finished")


@pytest.mark.parametrize("workers", [{"allow_open_ports": True}, {"nodes": 1}])
def test_shared_nodes_may_be_accepted(job, make_plan, workers):
    job.plan = make_plan(workers=workers)
    assert job.run("exit 0", OVERSUBSCRIBE="OK")[0] == 0


def test_a_local_folder_is_new_private_and_not_predictable(job, tmp_path):
    guess = tmp_path / "cloudgan-7-0"
    guess.mkdir(mode=0o777)
    look = 'stat -c "%a %n" "$CLOUDGAN_WORK" >>"$CALLS/work-$JOB_COMPLETION_INDEX"'
    once = 'did="$CALLS/did-$JOB_COMPLETION_INDEX"; [[ -e $did ]] && exit; touch "$did"; exit 75'
    assert job.run(f"{look}; {once}")[0] == 0
    lines = (job.calls / "work-0").read_text().splitlines()
    assert len(lines) == 2
    assert len(set(lines)) == 1, "a restarted worker keeps its folder"
    mode, path = lines[0].split(" ", 1)
    assert mode == "700"
    assert re.fullmatch(r"cloudgan-7-0-\w{12}", Path(path).name)
    assert list(guess.iterdir()) == []


def test_a_worker_does_not_start_without_its_own_folder(job, tmp_path):
    assert job.run('touch "$CALLS/ran"', TMPDIR=str(tmp_path / "absent"))[0] == 1
    assert not (job.calls / "ran").exists()


def test_the_secret_is_deleted_when_the_job_ends(job):
    write_secret(job.folder / "secret" / "key")
    assert job.run("[[ -s $CLOUDGAN_SECRET_FILE ]]")[0] == 0
    assert not (job.folder / "secret").exists()
