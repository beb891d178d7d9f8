import pytest

from cloudgan.core.errors import PlanError, UnknownNameError
from cloudgan.launch.backends.slurm.client import (
    matching_nodes,
    partition_gres,
    read_partitions,
)

SINFO = """\
debug*|infinite|2|(null)
short|10:00|1|gpu:v100:1
gpu|2-00:00:00|3|gpu:tesla_v100:4(S:0-1),nvme:1
gpu|2-00:00:00|1|gpu:a100:8(S:0-3)
old|1:30:00|2|gpu:2
upper|infinite|1|gpu:A100:4(S:0-1),gpu:L40S:2
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


def test_a_deadline_beyond_the_partitions_limit_is_refused(make_plan, known):
    plan = make_plan(target={"queue": "old"}, workers={"nodes": 1})
    with pytest.raises(PlanError, match=r"--max-hours=1\.5\b"):
        matching_nodes(plan, known)
