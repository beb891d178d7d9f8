"""The AWS planner: requests of a plan, offline."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.aws import planner
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.aws.naming import ROLES
from cloudgan.launch.kubernetes.manifests import GPU_NODE
from launch.clouds.aws.lab import aws_plan
from launch.clouds.lab import of_cloud, wanted


def test_the_node_group_is_created_empty_then_scheduled_then_scaled():
    empty, end, full = of_cloud(aws_plan(nodes=2))[-3:]
    assert empty.body["scalingConfig"] == {"minSize": 0, "maxSize": 2, "desiredSize": 0}
    assert (end.body["MinSize"], end.body["DesiredCapacity"]) == (0, 0)
    assert full.body["scalingConfig"]["desiredSize"] == 2
    assert empty.ref == end.ref == full.ref
    assert empty.body["labels"] == {RUN: "gan"} | dict(GPU_NODE)
    assert len(empty.body["subnets"]) == 1, "all in one zone"


def test_the_bucket_is_private_requires_tls_and_is_in_its_region():
    place = planner.target("123456789012", "eu-west-1", None, None)
    create, closed, policy, *_ = planner.setup_steps(place)
    assert create.body["CreateBucketConfiguration"]["LocationConstraint"] == "eu-west-1"
    assert set(closed.body["PublicAccessBlockConfiguration"].values()) == {True}
    (only,) = json.loads(policy.body["Policy"])["Statement"]
    assert (only["Effect"], only["Principal"]) == ("Deny", "*")
    assert only["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert (
        closed.body["ExpectedBucketOwner"] == policy.body["ExpectedBucketOwner"] == "123456789012"
    )


def test_only_setup_creates_roles():
    steps = planner.setup_steps(planner.target("123456789012", "us-east-1", None, None))
    made = [one.body["RoleName"] for one in steps if one.method == "CreateRole"]
    assert made == list(ROLES)
    assert not [one for one in aws_plan().steps if one.path.startswith("iam")]


@pytest.mark.parametrize(
    ("node_type", "image"),
    [
        ("p6-b200.48xlarge", "AL2023_x86_64_NVIDIA"),
        ("p6e-gb200.36xlarge", "AL2023_ARM_64_NVIDIA"),
    ],
)
def test_machines_without_wheels_take_the_users_image(node_type, image):
    pool = planner.node_pool(wanted("aws", node_type, has_own_image=True))
    assert pool.market == "on_demand"
    assert machine(node_type).image == image


def test_pods_use_the_grace_period_of_a_spot_notice():
    assert aws_plan(market="spot").workers.grace_seconds == 90
