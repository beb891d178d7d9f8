"""What Slurm 22.05 printed, word for word."""

from __future__ import annotations

import pytest

from cloudgan.providers.slurm.jobs import Jobs, Past

COMMENT = (
    "cloudgan-run={run},cloudgan-owner=ada,cloudgan-expires=20261129t151237z,"
    "cloudgan-spec=ab5aaca701,cloudgan-folder=/shared/a, b=c|d/runs/{run}"
)
SQUEUE = f"""\
9|PENDING|ReqNodeNotAvail, UnavailableNodes:n[1-2]|{COMMENT.format(run="two")}
10|RUNNING|None|(null)
11|COMPLETING|None|{COMMENT.format(run="gan")}
"""
SHOWN = (
    "JobId=1 JobName=t.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0"
    " Account=(null) QOS=(null) JobState={state} Reason=None Dependency=(null) Requeue=1 Restarts=0"
    " BatchFlag=1 Reboot=0 ExitCode={code} RunTime=00:00:03 TimeLimit=00:05:00 TimeMin=N/A"
    " SubmitTime=2026-11-21T15:02:42 EndTime=2026-11-21T15:02:46 Deadline=N/A Partition=debug\n"
)


def test_of_all_jobs_those_count_that_carry_our_labels(answers):
    first, second = Jobs(answers(squeue=SQUEUE)).all()
    assert (first.id, first.state, first.reason) == (
        "9",
        "PENDING",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
    )
    assert first.labels["cloudgan-folder"] == "/shared/a, b=c|d/runs/two"
    assert (second.id, second.labels["cloudgan-run"]) == ("11", "gan")


def test_a_job_is_found_by_its_run(answers):
    jobs = Jobs(answers(squeue=SQUEUE))
    assert jobs.of("gan").id == "11"
    assert jobs.of("other") is None
    assert Jobs(answers(squeue="")).of("gan") is None


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [("COMPLETED", "0:0", 0), ("FAILED", "75:0", 75), ("CANCELLED", "0:15", 143)],
)
def test_the_controller_remembers_a_job_for_some_minutes(answers, state, code, expected):
    asked = answers(scontrol=SHOWN.format(state=state, code=code))
    assert Jobs(asked).past("1") == Past(state, expected, "2026-11-21T15:02:46Z")


def test_accounting_remembers_it_longer_and_the_last_of_its_starts_counts(answers, refused):
    lines = "5|PREEMPTED|0:0|2026-11-21T14:00:00\n5|CANCELLED by 1000|0:9|2026-11-21T15:00:00\n"
    asked = answers(scontrol=refused("Invalid job id specified"), sacct=lines)
    assert Jobs(asked).past("5") == Past("CANCELLED", 137, "2026-11-21T15:00:00Z")


def test_where_there_is_no_accounting_nothing_is_known(answers, refused):
    none = refused("Slurm accounting storage is disabled")
    assert Jobs(answers(scontrol=none, sacct=none)).past("5") is None
