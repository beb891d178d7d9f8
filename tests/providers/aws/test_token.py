"""Tokens of EKS: signed, not sent; valid for their cluster only; renewed in time."""

from __future__ import annotations

import boto3
import pytest

from cloudgan.providers.aws import token

LOGIN = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "planted-secret"}


@pytest.fixture
def session():
    return boto3.Session(**LOGIN, region_name="eu-west-1")


@pytest.fixture
def user_of():
    pytest.importorskip("moto")
    from amazon.tokens import user_of

    return user_of


def test_a_token_is_a_signed_question_that_names_its_cluster(session, user_of):
    found = token.signed(session, "cloudgan", "eu-west-1")
    assert user_of(found, LOGIN, "cloudgan") == "aws"
    assert user_of(found, LOGIN, "another") is None
    assert user_of(found, LOGIN | {"aws_secret_access_key": "x"}, "cloudgan") is None
    assert "=" not in found
    assert "planted-secret" not in found


def test_a_token_is_kept_until_it_nears_its_end(session, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(token, "monotonic_seconds", lambda: now[0])
    signed = iter(("first", "second"))
    monkeypatch.setattr(token, "signed", lambda *_: next(signed))
    ask = token.ClusterToken(session, "cloudgan", "eu-west-1")
    assert [ask(), ask()] == ["first", "first"]
    now[0] = 599.0
    assert ask() == "first"
    now[0] = 600.0
    assert ask() == "second", "EKS takes one for fifteen minutes"
