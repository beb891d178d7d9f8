"""deploy/aws: the rights that the calls need, all of them and none besides."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.progress import Silent
from cloudgan.cost.prices.refresh.aws import aws_spot_quotes
from cloudgan.cost.prices.refresh.quote import RefreshRequest
from cloudgan.launch.clouds.aws.naming import ROLES
from cloudgan.launch.clouds.aws.planner import setup_steps, target
from launch.clouds.aws.lab import NOW, built, planned
from launch.clouds.aws.used_permissions import FOLDER, actions, needed

PULL = {"ecr:BatchGetImage", "ecr:GetAuthorizationToken"}
"""Permission for the registry protocol, which tests/launch/container_registry tests."""


@pytest.fixture
def used(whole_lab):
    """Runs all operations of a launcher; returns the permissions used."""
    aws = whole_lab.aws
    whole_lab.session.client("logs", "us-east-1").create_log_group(logGroupName="/cloudgan/image")
    before = len(aws.faults.calls)
    cloud = whole_lab.cloud()
    aws.state.quotas["L-DB2E81BA"] = 64.0
    asked = RefreshRequest({"g4dn.xlarge": planned().price}, ("us-east-1",))
    ec2 = whole_lab.session.client("ec2", "us-east-1")
    list(aws_spot_quotes(asked, NOW, Silent(), lambda _: ec2))
    cloud.check(planned())
    aws.state.sold_out["g4dn.xlarge"] = ""
    whole_lab.deploy(planned())
    plan = whole_lab.resolved(planned())
    (group,) = aws.state.groups()
    group.machines.pop()
    cloud.find(next(one for one in plan.steps if one.method == "UpdateNodegroupConfig"))
    parts = [
        one for one in plan.steps if one.method in ("CreateAddon", "CreatePodIdentityAssociation")
    ]
    for step in parts:
        cloud.delete(cloud.find(step))
    network = aws.state.networks["us-east-1"]
    network.cards = [card("eni-1", "available")]
    network.security_groups = [{"GroupId": "sg-1", "Tags": []}]
    provider = whole_lab.provider(cloud, plan)
    list(provider.destroy("gan"))
    for resource in [one for one in cloud.list_resources() if one.shared == "leftover"]:
        cloud.delete(resource)
    cloud._handlers["security group"].delete("us-east-1/sg-1")
    provider._registry.store.delete("runs/gan/desired-state/000001.json")
    provider._registry.store.list("runs/")
    return needed(aws.faults.calls[before:])


def card(name, status):
    tag = {"Key": "cluster.k8s.amazonaws.com/name", "Value": "cloudgan"}
    return {"NetworkInterfaceId": name, "Status": status, "TagSet": [tag]}


def test_a_launcher_uses_exactly_the_permissions_of_its_policy(used):
    assert actions("policy.json") == used


def test_setup_uses_exactly_the_permissions_of_its_policy(aws, lab, monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    aws.reset()
    cloud = lab.cloud()
    for step in setup_steps(target("123456789012", "us-east-1", None, None)):
        assert cloud.find(step) is None
        cloud.create(step)
        assert cloud.find(step) is not None, "as it was asked for"
    made = cloud.list_resources()
    assert {one.shared for one in made} == {"bucket", "role"}
    for resource in sorted(made, key=lambda one: one.deletion_order):
        cloud.delete(resource)
    assert cloud.list_resources() == ()
    used = needed(aws.faults.calls)
    assert used - actions("policy.json") == actions("setup-policy.json") - actions("policy.json")
    assert used <= actions("policy.json") | actions("setup-policy.json")


def test_an_image_build_uses_exactly_the_permissions_of_its_policy(aws, lab):
    lab.session.client("s3").create_bucket(Bucket="cloudgan-123456789012-us-east-1")
    aws.faults.calls.clear()
    built(lab)
    cloud, calls = lab.cloud(), list(aws.faults.calls)
    made = [one for one in cloud.list_resources() if one.name not in ROLES]
    aws.faults.calls.clear()
    for resource in made:
        cloud.delete(resource)
        assert cloud.refresh(resource) is None
    assert needed(calls + aws.faults.calls) | PULL == actions("image-policy.json")


@pytest.mark.parametrize("name", ["image-policy.json", "policy.json", "setup-policy.json"])
def test_modifying_permissions_are_limited_to_cloudgans_names(name):
    text = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    for one in text["Statement"]:
        free = one["Resource"] == "*" and "Condition" not in one
        services = {action.partition(":")[0] for action in one["Action"]}
        changing = [
            a
            for a in one["Action"]
            if not a.split(":")[1].startswith(("Describe", "Get", "List", "Simulate"))
        ]
        assert not (free and changing and services - {"eks"}), one["Sid"]
