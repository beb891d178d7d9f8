"""The HTTP control server: valid requests and rejected ones."""

import http.client
import json
import socket

import pytest

from cloudgan.core.run_secret import RunSecret
from cloudgan.worker.control import ControlServer, RejectedError, join_chief
from cloudgan.worker.preemption import PreemptionNotice
from cloudgan.worker.rendezvous import AgentState, AgentStatus, Rendezvous

SECRET = RunSecret(b"a" * 64)
TOKEN = SECRET.token("worker")
WAITING = AgentStatus(incarnation="pod-1", phase="waiting")
GOOD = {
    "index": 1,
    "incarnation": "pod-1",
    "phase": "waiting",
    "generation": 0,
    "notice": None,
    "port": 0,
}


@pytest.fixture
def chief():
    state, rendezvous = (
        AgentState(0, 2, AgentStatus(incarnation="20261121T000000Z-abc")),
        Rendezvous(2),
    )
    server = ControlServer(("127.0.0.1", 0), state, rendezvous, SECRET)
    yield server, rendezvous
    server.close()


def ask(server, method, path, body=None, headers=None):
    """Returns status and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def post(server, content, token=TOKEN):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return ask(server, "POST", "/join", body, {"Cloudgan-Token": token})[0]


def test_the_state_is_served(chief):
    status, body = ask(chief[0], "GET", "/state")
    assert status == 200
    assert json.loads(body)["phase"] == "staging"


def test_a_worker_joins_and_gets_a_response(chief):
    server, rendezvous = chief
    answer = join_chief(("127.0.0.1", server.server_address[1]), 1, WAITING, SECRET)
    assert (answer.generation, answer.start, answer.exit_code) == (0, False, None)
    assert rendezvous.missing_members(0.0) == (0,)


@pytest.mark.parametrize(
    "notice", [PreemptionNotice("aws", 118.0), PreemptionNotice("gcp", None), None]
)
def test_a_worker_sends_its_preemption_notice(chief, notice):
    server, rendezvous = chief
    address = ("127.0.0.1", server.server_address[1])
    training = WAITING.model_copy(update={"phase": "training", "generation": 1, "notice": notice})
    join_chief(address, 1, training, SECRET)
    assert rendezvous.notices() == ({1: notice} if notice else {})
    join_chief(address, 1, AgentStatus(incarnation="pod-2"), SECRET)
    assert rendezvous.notices() == {}, "another pod replaced it"
    assert rendezvous.all_notices() == (((1, notice),) if notice else ())


@pytest.mark.parametrize(
    "change",
    [
        {"index": 2},
        {"index": 0},
        {"index": -1},
        {"index": True},
        {"index": "1"},
        {"phase": "sleeping"},
        {"incarnation": "a/b"},
        {"incarnation": "a" * 65},
        {"incarnation": None},
        {"generation": 99_999_999},
        {"generation": -1},
        {"generation": 1.5},
        {"port": 65_536},
        {"notice": 5},
        {"notice": ["a-cloud", 30.0]},
        {"notice": ["aws", "soon"]},
    ],
)
def test_a_join_with_an_invalid_value_is_rejected(chief, change):
    server, rendezvous = chief
    assert post(server, GOOD | change) == 400
    assert rendezvous.missing_members(0.0) == (0, 1)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"1", b"[" * 1000, b'{"index": NaN}'])
def test_a_body_that_is_no_join_is_rejected(chief, body):
    assert post(chief[0], body) == 400


@pytest.mark.parametrize(
    "token",
    [
        RunSecret(b"b" * 64).token("worker"),
        pytest.param(SECRET.token("chief"), id="what the chief answers"),
        "",
        "0" * 64,
        "\xff" * 64,
    ],
)
def test_a_join_without_the_token_of_the_run_changes_nothing(chief, token):
    server, rendezvous = chief
    assert post(server, GOOD, token) == 401
    assert rendezvous.missing_members(0.0) == (0, 1)


def test_a_generation_that_has_not_begun_is_rejected(chief):
    server, rendezvous = chief
    for index in range(2):
        rendezvous.join(index, AgentStatus(incarnation=f"pod-{index}", phase="waiting"), 0.0)
    rendezvous.begin(0.0)
    assert post(server, GOOD | {"phase": "training", "generation": 2}) == 400
    assert post(server, GOOD | {"phase": "training", "generation": 1}) == 200


def test_connections_beyond_the_limit_are_closed_and_the_server_goes_on(chief):
    address = ("127.0.0.1", chief[0].server_address[1])
    idle = [socket.create_connection(address) for _ in range(20)]
    assert ask(chief[0], "GET", "/state")[0] == 200, "idle connections block no others"
    idle += [socket.create_connection(address) for _ in range(60)]
    refused = [one for one in idle[64:] if one.recv(1) == b""]
    assert len(refused) == 16
    for each in idle:
        each.close()
    assert post(chief[0], GOOD) == 200


def test_a_large_body_is_not_read(chief):
    assert post(chief[0], b" " * 1025) == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/state", 404),
        ("PUT", "/state", 501),
        ("GET", "/state?" + "a" * 70_000, 414),
    ],
    ids=["root", "post", "put", "long"],
)
def test_nothing_else_is_served(chief, method, path, status):
    assert ask(chief[0], method, path)[0] == status


def test_only_the_chief_serves_join():
    server = ControlServer(("127.0.0.1", 0), AgentState(1, 2, WAITING), secret=SECRET)
    try:
        assert post(server, GOOD) == 404
    finally:
        server.close()


@pytest.mark.parametrize("secret", [None, RunSecret(b"b" * 64)])
def test_a_response_that_is_not_from_the_chief_of_the_run_is_an_error(secret):
    server = ControlServer(
        ("127.0.0.1", 0), AgentState(0, 2, AgentStatus(incarnation="pod-0")), Rendezvous(2), secret
    )
    try:
        with pytest.raises(RejectedError, match="does not have the secret of this run"):
            join_chief(("127.0.0.1", server.server_address[1]), 1, WAITING, SECRET)
    finally:
        server.close()


def test_the_secret_is_in_no_representation_and_no_token():
    assert "aaaa" not in repr(SECRET) + TOKEN
