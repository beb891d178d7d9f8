"""A deploy that dies at any of its calls: what it left is found, and goes."""

from __future__ import annotations

import pytest

from crashing import AT_EACH, DIED, moments, run_killed
from providers.aws.lab import Lab, planned

CLIENTS = (("sts", "us-east-1"), ("ec2", "us-east-1"), ("eks", "us-east-1"), ("s3", "us-east-1"))


@pytest.fixture
def deployed(aws, tmp_path):
    """Returns a program that deploys in a process of its own, by clients that it has to itself."""
    session = aws.session()
    for service, region in (*CLIENTS, ("autoscaling", "us-east-1"), ("s3", None)):
        session.client(service, region)

    def program(lab):
        return lambda: Lab(lab.aws, lab.folder, lab.cluster, session=session).deploy(planned())

    return program


@AT_EACH
def test_nothing_is_left_wherever_a_deploy_dies(fresh_lab, deployed, tmp_path, at_each):
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
    """The calls by what they ask for: an operation of AWS, else method and path of the cluster."""
    asked = iter(operations)
    return [call if " /api" in call else next(asked) for call in calls]


def all_that_is_there_is_seen(lab, where):
    """Compares what a launcher that remembers nothing sees with what the servers have."""
    exists = lab.aws.state.left()
    things = [one for one in lab.cloud().things() if one.shared not in ("bucket", "role")]
    assert len(things) + sum(one.nodes for one in things) == len(exists), (where, things, exists)
    return len(exists)


def after_down(lab):
    cloud = lab.cloud()
    provider = lab.provider(cloud, lab.resolved(planned(), cloud))
    list(provider.remove("gan"))
    return len(lab.left())
