"""Error responses of the API server as exceptions with messages and exit codes."""

import json
from types import SimpleNamespace

import pytest

from cloudgan.core.errors import CapacityError, CloudganError, ConfigError, CredentialsError
from cloudgan.launch.kubernetes import api
from cloudgan.launch.kubernetes.api import (
    AlreadyExistsError,
    ApiError,
    ClusterApi,
    map_error,
)

REQUEST = "POST /apis/batch/v1/namespaces/lab/jobs"


def mapped(status, message):
    return map_error(status, json.dumps({"kind": "Status", "message": message}).encode(), REQUEST)


@pytest.mark.parametrize(
    ("status", "message", "kind", "exit_code", "words"),
    [
        (
            400,
            'strict decoding error: unknown field "spec.x"',
            ConfigError,
            2,
            "rejects this manifest",
        ),
        (401, "Unauthorized", CredentialsError, 2, "Log in again"),
        (403, 'jobs is forbidden: User "eve" cannot create', CredentialsError, 2, "role.yaml"),
        (403, "exceeded quota: gpus, requested: 8", CapacityError, 5, "larger quota"),
        (404, 'namespaces "lab" not found', ConfigError, 2, "another --namespace"),
        (404, 'jobs.batch "gan" not found', ApiError, 1, "HTTP 404"),
        (409, 'jobs.batch "gan" already exists', AlreadyExistsError, 1, "already exists"),
        (410, "too old resource version", ApiError, 1, "HTTP 410"),
        (422, "spec.completions: Invalid value", ConfigError, 2, "rejects this manifest"),
        (429, "too many requests", ApiError, 1, "HTTP 429"),
        (500, "etcdserver: leader changed", ApiError, 1, "HTTP 500"),
    ],
)
def test_an_error_names_the_request_the_response_and_the_next_step(
    status, message, kind, exit_code, words
):
    error = mapped(status, message)
    assert type(error) is kind
    assert error.exit_code == exit_code
    assert words in str(error)
    assert message in str(error)
    if isinstance(error, ApiError):
        assert error.status == status


@pytest.mark.parametrize(
    ("status", "later"),
    [(200, False), (401, False), (404, False), (409, False), (429, True), (500, True), (503, True)],
)
def test_transient_errors_are_retried(clock, status, later):
    client = AnswersInTurn(status, status, 200)
    if status == 200 or later:
        assert ClusterApi(client).list("/api/v1/nodes") == {"message": ""}
    else:
        with pytest.raises(CloudganError):
            ClusterApi(client).list("/api/v1/nodes")
    assert (clock[0] > 0, len(client.statuses)) == (later, 0 if later else 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no message"),
        (b"<html>\n bad   gateway</html>", "<html> bad gateway</html>"),
        (b"[]", "[]"),
        (b'"no"', '"no"'),
        (b'{"code": 502}', '{"code": 502}'),
        (b'{"message": null}', '{"message": null}'),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 5000, "x" * 200 + ")"),
        (b'{"message": "two\\n lines"}', "two lines"),
    ],
)
def test_any_response_of_a_proxy_is_one_line(body, said):
    text = str(map_error(502, body, REQUEST))
    assert said in text
    assert "\n" not in text


def test_a_missing_namespace_is_not_a_configuration_error():
    body = json.dumps({"message": 'namespaces "lab" not found'}).encode()
    found = map_error(404, body, "GET /api/v1/namespaces/lab")
    assert isinstance(found, ApiError), "deploy creates it"
    assert found.status == 404


def answer(status, content):
    response = SimpleNamespace(read=lambda amount, **_: content[:amount])
    return SimpleNamespace(status=status, response=response, getheader=lambda _: None)


class AnswersInTurn:
    """A client of the official library whose requests get these statuses; 0: no such host."""

    configuration = SimpleNamespace(host="https://new.example")

    def __init__(self, *statuses):
        self.statuses = list(statuses)

    def param_serialize(self, *request, **_):
        return request

    def call_api(self, *_request, **_):
        status = self.statuses.pop(0)
        if not status:
            raise OSError("no such host")
        body = json.dumps({"message": {403: "forbidden", 401: "Unauthorized"}.get(status, "")})
        return answer(status, body.encode())


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only in pauses; returns the seconds that have passed."""
    passed = [0.0]
    monkeypatch.setattr(api, "monotonic_seconds", lambda: passed[0])
    monkeypatch.setattr(
        api.time, "sleep", lambda seconds: passed.__setitem__(0, passed[0] + seconds)
    )
    return passed


def test_a_new_cluster_may_deny_requests_for_minutes(clock):
    said = []
    client = AnswersInTurn(*[0] * 15, *[401] * 10, *[403] * 5, 200)
    found = ClusterApi(client, say=said.append)
    found.new_until = 300
    assert found.list("/api/v1/nodes") == {"message": ""}
    assert clock[0] > 150
    assert said[0] == (
        "the API of the new cluster does not accept requests yet (no such host); retrying for 300 s"
    )
    assert 3 <= len(said) <= 6, "one line a minute"


@pytest.mark.parametrize(("status", "kind"), [(0, ApiError), (401, CredentialsError)])
def test_a_new_cluster_that_denies_requests_for_longer_is_an_error(clock, status, kind):
    found = ClusterApi(AnswersInTurn(*[status] * 100))
    found.new_until = 300
    with pytest.raises(kind):
        found.list("/api/v1/nodes")
    assert 300 <= clock[0] < 310


@pytest.mark.parametrize(
    ("status", "kind", "most"),
    [(0, ApiError, 20), (401, CredentialsError, 0), (403, CredentialsError, 0)],
)
def test_a_cluster_that_existed_before_is_not_waited_for(clock, status, kind, most):
    with pytest.raises(kind):
        ClusterApi(AnswersInTurn(*[status] * 100)).list("/api/v1/nodes")
    assert clock[0] <= most


def test_an_exceeded_quota_of_a_new_cluster_is_no_denied_login(clock):
    client = AnswersInTurn(403)
    client.call_api = lambda *_, **__: answer(403, b'{"message": "exceeded quota: gpus"}')
    found = ClusterApi(client)
    found.new_until = 300
    with pytest.raises(CapacityError):
        found.create("/api/v1/namespaces/x/pods", {})
    assert clock[0] == 0
