"""A run without a launcher on EKS: schedules delete its node group, and the cluster that no run uses."""

import datetime as dt

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.launch.clouds.aws.naming import END_ROLE
from cloudgan.launch.clouds.aws.planner import role_document, schedule_group, setup_steps, target
from emulators.aws.iam_policies import is_allowed
from launch.clouds.aws.lab import ACCOUNT, aws_plan
from launch.clouds.aws.used_permissions import ask, document


@pytest.fixture
def ended_lab(lab):
    """An account whose role of schedules has its policy."""
    for step in setup_steps(target(ACCOUNT, "us-east-1", None, None)):
        if step.method == "PutRolePolicy" and step.ref["name"] == END_ROLE:
            lab.cloud().create(step)
    return lab


def seconds_until_end(plan):
    """When the schedules of a plan begin, after it starts."""
    (first, *_) = [one.body["StartDate"] for one in plan.steps if one.method == "CreateSchedule"]
    return first["$after_seconds"]


def exists(lab):
    return [one.partition(" us-")[0] for one in lab.aws.state.left()]


def test_a_run_whose_launcher_died_ends_with_its_cluster(ended_lab):
    plan = ended_lab.make()
    end = seconds_until_end(plan)
    ended_lab.aws.pass_time(end - 60)
    assert {"cluster", "node group", "schedule group"} <= set(exists(ended_lab)), "not yet"
    ended_lab.aws.pass_time(end + 2 * 3600)
    assert exists(ended_lab) == ["schedule group"], "free, until `down` or the doctor"
    ended_lab.remove("gan")
    assert ended_lab.left() == []


def test_a_cluster_that_another_run_uses_stays(ended_lab):
    first, second = ended_lab.make(), ended_lab.make(name="second")
    for schedule in ended_lab.aws.state.ends[
        "us-east-1", schedule_group(second)
    ].schedules.values():
        schedule["StartDate"] = schedule["EndDate"]  # a run of some days more
    ended_lab.aws.pass_time(seconds_until_end(first) + 5 * 3600)
    (pool,) = [one for one in ended_lab.aws.state.left() if one.startswith("node group")]
    assert pool.endswith(second.node_pool.name), "the first run's is gone"
    assert "cluster" in exists(ended_lab), "EKS refuses while a node group is attached"
    assert any("nodegroups attached" in one for one in ended_lab.aws._schedules.refusals)


def test_the_schedules_outlive_the_launcher_that_works():
    plan = aws_plan()
    limits = plan.limits
    longest = limits.deadline_seconds + 2 * limits.gang_timeout_seconds
    assert seconds_until_end(plan) >= longest + 2400, "a new cluster may take 40 minutes"


def test_a_kept_cluster_is_not_deleted():
    plan = aws_plan(keep_cluster=True)
    schedules = [one.ref["name"] for one in plan.steps if one.method == "CreateSchedule"]
    assert schedules == ["nodes"]


def test_a_resumed_run_moves_its_end(ended_lab):
    plan = ended_lab.make()
    group = ended_lab.aws.state.ends["us-east-1", schedule_group(plan)]
    cloud, steps = ended_lab.cloud(), [one for one in plan.steps if one.method == "CreateSchedule"]
    assert all(cloud.find(one) for one in steps), "unchanged, soon after"
    ends = {name: one["StartDate"] for name, one in group.schedules.items()}
    for one in group.schedules.values():
        one["StartDate"] -= dt.timedelta(hours=1)  # of an attempt an hour ago
    for step in steps:
        assert cloud.find(step) is None
        cloud.create(step)
        assert cloud.find(step)
    assert all(group.schedules[name]["StartDate"] >= end for name, end in ends.items())


def test_a_group_that_another_client_deletes_between_two_steps_is_created_again(ended_lab):
    plan = ended_lab.plan()
    maker = ended_lab.engine()
    steps = [one for one in plan.steps if one.path.startswith("scheduler/")]
    for step in steps[:-1]:
        maker.ensure(step, plan)
    ended_lab.session.client("scheduler").delete_schedule_group(Name=schedule_group(plan))
    maker.ensure(steps[-1], plan)
    group = ended_lab.aws.state.ends["us-east-1", schedule_group(plan)]
    assert set(group.schedules) == {"nodes", "cluster"}
    assert group.tags, "down finds it by its tags"


@pytest.mark.slow
def test_down_deletes_the_schedules_after_the_cluster(whole_lab):
    whole_lab.deploy()
    gone = [one.partition(" us-")[0] for one in whole_lab.launcher().destroy("gan")]
    assert gone[-2:] == ["EKS cluster", "EventBridge schedule group"]
    whole_lab.deploy()
    whole_lab.aws.fault("DeleteCluster", "InternalFailure", times=10**6, status=500)
    launcher = whole_lab.launcher()
    object.__setattr__(launcher._engine, "gone_seconds", 0.0)
    with pytest.raises(LaunchError):
        list(launcher.destroy("gan"))
    assert "schedule group" in exists(whole_lab), "it ends the cluster that could not be deleted"


@pytest.mark.slow
def test_a_login_without_the_new_permissions_deletes_what_bills(whole_lab):
    whole_lab.deploy()
    old = document("policy.json")
    old["Statement"] += document("reservation-policy.json")["Statement"]
    for statement in old["Statement"]:
        new = [one for one in statement["Action"] if one.startswith("scheduler:")]
        statement["Action"] = [one for one in statement["Action"] if one not in new]
    whole_lab.aws.grants = [old]
    whole_lab.down()
    assert exists(whole_lab) == ["schedule group"]
    assert any("schedules, which are free, are not listed" in one for one in whole_lab.said)


def test_without_the_role_of_setup_nothing_is_billed(lab):
    lab.session.client("iam").delete_role(RoleName=END_ROLE)
    with pytest.raises(LaunchError, match="must allow AWS EventBridge Scheduler to assume"):
        lab.make()
    assert "CreateCluster" not in lab.aws.operations


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (ask("eks:DeleteCluster", "cluster/cloudgan", tags={"cloudgan-shared": "cluster"}), True),
        (ask("eks:DeleteNodegroup", "nodegroup/cloudgan/p/1", tags={"cloudgan-run": "a"}), True),
        (ask("eks:DeleteCluster", "cluster/cloudgan"), False),
        (ask("eks:DeleteCluster", "cluster/physics", tags={"cloudgan-shared": "cluster"}), False),
        (ask("eks:DeleteNodegroup", "nodegroup/cloudgan/p/1"), False),
        (ask("eks:DeleteNodegroup", "nodegroup/physics/p/1", tags={"cloudgan-run": "a"}), False),
        (ask("eks:CreateCluster", "cluster/cloudgan", sent={"cloudgan-shared": "cluster"}), False),
    ],
)
def test_the_role_of_schedules_deletes_what_cloudgan_created_and_nothing_else(asked, allowed):
    (policy,) = role_document(ACCOUNT, END_ROLE)["policies"].values()
    assert is_allowed([policy], asked, document("boundary.json")) == allowed


def test_schedules_of_other_accounts_cannot_use_the_role():
    (statement,) = role_document(ACCOUNT, END_ROLE)["trust"]["Statement"]
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
