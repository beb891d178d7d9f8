"""The HTTP control server: valid requests and rejected ones."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from cloudgan.worker.control import ControlServer, join_chief
from cloudgan.worker.preemption import PreemptionNotice
from cloudgan.worker.rendezvous import Rendezvous
from cloudgan.worker.state import AgentState, AgentStatus


@pytest.fixture
def chief():
    state, rendezvous = AgentState(0, 2, "20261121T000000Z-abc"), Rendezvous(2)
    server = ControlServer(("127.0.0.1", 0), state, rendezvous)
    yield server, rendezvous
    server.close()


def get(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_the_state_is_served(chief):
    status, body = get(chief[0], "/state")
    assert status == 200
    assert json.loads(body)["phase"] == "staging"


def test_a_worker_joins_and_gets_a_response(chief):
    server, rendezvous = chief
    answer = join_chief(("127.0.0.1", server.port), 1, "pod-1", AgentStatus("waiting", 0))
    assert (answer.generation, answer.start, answer.exit_code) == (0, False, None)
    assert rendezvous.missing_members(0.0) == (0,)


@pytest.mark.parametrize(
    "notice", [PreemptionNotice("aws", 118.0), PreemptionNotice("gcp", None), None]
)
def test_a_worker_sends_its_preemption_notice(chief, notice):
    server, rendezvous = chief
    address = ("127.0.0.1", server.port)
    join_chief(address, 1, "pod-1", AgentStatus("training", 1, notice))
    assert rendezvous.notices() == ({1: notice} if notice else {})
    join_chief(address, 1, "pod-2", AgentStatus("staging", 0))
    assert rendezvous.notices() == {}, "another pod replaced it"
    assert rendezvous.all_notices() == (((1, notice),) if notice else ())


@pytest.mark.parametrize(
    "query",
    [
        "",
        "index=2&incarnation=a&phase=waiting&generation=0",
        "index=0&incarnation=a&phase=waiting&generation=0",
        "index=-1&incarnation=a&phase=waiting&generation=0",
        "index=1&incarnation=a&phase=sleeping&generation=0",
        "index=1&incarnation=a/b&phase=waiting&generation=0",
        "index=1&incarnation=a&phase=waiting&generation=99999999",
        "index=1&incarnation=" + "a" * 65 + "&phase=waiting&generation=0",
        "&".join(f"x{number}=1" for number in range(99)),
    ],
)
def test_an_invalid_join_is_rejected(chief, query):
    server, rendezvous = chief
    assert get(server, f"/join?{query}")[0] == 400
    assert rendezvous.missing_members(0.0) == (0, 1)


def test_nothing_else_is_served(chief):
    assert get(chief[0], "/")[0] == 404
    assert get(chief[0], "/state", method="POST")[0] == 501
    assert get(chief[0], "/state?" + "a" * 70_000)[0] == 414


def test_only_the_chief_serves_join():
    server = ControlServer(("127.0.0.1", 0), AgentState(1, 2, "pod-1"))
    try:
        assert get(server, "/join?index=1&incarnation=a&phase=waiting&generation=0")[0] == 404
    finally:
        server.close()


def test_idle_connections_do_not_block_others(chief):
    silent = [socket.create_connection(("127.0.0.1", chief[0].port)) for _ in range(20)]
    assert get(chief[0], "/state")[0] == 200
    for each in silent:
        each.close()


def test_a_response_that_is_not_from_a_chief_is_an_error():
    server = ControlServer(("127.0.0.1", 0), AgentState(1, 2, "pod-1"))
    try:
        with pytest.raises(ValueError, match="unexpected response"):
            join_chief(("127.0.0.1", server.port), 1, "pod-1", AgentStatus("waiting", 0))
    finally:
        server.close()
