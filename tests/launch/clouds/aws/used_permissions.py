"""The IAM permissions of recorded calls, and those in deploy/aws."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parents[4] / "deploy" / "aws"
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html and the
# service authorization reference of each (read 2026-11-21): most permissions have the operation's name.
OTHERWISE = {
    "s3:GetPublicAccessBlock": {"s3:GetBucketPublicAccessBlock"},
    "s3:HeadBucket": {"s3:ListBucket"},
    "s3:HeadObject": {"s3:GetObject"},
    "s3:ListBuckets": {"s3:ListAllMyBuckets"},
    "s3:ListObjectsV2": {"s3:ListBucket"},
    "s3:PutPublicAccessBlock": {"s3:PutBucketPublicAccessBlock"},
    # Tags in the create call need the permission to tag.
    "s3:CreateBucket": {"s3:CreateBucket", "s3:TagResource"},
    "ecr:CreateRepository": {"ecr:CreateRepository", "ecr:TagResource"},
    "iam:CreateRole": {"iam:CreateRole", "iam:TagRole"},
    "logs:CreateLogGroup": {"logs:CreateLogGroup", "logs:TagResource"},
    # A builder takes a role.
    "codebuild:CreateProject": {"codebuild:CreateProject", "iam:PassRole"},
    # A cluster takes a role, and the first one of an account makes AWS' own.
    "eks:CreateCluster": {"eks:CreateCluster", "eks:TagResource", "iam:PassRole"}
    | {"iam:CreateServiceLinkedRole"},
}


def actions(name):
    text = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return {action for one in text["Statement"] for action in one["Action"]}


def needed(calls):
    asked = {f"{service}:{operation}" for service, _, operation in calls}
    return {right for one in asked for right in OTHERWISE.get(one, {one})}
