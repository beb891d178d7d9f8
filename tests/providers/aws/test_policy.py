"""deploy/aws: the rights that the calls need, all of them and none besides."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.progress import Silent
from cloudgan.cost.refresh.aws_spot import aws_spot_quotes
from cloudgan.cost.refresh.wanted import Wanted
from cloudgan.providers.aws.naming import ROLES
from cloudgan.providers.aws.requests import place, setup_steps
from providers.aws.lab import NOW, built, planned
from providers.aws.rights_used import FOLDER, actions, needed

PULL = {"ecr:BatchGetImage", "ecr:GetAuthorizationToken"}
"""What `cloudgan image` asks of the registry itself, whose protocol is tested in tests/registries."""


@pytest.fixture
def used(whole_lab):
    """Does all that a launcher does, and returns the rights that it took."""
    aws = whole_lab.aws
    whole_lab.session.client("logs", "us-east-1").create_log_group(logGroupName="/cloudgan/image")
    before = len(aws.faults.calls)
    cloud = whole_lab.cloud()
    aws.state.quotas["L-DB2E81BA"] = 64.0
    asked = Wanted({"g4dn.xlarge": planned().price}, ("us-east-1",))
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
    list(provider.remove("gan"))
    for thing in [one for one in cloud.things() if one.shared == "leftover"]:
        cloud.delete(thing)
    cloud._kinds["security group"].delete("us-east-1/sg-1")
    provider._intents.store.delete("runs/gan/intent/000001.json")
    provider._intents.store.list("runs/")
    return needed(aws.faults.calls[before:])


def card(name, status):
    tag = {"Key": "cluster.k8s.amazonaws.com/name", "Value": "cloudgan"}
    return {"NetworkInterfaceId": name, "Status": status, "TagSet": [tag]}


def test_a_launcher_has_the_rights_it_uses_and_no_others(used):
    assert actions("policy.json") == used


def test_setup_has_the_rights_it_uses_and_no_others(aws, lab, monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    aws.reset()
    cloud = lab.cloud()
    for step in setup_steps(place("123456789012", "us-east-1", None, None)):
        assert cloud.find(step) is None
        cloud.create(step)
        assert cloud.find(step) is not None, "as it was asked for"
    made = cloud.things()
    assert {one.shared for one in made} == {"bucket", "role"}
    for thing in sorted(made, key=lambda one: one.rank):
        cloud.delete(thing)
    assert cloud.things() == ()
    used = needed(aws.faults.calls)
    assert used - actions("policy.json") == actions("setup-policy.json") - actions("policy.json")
    assert used <= actions("policy.json") | actions("setup-policy.json")


def test_who_builds_images_and_removes_what_it_took_has_the_rights_it_uses_and_no_others(aws, lab):
    lab.session.client("s3").create_bucket(Bucket="cloudgan-123456789012-us-east-1")
    aws.faults.calls.clear()
    built(lab)
    cloud, calls = lab.cloud(), list(aws.faults.calls)
    made = [one for one in cloud.things() if one.name not in ROLES]
    aws.faults.calls.clear()
    for thing in made:
        cloud.delete(thing)
        assert cloud.look(thing) is None
    assert needed(calls + aws.faults.calls) | PULL == actions("image-policy.json")


@pytest.mark.parametrize("name", ["image-policy.json", "policy.json", "setup-policy.json"])
def test_what_may_change_or_delete_is_bound_to_names_of_ours(name):
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
