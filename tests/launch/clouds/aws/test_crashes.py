"""A deploy that is killed at any call leaves only resources that `down` finds."""

from __future__ import annotations

import pytest

from crashing import AT_EACH, DIED, moments, run_killed
from launch.clouds.aws.lab import RESERVATION, Lab, planned

pytestmark = pytest.mark.slow

CLIENTS = (("sts", "us-east-1"), ("ec2", "us-east-1"), ("eks", "us-east-1"), ("s3", "us-east-1"))


def reserved():
    """A plan with all resources of an on-demand plan, and a launch template."""
    return planned(rent={"reservation": RESERVATION})


@pytest.fixture
def deployed(aws, tmp_path):
    """Returns a program that deploys in a process of its own, by clients that it has to itself."""
    session = aws.session()
    for service, region in (*CLIENTS, ("autoscaling", "us-east-1"), ("s3", None)):
        session.client(service, region)

    def program(lab):
        return lambda: Lab(lab.aws, lab.folder, lab.cluster, session=session).deploy(reserved())

    return program


@AT_EACH
def test_resources_of_a_deploy_killed_at_any_call_are_found_and_deleted(
    fresh_lab, deployed, tmp_path, at_each
):
    with fresh_lab() as lab:
        before = len(lab.aws.operations)
        whole = run_killed(deployed(lab), tmp_path)
        names = named(whole.calls, lab.aws.operations[before:])
    assert whole.code == 0, whole.said
    crashes = found = left = 0
    for number, when in moments(names, at_each=at_each):
        with fresh_lab() as lab:
            died = run_killed(deployed(lab), tmp_path, number, when)
            assert died.code == DIED, died.said
            found += all_that_is_there_is_seen(lab, (names[number], when))
            left += after_down(lab)
        crashes += 1
    print(
        f"\nAWS: {len(names)} calls, {crashes} crashes injected, {found} leftovers found,"
        f" {left} leftovers after down"
    )
    assert left == 0
    assert found > crashes


def named(calls, operations):
    """Describes calls: the AWS operation, or method and path of the cluster."""
    asked = iter(operations)
    return [call if " /api" in call else next(asked) for call in calls]


def all_that_is_there_is_seen(lab, where):
    """Compares the resources that a new launcher lists with those of the servers."""
    exists = lab.aws.state.left()
    resources = [
        one
        for one in lab.cloud().list_resources()
        if one.shared not in ("boundary", "bucket", "role")
    ]
    assert len(resources) + sum(one.nodes for one in resources) == len(exists), (
        where,
        resources,
        exists,
    )
    return len(exists)


def after_down(lab):
    cloud = lab.cloud()
    provider = lab.provider(cloud, lab.resolved(reserved(), cloud))
    list(provider.destroy("gan"))
    return len(lab.left())
