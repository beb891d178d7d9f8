import pytest

from cloudgan.core.errors import ConfigError, LaunchError, PlanError, UnknownNameError
from cloudgan.launch.backends.slurm.client import (
    REQUIRED,
    EndedJob,
    SlurmCommands,
    SlurmError,
    all_jobs,
    job_of,
    matching_nodes,
    partition_gres,
    past_job,
    read_partitions,
)


def test_missing_slurm_programs_are_reported_with_a_hint(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"sbatch, squeue.*on a login node of the cluster"):
        SlurmCommands().require()
    with pytest.raises(ConfigError, match="login node"):
        SlurmCommands().run("squeue")


def test_installed_programs_pass_the_check(program):
    for name in REQUIRED:
        program(name, "")
    SlurmCommands().require()


def test_times_are_requested_in_utc(program, monkeypatch):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    program("squeue", 'echo "$TZ $SLURM_TIME_FORMAT"')
    assert SlurmCommands().run("squeue") == "UTC \n"


@pytest.mark.parametrize(
    ("name", "is_passed"),
    [
        ("SLURM_JOB_ID", False),
        ("SLURM_MEM_PER_CPU", False),
        ("SLURM_EXPORT_ENV", False),
        ("SBATCH_EXPORT", False),
        ("SBATCH_MEM_PER_NODE", False),
        ("SRUN_CPUS_PER_TASK", False),
        ("PMI_RANK", False),
        ("PMIX_NAMESPACE", False),
        ("SQUEUE_PARTITION", False),
        ("SQUEUE_STATES", False),
        ("SINFO_PARTITION", False),
        ("SCANCEL_INTERACTIVE", False),
        ("SACCT_FORMAT", False),
        ("SLURM_CONF", True),
        ("SLURM_CLUSTERS", True),
        ("SLURM_CLUSTER_NAME", True),
        ("PATH", True),
        ("WANDB_MODE", True),
    ],
)
def test_slurms_programs_get_no_options_by_variables(program, monkeypatch, name, is_passed):
    if name != "PATH":
        monkeypatch.setenv(name, "outer")
    program("sbatch", f'echo "${{{name}:+passed}}"')
    assert SlurmCommands().run("sbatch") == ("passed\n" if is_passed else "\n")


def test_an_error_has_slurms_message_without_program_names(program):
    said = (
        "sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job failed"
    )
    program("sbatch", f'echo "{said}" >&2; exit 1')
    with pytest.raises(SlurmError, match=r"^Memory specification can not be satisfied; Batch job"):
        SlurmCommands().run("sbatch")


def test_an_unreachable_controller_is_retried_and_logged_once(program):
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    tries = "[ -e third ] && echo here && exit; [ -e second ] && touch third; touch second"
    program("squeue", f'{tries}; echo "{away}" >&2; exit 1')
    said = []
    assert SlurmCommands(said.append, pause_seconds=0.01).run("squeue") == "here\n"
    assert len(said) == 1
    assert "retrying" in said[0]


def test_a_controller_that_stays_unreachable_is_an_error(program):
    program("squeue", 'echo "error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(LaunchError, match="its jobs continue"):
        SlurmCommands(patience_seconds=0.05, pause_seconds=0.01).run("squeue")


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


def test_only_jobs_with_cloudgans_labels_are_listed(answers):
    first, second = all_jobs(answers(squeue=SQUEUE))
    assert (first.id, first.state, first.reason) == (
        "9",
        "PENDING",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
    )
    assert first.labels["cloudgan-folder"] == "/shared/a, b=c|d/runs/two"
    assert (second.id, second.labels["cloudgan-run"]) == ("11", "gan")


def test_a_job_is_found_by_its_run(answers):
    jobs = answers(squeue=SQUEUE)
    assert job_of(jobs, "gan").id == "11"
    assert job_of(jobs, "other") is None
    assert job_of(answers(squeue=""), "gan") is None


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [("COMPLETED", "0:0", 0), ("FAILED", "75:0", 75), ("CANCELLED", "0:15", 143)],
)
def test_an_ended_job_is_read_from_the_controller(answers, state, code, expected):
    asked = answers(scontrol=SHOWN.format(state=state, code=code))
    assert past_job(asked, "1") == EndedJob(state, expected, "2026-11-21T15:02:46Z")


def test_an_older_job_is_read_from_accounting(answers, refused):
    lines = "5|PREEMPTED|0:0|2026-11-21T14:00:00\n5|CANCELLED by 1000|0:9|2026-11-21T15:00:00\n"
    asked = answers(scontrol=refused("Invalid job id specified"), sacct=lines)
    assert past_job(asked, "5") == EndedJob("CANCELLED", 137, "2026-11-21T15:00:00Z")


def test_without_accounting_an_older_job_is_unknown(answers, refused):
    none = refused("Slurm accounting storage is disabled")
    assert past_job(answers(scontrol=none, sacct=none), "5") is None


