"""A deploy that dies at any of its calls: what it left is found, and goes."""

from __future__ import annotations

import pytest

from crashing import DIED, run_killed
from providers.aws.lab import Lab, planned

CLIENTS = (("sts", "us-east-1"), ("ec2", "us-east-1"), ("eks", "us-east-1"), ("s3", "us-east-1"))
WRITES = ("Create", "Delete", "Put", "Update", "POST", "PATCH", "DELETE")


@pytest.fixture
def deployed(aws, tmp_path):
    """Returns a program that deploys in a process of its own, by clients that it has to itself."""
    session = aws.session()
    for service, region in (*CLIENTS, ("autoscaling", "us-east-1"), ("s3", None)):
        session.client(service, region)

    def program(lab):
        return lambda: Lab(lab.aws, lab.folder, lab.cluster, session=session).deploy(planned())

    return program


@pytest.mark.parametrize(
    "at_each", [False, pytest.param(True, marks=pytest.mark.each_call)], ids=["writes", "all"]
)
def test_nothing_is_left_wherever_a_deploy_dies(fresh_lab, deployed, tmp_path, request, at_each):
    """The first call, and after each that changes something: between them the servers stay as they are.

    So what was left before such a call is what was left after the one before it. `python -m pytest
    -m each_call -s tests/providers/aws` kills the deploy at all of them, before and after.
    """
    if at_each and "each_call" not in request.config.option.markexpr:
        pytest.skip("takes minutes; asked for with -m each_call")
    with fresh_lab() as lab:
        before = len(lab.aws.operations)
        whole = run_killed(deployed(lab), tmp_path)
        names = named(whole.calls, lab.aws.operations[before:])
    assert whole.code == 0, whole.said
    crashes = found = left = 0
    for number, when in everywhere(names) if at_each else moments(names):
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


def everywhere(names):
    return [(number, when) for number in range(len(names)) for when in ("before", "after")]


def moments(names):
    writes = [number for number, name in enumerate(names) if name.startswith(WRITES)]
    return [(0, "before"), *((number, "after") for number in writes)]


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
