"""What an API server refuses, in our words and with our exit codes."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import CapacityError, ConfigError, CredentialsError
from cloudgan.kubernetes.refusal import AlreadyThereError, ApiError, GoneError, passes, refusal

ASKED = "POST /apis/batch/v1/namespaces/lab/jobs"


def told(status, message):
    return refusal(status, json.dumps({"kind": "Status", "message": message}).encode(), ASKED)


@pytest.mark.parametrize(
    ("status", "message", "kind", "exit_code", "words"),
    [
        (401, "Unauthorized", CredentialsError, 2, "Log in again"),
        (403, 'jobs is forbidden: User "eve" cannot create', CredentialsError, 2, "role.yaml"),
        (403, "exceeded quota: gpus, requested: 8", CapacityError, 5, "larger quota"),
        (404, 'namespaces "lab" not found', ConfigError, 2, "another --namespace"),
        (404, 'jobs.batch "gan" not found', ApiError, 1, "answered 404"),
        (409, 'jobs.batch "gan" already exists', AlreadyThereError, 1, "already exists"),
        (410, "too old resource version", GoneError, 1, "too old"),
        (422, "spec.completions: Invalid value", ConfigError, 2, "does not accept this manifest"),
        (429, "too many requests", ApiError, 1, "answered 429"),
        (500, "etcdserver: leader changed", ApiError, 1, "answered 500"),
    ],
)
def test_a_refusal_says_what_was_asked_what_was_answered_and_what_to_do(
    status, message, kind, exit_code, words
):
    error = told(status, message)
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
def test_what_may_pass_by_itself_is_asked_again(status, later):
    assert passes(status) is later


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "without a word"),
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
def test_whatever_a_proxy_answers_is_told_in_one_line(body, said):
    text = str(refusal(502, body, ASKED))
    assert said in text
    assert "\n" not in text


def test_a_namespace_that_is_asked_for_and_missing_is_only_not_there():
    body = json.dumps({"message": 'namespaces "lab" not found'}).encode()
    found = refusal(404, body, "GET /api/v1/namespaces/lab")
    assert isinstance(found, ApiError), "it is to be made; nobody chose a wrong one"
    assert found.status == 404
