"""Who is who, from what a pod is given."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.worker.peers import Names, Peers

TEMPLATE = "run-1-{index}.run-1:2222"


def test_a_template_names_all_workers_and_the_control_port_is_the_next_one():
    peers = Peers.parse(TEMPLATE, world=3, index=2)
    assert peers.addresses == ("run-1-0.run-1:2222", "run-1-1.run-1:2222", "run-1-2.run-1:2222")
    assert peers.control(0) == ("run-1-0.run-1", 2223)
    assert (peers.is_chief, Peers.parse(TEMPLATE, world=3, index=0).is_chief) == (False, True)


def test_a_list_names_each_worker_itself():
    peers = Peers.parse("127.0.0.1:4001, 127.0.0.1:4101", world=2, index=0)
    assert [peers.control(index)[1] for index in range(2)] == [4002, 4102]


def test_tensorflow_gets_the_cluster_and_a_worker_alone_gets_none():
    found = json.loads(Peers.parse(TEMPLATE, world=2, index=1).tf_config())
    assert found["cluster"] == {"worker": ["run-1-0.run-1:2222", "run-1-1.run-1:2222"]}
    assert found["task"] == {"type": "worker", "index": 1}
    assert Peers.parse(TEMPLATE, world=1, index=0).tf_config() is None


@pytest.mark.parametrize(
    ("text", "world", "index", "said"),
    [
        (TEMPLATE, 0, 0, "at least one worker"),
        (TEMPLATE, 2, 2, "indices go from 0 to 1"),
        ("a:1,b:1", 3, 0, "names 2 workers, CLOUDGAN_WORLD says 3"),
        ("a:1,a:1", 2, 0, "names 1 workers"),
        ("same:2222", 2, 0, "names 1 workers"),
        ("run-{index}", 2, 0, "no address such as host:2222"),
        ("run-{index}:x", 2, 0, "no address"),
        ("run-{index}:65535", 2, 0, "ports go from 1 to 65534"),
    ],
)
def test_nonsense_is_refused_in_words(text, world, index, said):
    with pytest.raises(ConfigError, match=said):
        Peers.parse(text, world=world, index=index)


def test_a_pod_listens_everywhere_and_a_worker_on_this_machine_only_here():
    assert Peers.parse(TEMPLATE, world=1, index=0).listening_host() == ""
    assert Peers.parse("127.0.0.1:4001", world=1, index=0).listening_host() == "127.0.0.1"
    assert Peers.parse("[::1]:4001", world=1, index=0).listening_host() == "::1"


def test_a_name_is_asked_for_until_it_resolves_and_again_for_the_next_generation():
    known, asked = {"run-1-0.run-1"}, []

    def look_up(host, port):
        asked.append(host)
        if host not in known:
            raise OSError(host)

    names = Names(Peers.parse(TEMPLATE, world=2, index=0), look_up)
    assert names.unresolved() == (1,)
    known.add("run-1-1.run-1")
    assert names.unresolved() == ()
    assert asked == ["run-1-0.run-1", "run-1-1.run-1", "run-1-1.run-1"]
    names.forget()
    names.unresolved()
    assert len(asked) == 5
