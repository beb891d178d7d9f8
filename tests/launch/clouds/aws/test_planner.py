"""The AWS planner: requests of a plan, offline."""

import json

import pytest

from cloudgan.launch.clouds.aws import planner
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.aws.naming import ROLES
from launch.clouds.aws.lab import aws_plan
from launch.clouds.lab import wanted


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
