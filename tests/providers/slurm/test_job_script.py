"""The script itself, run by bash, with programs of Slurm's names that do the least."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from cloudgan.providers.slurm.notes import Notes
from cloudgan.providers.slurm.requests import run_folder
from cloudgan.providers.slurm.script import JOB_FOLDER, script

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
pathlib.Path(os.environ["TOLD"], "tasks").write_text(pids)
while any(task.poll() is None for task in tasks):
    if any(task.poll() for task in tasks):
        for task in tasks:
            if task.poll() is None:
                os.killpg(task.pid, signal.SIGKILL)
    time.sleep(0.01)
sys.exit(max(code if code >= 0 else 128 - code for code in (task.poll() for task in tasks)))
"""
SCONTROL = """
echo "$*" >>"$TOLD/scontrol"
case "$*" in
  "show hostnames"*) printf 'n0\\nn1\\n' ;;
  "show node"*) echo "NodeName=$3 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=$3" ;;
esac
"""
SQUEUE = 'cat "$TOLD/state"\n'
GETENT = "exit 2\n"
SLEEP = "exec /bin/sleep 0.02\n"  # between two tries


@pytest.fixture
def job(make_plan, tmp_path):
    """Runs the script of a plan with a worker that is a few lines of bash."""
    bin_folder, told = tmp_path / "bin", tmp_path / "told"
    bin_folder.mkdir()
    told.mkdir()
    (told / "state").write_text("RUNNING\n")
    worker = bin_folder / "fake python"
    programs = {"srun": SRUN, "scontrol": SCONTROL, "squeue": SQUEUE, "getent": GETENT}
    for name, text in (programs | {"sleep": SLEEP}).items():
        _program(bin_folder / name, text)

    class Job:
        def __init__(self):
            self.told, self.plan = told, make_plan()
            self.folder = run_folder(self.plan) / JOB_FOLDER
            self.folder.mkdir(parents=True)
            self.notes = Notes(self.folder)

        def start(self, lines, **environment):
            _program(worker, lines)
            path = self.folder / "job.sh"
            text = script(self.plan, run_folder(self.plan), python=str(worker), gres=None)
            path.write_text(text, encoding="utf-8")
            return subprocess.Popen(
                ["bash", path],
                env={
                    "PATH": f"{bin_folder}:{os.environ['PATH']}",
                    "TOLD": str(told),
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
            process.communicate(timeout=60)
            return process.returncode

        def run(self, lines, **environment):
            process = self.start(lines, **environment)
            said, _ = process.communicate(timeout=60)
            return process.returncode, said

        def tell_the_tasks(self, marker):
            deadline = time.monotonic() + 60
            while len(list(self.told.glob(f"{marker}*"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            for pid in (self.told / "tasks").read_text().split():
                os.killpg(int(pid), signal.SIGTERM)

    return Job()


def _program(path, text):
    path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}", encoding="utf-8")
    path.chmod(0o755)


STOPPABLE = """
trap 'kill $!; exit 75' TERM
/bin/sleep 60 & touch "$TOLD/up-$JOB_COMPLETION_INDEX"; wait
"""


def test_a_job_whose_workers_are_done_is_finished(job):
    code, said = job.run('echo "$JOB_COMPLETION_INDEX $CLOUDGAN_PEERS $*" >>"$TOLD/workers"')
    assert (code, said) == (0, "")
    assert job.notes.end().word == "finished"
    assert sorted((job.told / "workers").read_text().splitlines()) == [
        f"{rank} 127.0.0.1:20014,127.0.0.1:20016 -m cloudgan worker --grace_seconds=55"
        for rank in (0, 1)
    ]
    assert [note.node for note in job.notes.workers(2)] == ["n0", "n1"]
    assert job.notes.began()


@pytest.mark.parametrize("code", [75, 137, 143])
def test_a_worker_that_can_be_tried_again_is_started_again_on_its_node(job, code):
    once = (
        f'[[ -e $TOLD/did || $JOB_COMPLETION_INDEX == 0 ]] || {{ touch "$TOLD/did"; exit {code}; }}'
    )
    assert job.run(once)[0] == 0
    assert [note.starts for note in job.notes.workers(2)] == [1, 2]
    assert job.notes.end().word == "finished"


@pytest.mark.parametrize("code", [1, 2, 76])
def test_a_worker_that_fails_for_good_ends_the_others_and_the_job_with_its_code(job, code):
    lines = f"[[ $JOB_COMPLETION_INDEX == 0 ]] || exit {code}; exec /bin/sleep 60"
    assert job.run(lines)[0] == code
    assert (job.notes.end().word, job.notes.end().exit_code) == ("failed", code)
    assert not list(job.told.glob("scontrol-requeue"))


def test_workers_that_are_told_to_stop_all_get_the_time_to_save(job):
    slow = STOPPABLE.replace("exit 75", '/bin/sleep 0.3; touch "$TOLD/saved"; exit 75')
    process = job.start(f"[[ $JOB_COMPLETION_INDEX == 0 ]] && {{ {slow} }}\n{STOPPABLE}")
    job.tell_the_tasks("up")
    job.notes.ask_to_stop()
    assert job.end_of(process) == 75
    assert (job.told / "saved").exists()
    assert job.notes.end().word == "stopped"
    assert "requeue" not in (job.told / "scontrol").read_text()


def test_a_job_that_slurm_tells_to_make_room_goes_back_into_the_queue(job):
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert "requeue 7" in (job.told / "scontrol").read_text().splitlines()
    assert job.notes.end() is None


def test_a_job_that_somebody_cancelled_does_not_go_back_into_the_queue(job):
    (job.told / "state").write_text("COMPLETING\n")
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert "requeue" not in (job.told / "scontrol").read_text()
    assert job.notes.end().word == "stopped"


def test_workers_that_are_told_to_stop_near_the_deadline_met_it(job):
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    began = int((job.folder / "began").read_text().split()[1])
    assert job.end_of(process) == 75
    (job.folder / "began").write_text(f"7 {began - 7200 + 90}\n")
    for marker in job.told.glob("up*"):
        marker.unlink()
    process = job.start(STOPPABLE)
    job.tell_the_tasks("up")
    assert job.end_of(process) == 75
    assert job.notes.end().word == "deadline"


def test_the_deadline_counts_from_the_first_start_of_a_job(job):
    (job.folder / "began").write_text(f"7 {int(time.time()) - 3600}\n")
    assert job.run("exit 0", SLURM_RESTART_COUNT="1")[0] == 0
    (limit,) = re.findall(r"update JobId=7 TimeLimit=(\d+)", (job.told / "scontrol").read_text())
    assert limit in ("59", "60")
    (job.folder / "began").write_text(f"7 {int(time.time()) - 7201}\n")
    assert job.run('touch "$TOLD/ran"', SLURM_RESTART_COUNT="2")[0] == 75
    assert not (job.told / "ran").exists()
    assert job.notes.end().word == "deadline"


def test_a_job_that_was_told_to_stop_before_it_began_does_not_begin(job):
    job.notes.ask_to_stop()
    assert job.run('touch "$TOLD/ran"')[0] == 75
    assert not (job.told / "ran").exists()


def test_what_a_worker_wrote_on_its_node_goes_with_it(job, tmp_path):
    assert job.run('touch "$CLOUDGAN_WORK/data"; [[ $TMPDIR == "$CLOUDGAN_WORK" ]]')[0] == 0
    assert not list(tmp_path.glob("cloudgan-7-*"))


def test_a_worker_that_is_told_to_stop_before_its_next_try_has_none(job, tmp_path):
    _program(tmp_path / "bin" / "sleep", "exit 143")  # killed before the shell hears of it
    once = 'did="$TOLD/did-$JOB_COMPLETION_INDEX"; [[ -e $did ]] && exit; touch "$did"; exit 75'
    code, _ = job.run(once)
    assert code == 75
    assert [note.starts for note in job.notes.workers(2)] == [1, 1]
