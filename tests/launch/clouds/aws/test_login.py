"""EKS tokens: signed but not sent, valid for one cluster, renewed before they expire."""

import boto3
import pytest

from cloudgan.launch.clouds.aws.login import ClusterToken, signed_token

LOGIN = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "planted-secret"}


@pytest.fixture
def session():
    return boto3.Session(**LOGIN, region_name="eu-west-1")


@pytest.fixture
def user_of():
    pytest.importorskip("moto")
    from emulators.aws.tokens import user_of

    return user_of


def test_a_token_is_a_signed_request_that_names_its_cluster(session, user_of):
    found = signed_token(session, "cloudgan", "eu-west-1")
    assert user_of(found, LOGIN, "cloudgan") == "aws"
    assert user_of(found, LOGIN, "another") is None
    assert user_of(found, LOGIN | {"aws_secret_access_key": "x"}, "cloudgan") is None
    assert "=" not in found
    assert "planted-secret" not in found


def test_a_token_is_kept_until_it_nears_its_end(session):
    now, tokens = [0.0], iter(("first", "second"))
    token = ClusterToken(
        session, "cloudgan", "eu-west-1", sign=lambda *_: next(tokens), clock=lambda: now[0]
    )
    assert [token(), token()] == ["first", "first"]
    now[0] = 599.0
    assert token() == "first"
    now[0] = 600.0
    assert token() == "second", "EKS takes one for fifteen minutes"
