import pytest

from cloudgan.launch.backends.slurm.client import EndedJob, Job
from cloudgan.launch.backends.slurm.job_state import JobFiles, run_state

WHEN = "2026-11-21T15:20:49Z"


@pytest.fixture
def notes(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", "-").replace("-txt", ".txt")).write_text(text)
        return JobFiles(tmp_path)

    return write


def job(state, reason="None"):
    return Job("7", state, reason, {})


def test_a_run_without_files_and_job_is_absent(notes):
    assert run_state(None, None, notes(), 2).phase == "absent"


@pytest.mark.parametrize(
    ("reason", "said", "cause"),
    [
        ("Priority", "behind other jobs", ""),
        ("BeginTime", "starts again", ""),
        ("PartitionTimeLimit", "--max-hours", "placement"),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit", ""),
    ],
)
def test_a_pending_job_has_slurms_reason(notes, reason, said, cause):
    found = run_state(job("PENDING", reason), None, notes(job="7"), 2)
    assert (found.phase, found.cause) == ("waiting", cause)
    assert said in found.reason


def test_a_job_runs_when_all_its_workers_do(notes):
    one = notes(began="7 1795274449\n", worker_0_txt=f"started {WHEN} n1\n")
    found = run_state(job("RUNNING"), None, one, 2)
    assert (found.phase, found.started_at) == ("starting", WHEN)
    assert [worker.phase for worker in found.workers] == ["running", "waiting"]
    lost = f"started {WHEN} n2\nended {WHEN} 137\n"
    found = run_state(job("RUNNING"), None, notes(worker_1_txt=lost), 2)
    assert found.workers[1].phase == "waiting", "for its next start"
    lost += f"started {WHEN} n2\n"
    found = run_state(job("RUNNING"), None, notes(worker_1_txt=lost), 2)
    assert found.phase == "running"
    assert (found.workers[1].node, found.workers[1].restarts) == ("n2", 1)
    assert "memory" in found.workers[1].reason
    assert run_state(job("RUNNING"), None, notes(stop=""), 2).phase == "stopping"


@pytest.mark.parametrize(
    ("end", "phase", "cause"),
    [
        ("finished 0", "finished", ""),
        ("stopped 75", "stopped", ""),
        ("deadline 75", "failed", "deadline"),
        ("failed 2", "failed", "program"),
        ("failed 76", "failed", "no progress"),
    ],
)
def test_an_ended_jobs_state_is_the_recorded_one(notes, end, phase, cause):
    code = end.split()[1]
    ran = f"started {WHEN} n1\nended {WHEN} {code}\n"
    found = run_state(None, None, notes(job="7", end=f"7 {end} {WHEN}\n", worker_0_txt=ran), 1)
    assert (found.phase, found.cause, found.ended_at) == (phase, cause, WHEN)
    assert found.is_over
    assert found.workers[0].phase == {"0": "done", "75": "stopped"}.get(code, "failed")
    if cause in ("program", "no progress"):
        assert "worker 0" in found.reason


def test_a_failed_job_without_a_failed_worker_names_its_log(notes, tmp_path):
    found = run_state(None, None, notes(job="7", end=f"7 failed 1 {WHEN}\n"), 2)
    assert str(tmp_path / "job-7.log") in found.reason


@pytest.mark.parametrize(
    ("state", "phase", "cause"),
    [
        ("COMPLETED", "finished", ""),
        ("TIMEOUT", "failed", "deadline"),
        ("OUT_OF_MEMORY", "failed", "memory"),
        ("NODE_FAIL", "stopped", ""),
        ("CANCELLED", "stopped", ""),
        ("FAILED", "failed", "program"),
    ],
)
def test_without_a_recorded_end_slurms_state_decides(notes, state, phase, cause):
    found = run_state(None, EndedJob(state, 1, WHEN), notes(job="7"), 2)
    assert (found.phase, found.cause, found.ended_at) == (phase, cause, WHEN)


def test_the_recorded_end_of_an_earlier_job_is_ignored(notes):
    found = run_state(None, None, notes(job="8", end=f"7 finished 0 {WHEN}\n"), 2)
    assert found.phase == "stopped"
    assert "no record of it" in found.reason


def test_a_job_stopped_by_the_user_has_no_reason(notes):
    found = run_state(None, EndedJob("CANCELLED", 0, WHEN), notes(job="7", stop=""), 2)
    assert (found.phase, found.reason) == ("stopped", "")
