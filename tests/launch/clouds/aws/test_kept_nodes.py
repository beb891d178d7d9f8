"""Nodes that wait for the next run on EKS: the scheduled end of their group ends them."""

from __future__ import annotations

import pytest

from crashing import AT_EACH, DIED, run_killed
from launch.clouds import kept
from launch.clouds.aws.lab import Lab, planned
from launch.clouds.aws.test_crashes import CLIENTS, named

pytestmark = pytest.mark.slow


def run_on_nodes(lab, name):
    cloud = lab.cloud()
    plan = kept.keeping(lab.resolved(planned(name), cloud))
    provider = lab.provider(cloud, plan)
    plan, log = kept.started(plan, provider, lab.folder)
    return plan, kept.finished(plan, provider, log)


def down(lab):
    cloud = lab.cloud()
    provider = lab.provider(cloud, lab.resolved(planned(), cloud))
    for run in ("one", "two"):
        list(provider.destroy(run))
    return len(lab.left())


def test_a_second_run_uses_the_nodes_of_the_first_and_aws_ends_them(whole_lab):
    first, _ = run_on_nodes(whole_lab, "one")
    whole_lab.aws.pass_time(20 * 60)
    assert len(whole_lab.aws.state.groups()[0].machines) == 1
    whole_lab.aws.faults.calls.clear()
    second, attempt = run_on_nodes(whole_lab, "two")
    assert "CreateNodegroup" not in whole_lab.aws.operations
    assert second.node_pool.name == first.node_pool.name
    assert second.node_pool.reused.run == "one"
    (node,) = attempt.nodes
    assert node.started_at == second.node_pool.reused.since
    asked = whole_lab.aws.operations
    assert asked.count("PutScheduledUpdateGroupAction") >= 1, "the end is moved"
    whole_lab.aws.pass_time(51 * 60)
    assert whole_lab.aws.state.groups()[0].machines == [], "without a launcher"
    assert down(whole_lab) == 0


@AT_EACH
def test_a_deploy_on_waiting_nodes_that_is_killed_leaves_nothing_after_down(
    aws, fresh_lab, tmp_path, at_each
):
    session = aws.session()
    for service, region in (*CLIENTS, ("autoscaling", "us-east-1"), ("s3", None)):
        session.client(service, region)

    def program(lab):
        own = Lab(lab.aws, lab.folder, lab.cluster, session=session)
        return lambda: run_on_nodes(own, "two")

    with fresh_lab() as lab:
        run_on_nodes(lab, "one")
        before = len(lab.aws.operations)
        whole = run_killed(program(lab), tmp_path)
        assert whole.code == 0, whole.said
        names = named(whole.calls, lab.aws.operations[before:])
        assert "CreateNodegroup" not in names
    changes = [
        (number, when)
        for number, when in kept.crash_moments(names, at_each=at_each)
        if number == 0 or names[number].startswith(("PutScheduled", "Update", "POST"))
    ]
    for number, when in changes:
        with fresh_lab() as lab:
            run_on_nodes(lab, "one")
            died = run_killed(program(lab), tmp_path, number, when)
            assert died.code == DIED, died.said
            assert down(lab) == 0, (names[number], when)
    print(f"\nAWS, waiting nodes: {len(changes)} crashes, 0 left after down")
