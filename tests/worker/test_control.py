"""What can be asked of a parent over the network, and that nothing else can."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from cloudgan.worker.control import ControlServer, ask_chief
from cloudgan.worker.metadata import Notice
from cloudgan.worker.roster import Roster
from cloudgan.worker.state import Standing, WorkerState


@pytest.fixture
def chief():
    state, roster = WorkerState(0, 2, "20261121T000000Z-abc"), Roster(2)
    server = ControlServer(("127.0.0.1", 0), state, roster)
    yield server, roster
    server.close()


def get(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_the_state_is_answered_at_once(chief):
    status, body = get(chief[0], "/state")
    assert status == 200
    assert json.loads(body)["phase"] == "staging"


def test_a_worker_joins_and_is_answered(chief):
    server, roster = chief
    answer = ask_chief(("127.0.0.1", server.port), 1, "pod-1", Standing("waiting", 0))
    assert (answer.generation, answer.go, answer.ended) == (0, False, None)
    assert roster.absent(0.0) == (0,)


@pytest.mark.parametrize("notice", [Notice("aws", 118.0), Notice("gcp", None), None])
def test_a_worker_tells_that_its_machine_is_taken_away(chief, notice):
    server, roster = chief
    address = ("127.0.0.1", server.port)
    ask_chief(address, 1, "pod-1", Standing("training", 1, notice))
    assert roster.notices() == ({1: notice} if notice else {})
    ask_chief(address, 1, "pod-2", Standing("staging", 0))
    assert roster.notices() == {}, "another pod took its place"
    assert roster.all_notices() == (((1, notice),) if notice else ())


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
def test_nonsense_joins_nothing(chief, query):
    server, roster = chief
    assert get(server, f"/join?{query}")[0] == 400
    assert roster.absent(0.0) == (0, 1)


def test_nothing_else_is_served(chief):
    assert get(chief[0], "/")[0] == 404
    assert get(chief[0], "/state", method="POST")[0] == 501
    assert get(chief[0], "/state?" + "a" * 70_000)[0] == 414


def test_only_the_chief_lets_others_join():
    server = ControlServer(("127.0.0.1", 0), WorkerState(1, 2, "pod-1"))
    try:
        assert get(server, "/join?index=1&incarnation=a&phase=waiting&generation=0")[0] == 404
    finally:
        server.close()


def test_who_says_nothing_keeps_nobody_from_an_answer(chief):
    silent = [socket.create_connection(("127.0.0.1", chief[0].port)) for _ in range(20)]
    assert get(chief[0], "/state")[0] == 200
    for each in silent:
        each.close()


def test_what_is_no_chief_is_told():
    server = ControlServer(("127.0.0.1", 0), WorkerState(1, 2, "pod-1"))
    try:
        with pytest.raises(ValueError, match="is no chief"):
            ask_chief(("127.0.0.1", server.port), 1, "pod-1", Standing("waiting", 0))
    finally:
        server.close()
