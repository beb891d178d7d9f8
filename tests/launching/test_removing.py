"""Removing what a run left: in its order, until gone, refusals and half-done deletions included."""

from __future__ import annotations

import pytest

from auditing.cloud_double import CloudDouble
from cloudgan.core.errors import LaunchError
from cloudgan.launching.removing import Remover


@pytest.fixture
def cloud():
    made = CloudDouble()
    made.add("cluster", "cloudgan")
    made.add("pool", "cloudgan/gan", run="gan")
    made.add("pool", "cloudgan/other", run="gan")
    return made


def remove(cloud, said=None, most_seconds=5.0):
    say = (said if said is not None else []).append
    remover = Remover(cloud, say, poll_seconds=0.01, most_seconds=most_seconds)
    return list(remover.remove(cloud.things()))


def test_pools_go_before_their_cluster(cloud):
    assert remove(cloud) == ["pool cloudgan/gan", "pool cloudgan/other", "cluster cloudgan"]
    assert cloud.there == {}


def test_it_is_said_to_be_gone_only_when_it_is(cloud):
    cloud.lingers = 3
    for name in remove(cloud):
        assert name.partition(" ")[2] not in cloud.there


def test_a_refused_deletion_is_asked_for_again_and_told_once(cloud):
    cloud.refuses["cloudgan/gan"], said = 3, []
    assert len(remove(cloud, said)) == 3
    assert said == ["pool cloudgan/gan cannot go yet: another operation runs on this cluster"]


def test_what_is_half_deleted_is_only_waited_for(cloud):
    cloud.delete(cloud.there["cloudgan/gan"])
    cloud.lingers, asked, delete = 5, [], cloud.delete
    cloud.delete = lambda thing: (asked.append(thing.name), delete(thing))
    assert len(remove(cloud)) == 3
    assert asked.count("cloudgan/other") == 1, "once is enough, however long it takes"


def test_what_is_gone_already_is_fine(cloud):
    listed = cloud.things()
    remove(cloud)
    remover = Remover(cloud, lambda _: None, poll_seconds=0.01)
    assert len(list(remover.remove(listed))) == 3
    assert len(cloud.deleted) == 3, "nothing was asked to go twice"


def test_one_that_does_not_go_does_not_keep_the_others(cloud):
    cloud.refuses["cloudgan/gan"] = 10**6
    with pytest.raises(LaunchError, match="another operation runs"):
        remove(cloud, most_seconds=0.1)
    assert set(cloud.there) == {"cloudgan/gan"}