SINFO = """\
debug*|infinite|2|2048|(null)
short|10:00|1|1|gpu:v100:1
gpu|2-00:00:00|3|65000|gpu:tesla_v100:4(S:0-1),nvme:1
gpu|2-00:00:00|1|257000+|gpu:a100:8(S:0-3)
old|1:30:00|2|4096|gpu:2
upper|infinite|1|64000|gpu:A100:4(S:0-1),gpu:L40S:2
"""


@pytest.fixture
def known(answers):
    return read_partitions(answers(sinfo=SINFO))


def test_partitions_are_read_with_limits_and_accelerators(known):
    assert [(one.name, one.is_default, one.max_seconds, one.nodes) for one in known] == [
        ("debug", True, None, 2),
        ("short", False, 600, 1),
        ("gpu", False, 2 * 86400, 3),
        ("gpu", False, 2 * 86400, 1),
        ("old", False, 5400, 2),
        ("upper", False, None, 1),
    ]
    typed = [{"v100": 1}, {"tesla_v100": 4}, {"a100": 8}, {"": 2}, {"A100": 4, "L40S": 2}]
    assert [one.memory_gib for one in known] == [2, None, 65000 / 1024, None, 4, 62.5]
    assert [one.gpus for one in known] == [{}, *typed]


def test_the_default_partition_is_used_without_a_queue(make_plan, known):
    assert [one.name for one in matching_nodes(make_plan(), known)] == ["debug"]


def test_without_a_default_partition_the_names_are_listed(make_plan, known):
    with pytest.raises(PlanError, match=r"--queue.*gpu, old, short"):
        matching_nodes(make_plan(), known[1:])


def test_an_unknown_partition_is_answered_with_the_nearest(make_plan, known):
    with pytest.raises(UnknownNameError, match="Did you mean 'gpu'"):
        matching_nodes(make_plan(target={"queue": "gpus"}), known)


@pytest.mark.parametrize(
    ("queue", "asked", "expected"),
    [
        ("gpu", ("V100", 2), "gpu:tesla_v100:2"),
        ("gpu", ("a100", 8), "gpu:a100:8"),
        ("old", ("K80", 2), "gpu:2"),
        ("short", (None, 1), "gpu:v100:1"),
        ("upper", ("a100", 4), "gpu:A100:4"),
        ("upper", ("L40S", 1), "gpu:L40S:1"),
    ],
)
def test_accelerators_have_the_clusters_names(make_plan, known, queue, asked, expected):
    """Slurm tells upper from lower case: it refuses gpu:a100:1 on nodes with gpu:A100:1 (version 22.05.8, tried)."""
    workers = {"nodes": 1, "accelerator": asked[0], "accelerators_per_node": asked[1]}
    plan = make_plan(workers=workers, target={"queue": queue}, limits={"deadline_seconds": 60})
    assert partition_gres(plan, matching_nodes(plan, known)[0]) == expected


@pytest.mark.parametrize(
    ("queue", "workers", "said"),
    [
        ("gpu", {"accelerator": "v100", "accelerators_per_node": 8}, "a100:8, tesla_v100:4"),
        ("gpu", {"accelerator": "h100", "accelerators_per_node": 1}, "Did you mean 'a100'"),
        ("upper", {"accelerator": "A10", "accelerators_per_node": 1}, "A100:4, L40S:2"),
        ("upper", {"accelerator": "l4", "accelerators_per_node": 1}, "A100:4, L40S:2"),
        ("debug", {"accelerator": "v100", "accelerators_per_node": 1}, "no accelerator"),
        ("debug", {"nodes": 3}, "has 2 nodes, but --nodes=3"),
        ("debug", {"memory_gib": 2.5}, "has 2.5 GiB for a worker; .* --memory-gib=2 or less"),
        (
            "gpu",
            {"memory_gib": 70, "accelerator": "v100", "accelerators_per_node": 1},
            "has 70 GiB for a worker; the largest of these nodes has 63.4 GiB",
        ),
        (
            "gpu",
            {"nodes": 4, "accelerator": "v100", "accelerators_per_node": 1},
            "3 nodes with these accelerators",
        ),
    ],
)
def test_missing_resources_are_reported_before_submission(make_plan, known, queue, workers, said):
    with pytest.raises(PlanError, match=said):
        matching_nodes(make_plan(workers=workers, target={"queue": queue}), known)


@pytest.mark.parametrize(
    ("queue", "target"), [("short", {}), ("gpu", {}), ("debug", {"slurm": {"memory_per": "none"}})]
)
def test_memory_is_not_refused_where_the_site_does_not_state_or_count_it(
    make_plan, known, queue, target
):
    plan = make_plan(
        workers={"memory_gib": 200, "nodes": 1},
        target=target | {"queue": queue},
        limits={"deadline_seconds": 60},
    )
    assert matching_nodes(plan, known)


def test_a_deadline_beyond_the_partitions_limit_is_refused(make_plan, known):
    plan = make_plan(target={"queue": "old"}, workers={"nodes": 1})
    with pytest.raises(PlanError, match=r"--max-hours=1\.5\b"):
        matching_nodes(plan, known)
