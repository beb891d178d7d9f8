"""Policies are evaluated as IAM documents it."""

from __future__ import annotations

import pytest

from emulators.aws.iam_policies import Authorization, is_allowed

ARN = "arn:aws:s3:::lab/data/1"


def allow(**parts):
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"} | parts


def allowed(*statements, action="s3:GetObject", resource=ARN, **context):
    asked = Authorization(action, resource, {k.replace("_", ":", 1): v for k, v in context.items()})
    return is_allowed([{"Statement": list(statements)}], asked)


def test_nothing_is_allowed_that_no_statement_allows():
    assert not allowed()
    assert not allowed(allow(Action="s3:PutObject"))
    assert not allowed(allow(Resource="arn:aws:s3:::lab/other/*"))
    assert allowed(allow(Action=["S3:get*"], Resource="arn:aws:s3:::l?b/*"))


def test_a_deny_wins():
    assert not allowed(allow(), allow(Effect="Deny", Action="s3:*"))


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        ({"StringEquals": {"aws:A": ["x", "y"]}}, {"aws_a": ("y",)}, True),
        ({"StringEquals": {"aws:A": "x*"}}, {"aws_a": ("xy",)}, False),
        ({"StringLike": {"aws:A": "x*"}}, {"aws_a": ("xy",)}, True),
        ({"StringEquals": {"aws:A": "x"}}, {}, False),
        ({"Null": {"aws:A": "false"}}, {}, False),
        ({"Null": {"aws:A": "false"}}, {"aws_a": ("x",)}, True),
        ({"Null": {"aws:A": "true"}}, {}, True),
        ({"ForAllValues:StringLike": {"aws:A": "c-*"}}, {"aws_a": ("c-1", "d")}, False),
        ({"ForAllValues:StringLike": {"aws:A": "c-*"}}, {"aws_a": ("c-1", "c-2")}, True),
        ({"ForAllValues:StringLike": {"aws:A": "c-*"}}, {}, True),
        ({"ArnLike": {"aws:A": "arn:*:policy/b"}}, {"aws_a": ("arn:aws:iam::1:policy/b",)}, True),
        ({"StringEquals": {"aws:A": "${aws:B}"}}, {"aws_a": ("1",), "aws_b": ("1",)}, True),
        ({"StringEquals": {"aws:A": "${aws:B}"}}, {"aws_a": ("1",)}, False),
        ({"StringEquals": {"aws:A": "x", "aws:B": "x"}}, {"aws_a": ("x",)}, False),
    ],
)
def test_conditions(condition, context, holds):
    assert allowed(allow(Condition=condition), **context) == holds


def test_a_boundary_limits_and_grants_nothing():
    every, asked = {"Statement": allow(Action="*")}, Authorization("s3:GetObject", ARN)
    assert is_allowed([every], asked, every)
    assert not is_allowed([every], asked, {"Statement": allow(Action="ec2:*")})
    assert not is_allowed([], asked, every)


def test_an_unknown_operator_is_an_error():
    with pytest.raises(AssertionError, match="NumericLessThan"):
        allowed(allow(Condition={"NumericLessThan": {"aws:A": "1"}}), aws_a=("0",))
