"""deploy/aws: each policy allows the requests that cloudgan sends, no others, and none on resources of other teams."""

import json
import re

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.core.progress import Silent
from cloudgan.launch.clouds.aws.naming import BOUNDARY, CLUSTER_ROLE, POD_ROLE, ROLES
from cloudgan.launch.clouds.aws.planner import role_document, setup_steps, target
from cloudgan.money.refresh.aws import aws_spot_quotes
from cloudgan.money.refresh.feeds import RefreshRequest
from emulators.aws.iam_policies import is_allowed
from launch.clouds.aws.lab import ACCOUNT, RESERVATION, aws_plan
from launch.clouds.aws.test_client import left_node, left_volume
from launch.clouds.aws.used_permissions import FOLDER, ask, document, unused
from launch.clouds.lab import NOW

POLICIES = ("boundary.json", "policy.json", "reservation-policy.json", "setup-policy.json")
CLOUDGAN, RUN, LEFT = (
    {"cloudgan-shared": "cluster"},
    {"cloudgan-run": "gan"},
    "cluster.k8s.amazonaws.com/name",
)
MANAGED_BY_AWS = "arn:aws:iam::aws:policy"
WITHIN = {"permissionsboundary": f"arn:aws:iam::{ACCOUNT}:policy/{BOUNDARY}"}
WITHIN_CLUSTER = {"permissionsboundary": f"{MANAGED_BY_AWS}/AmazonEKSClusterPolicy"}
ADMIN = {"policyarn": f"{MANAGED_BY_AWS}/AdministratorAccess"}
EVERYTHING = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}


def launched(lab):
    """Runs all operations of a launcher with policy.json."""
    aws = lab.aws
    aws.authorized.clear()
    aws.grants = [document("policy.json")]
    cloud = lab.cloud()
    aws.state.quotas["L-DB2E81BA"] = 64.0
    asked = RefreshRequest({"g4dn.xlarge": aws_plan().price}, ("us-east-1",))
    ec2 = lab.session.client("ec2", "us-east-1")
    list(aws_spot_quotes(asked, NOW, Silent(), lambda _: ec2))
    cloud.check(aws_plan())
    aws.state.sold_out["g4dn.xlarge"] = ""
    lab.deploy()
    plan = lab.plan()
    (group,) = aws.state.groups()
    group.machines.pop()
    cloud.find(next(one for one in plan.steps if one.method == "UpdateNodegroupConfig"))
    for step in plan.steps:
        if step.method in ("CreateAddon", "CreatePodIdentityAssociation"):
            assert cloud.find(step)
        if step.method == "CreateSchedule":
            cloud.create(step)  # as a run that is resumed
    network = aws.state.networks["us-east-1"]
    network.cards = [card("eni-1", "available")]
    tag = {"Key": "aws:eks:cluster-name", "Value": "cloudgan"}
    network.security_groups = [{"GroupId": "sg-1", "Tags": [tag]}]
    network.instances = [left_node("i-1"), left_node("i-2", cluster="cloudgan-ann")]
    network.volumes = [left_volume("vol-1", "available")]
    list(lab.launcher().destroy("gan"))
    aws.grants = [document("policy.json"), document("reservation-policy.json")]
    lab.reserve()
    lab.deploy(reservation=RESERVATION)
    list(lab.launcher().destroy("gan"))
    aws.grants = aws.grants[:1]
    for kind in ("network interface", "security group", "EC2 instance", "EBS volume"):
        for resource in [one for one in cloud.list_resources() if one.kind == kind]:
            cloud.delete(resource)
    lab.store().delete("runs/gan/desired-state/000001.json")
    lab.store().list("runs/")
    return aws.authorized


def card(name, status):
    return {
        "NetworkInterfaceId": name,
        "Status": status,
        "TagSet": [{"Key": LEFT, "Value": "cloudgan"}],
    }


def test_a_launcher_uses_exactly_the_permissions_of_its_policy(whole_lab):
    asked = launched(whole_lab)
    assert unused("policy.json", asked) == set()
    assert unused("reservation-policy.json", asked) == set()


def shared_parts(lab):
    """An administrator's own cluster, in which a run left the add-on and the association of all runs."""
    eks = lab.session.client("eks", "us-east-1")
    lab.create_cluster("physics")
    eks.create_addon(
        clusterName="physics",
        addonName="eks-pod-identity-agent",
        tags={"cloudgan-shared": "add-on"},
    )
    eks.create_pod_identity_association(
        clusterName="physics",
        namespace="cloudgan",
        serviceAccount="cloudgan",
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/cloudgan-pods",
        tags={"cloudgan-shared": "identity"},
    )


def test_setup_uses_exactly_the_permissions_of_its_policy(aws, lab, monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    aws.reset()
    steps = setup_steps(target(ACCOUNT, "us-east-1", None, None))
    lab.cloud().create(next(one for one in steps if one.method == "CreatePolicy"))
    aws.authorized.clear()
    aws.grants = [document("policy.json"), document("setup-policy.json")]
    cloud = lab.cloud()
    for step in steps:
        assert (cloud.find(step) is None) == (step.method != "CreatePolicy")
        if step.method != "CreatePolicy":
            cloud.create(step)
        assert cloud.find(step) is not None, "as it was asked for"
    aws.grants, granted, before = None, aws.grants, list(aws.authorized)
    shared_parts(lab)
    aws.authorized.clear()
    aws.grants = granted
    made = cloud.list_resources()
    assert {one.shared for one in made} == {"add-on", "boundary", "bucket", "identity", "role"}
    for resource in sorted(made, key=lambda one: one.deletion_order):
        cloud.delete(resource)
    assert cloud.list_resources() == ()
    assert unused("setup-policy.json", before + aws.authorized) == set()


LAUNCHER_DENIED = (
    ask("eks:DeleteCluster", "cluster/physics", tags=CLOUDGAN),
    ask("eks:DeleteCluster", "cluster/cloudgan-lab"),
    ask("eks:CreateCluster", "cluster/physics", sent=CLOUDGAN),
    ask("eks:CreateCluster", "cluster/cloudgan"),
    ask("eks:CreateNodegroup", "cluster/physics", sent=RUN),
    ask("eks:CreateNodegroup", "cluster/cloudgan"),
    ask("eks:DeleteNodegroup", "nodegroup/physics/pool/1", tags=RUN),
    ask("eks:DeleteNodegroup", "nodegroup/cloudgan/pool/1"),
    ask("eks:UpdateNodegroupConfig", "nodegroup/physics/pool/1", tags=RUN),
    ask("eks:TagResource", "cluster/physics", sent=CLOUDGAN),
    ask("eks:TagResource", "nodegroup/physics/pool/1", sent=RUN),
    ask("eks:TagResource", "cluster/cloudgan", sent={"team": "physics"}),
    ask("eks:CreatePodIdentityAssociation", "cluster/physics", sent={"cloudgan-shared": "identity"}),
    ask("eks:DeletePodIdentityAssociation", "podidentityassociation/cloudgan/a-1"),
    ask("eks:CreateAccessEntry", "cluster/cloudgan"),
    ask("autoscaling:PutScheduledUpdateGroupAction", "autoScalingGroup:1:autoScalingGroupName/eks-pool", tags={"eks:cluster-name": "physics"}),
    ask("autoscaling:PutScheduledUpdateGroupAction", "autoScalingGroup:1:autoScalingGroupName/web"),
    ask("ec2:DeleteNetworkInterface", "network-interface/eni-1", tags={LEFT: "physics"}),
    ask("ec2:DeleteSecurityGroup", "security-group/sg-1"),
    ask("ec2:RunInstances", "instance/*"),
    ask("iam:PassRole", "role/admin", passedtoservice="eks.amazonaws.com"),
    ask("iam:PassRole", "role/cloudgan-admin", passedtoservice="eks.amazonaws.com"),
    ask("iam:PassRole", "role/cloudgan-nodes", passedtoservice="lambda.amazonaws.com"),
    ask("iam:PassRole", "role/cloudgan-pods", passedtoservice="ec2.amazonaws.com"),
    ask("iam:PassRole", "role/cloudgan-pods", passedtoservice="codebuild.amazonaws.com"),
    ask("iam:CreateRole", "role/cloudgan-admin", **WITHIN),
    ask("iam:PutRolePolicy", "role/cloudgan-pods", **WITHIN),
    ask("iam:AttachRolePolicy", "role/cloudgan-pods", **WITHIN, **ADMIN),
    ask("iam:CreatePolicyVersion", f"policy/{BOUNDARY}"),
    ask("iam:CreateServiceLinkedRole", "role/aws-service-role/autoscaling.amazonaws.com/R", awsservicename="autoscaling.amazonaws.com"),
    ask("s3:GetObject", "physics-data/showers.h5"),
    ask("s3:ListBucket", "physics-data"),
    ask("s3:PutObject", "cloudgan-evil/runs/gan/weights", owner="999999999999"),
    ask("s3:PutBucketPolicy", "physics-data"),
    ask("s3:DeleteBucket", f"cloudgan-{ACCOUNT}-us-east-1"),
    ask("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/cloudgan-pods"),
)  # fmt: skip
SETUP_DENIED = (
    ask("iam:CreateRole", "role/cloudgan-pods"),
    ask("iam:CreateRole", "role/cloudgan-pods", permissionsboundary=ADMIN["policyarn"]),
    ask("iam:CreateRole", "role/cloudgan-nodes", **WITHIN_CLUSTER),
    ask("iam:CreateRole", "role/cloudgan-cluster"),
    ask("iam:CreateRole", "role/cloudgan-admin", **WITHIN),
    ask("iam:CreateRole", "role/physics", **WITHIN),
    ask("iam:PutRolePolicy", "role/cloudgan-pods"),
    ask("iam:PutRolePolicy", "role/cloudgan-cluster", **WITHIN_CLUSTER),
    ask("iam:AttachRolePolicy", "role/cloudgan-pods", **WITHIN, **ADMIN),
    ask("iam:AttachRolePolicy", "role/cloudgan-nodes", **WITHIN, **ADMIN),
    ask("iam:AttachRolePolicy", "role/cloudgan-cluster", **WITHIN_CLUSTER, **ADMIN),
    ask("iam:AttachRolePolicy", "role/cloudgan-nodes", policyarn=f"{MANAGED_BY_AWS}/AmazonEKS_CNI_Policy"),
    ask("iam:CreatePolicy", f"policy/{BOUNDARY}", sent={"cloudgan-shared": "boundary"}),
    ask("iam:CreatePolicyVersion", f"policy/{BOUNDARY}"),
    ask("iam:SetDefaultPolicyVersion", f"policy/{BOUNDARY}"),
    ask("iam:DeleteRolePermissionsBoundary", "role/cloudgan-pods"),
    ask("iam:PutRolePermissionsBoundary", "role/cloudgan-pods", **WITHIN),
    ask("iam:UpdateAssumeRolePolicy", "role/cloudgan-pods"),
    ask("iam:DeleteRole", "role/physics"),
    ask("iam:TagRole", "role/cloudgan-pods", sent={"team": "physics"}),
    ask("eks:DeleteAddon", "addon/physics/eks-pod-identity-agent/1"),
    ask("s3:DeleteBucket", "physics-data"),
)  # fmt: skip
RESERVATION_DENIED = (
    ask("ec2:RunInstances", "launch-template/lt-1"),
    ask("ec2:RunInstances", "instance/*"),
    ask("ec2:CreateTags", "launch-template/lt-1"),
    ask("ec2:DeleteLaunchTemplate", "launch-template/lt-1"),
)
DENIED = (
    *(("policy.json", one) for one in (*LAUNCHER_DENIED, *RESERVATION_DENIED)),
    *(("reservation-policy.json", one) for one in RESERVATION_DENIED),
    *(("setup-policy.json", one) for one in SETUP_DENIED),
)


@pytest.mark.parametrize(
    ("name", "asked"), DENIED, ids=lambda one: one if isinstance(one, str) else one.action
)
def test_a_policy_denies(name, asked):
    assert not is_allowed([document(name)], asked)


@pytest.mark.parametrize(
    "asked",
    [
        ask("iam:CreateUser", "user/me"),
        ask("iam:PassRole", "role/admin", passedtoservice="ec2.amazonaws.com"),
        ask("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/admin"),
        ask("ec2:RunInstances", "instance/*"),
        ask("eks:CreateCluster", "cluster/cloudgan", sent=CLOUDGAN),
        ask("s3:GetObject", "physics-data/showers.h5"),
        ask("s3:PutObject", "cloudgan-evil/x", owner="999999999999"),
        ask("ecr:PutImage", "repository/cloudgan"),
    ],
    ids=lambda one: one.action,
)
def test_a_role_that_setup_made_has_at_most_its_boundary(asked):
    assert is_allowed([EVERYTHING], asked)
    assert not is_allowed([EVERYTHING], asked, document("boundary.json"))


@pytest.mark.parametrize("role", [one for one in ROLES if one != CLUSTER_ROLE])
def test_the_boundary_allows_what_a_role_is_for(role):
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    found = role_document(ACCOUNT, role)
    assert found["boundary"] == WITHIN["permissionsboundary"]
    known = json.loads(aws_managed_policies_data)
    documents = [known[arn.rpartition("/")[2]]["Document"] for arn in found["managed"]]
    documents += found["policies"].values()
    statements = [one for text in documents for one in text["Statement"]]
    statements = [one for one in statements if one["Effect"] == "Allow"]
    assert statements
    for statement in statements:
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                example = resource.replace("*", "x") if resource != "*" else "*"
                asked = ask(action, example, tags=CLOUDGAN | RUN)
                assert is_allowed(documents, asked, document("boundary.json")), action


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("runs/gan/checkpoints/step-000000100.npz", True),
        ("runs/gan/logs/0/a.log.gz", True),
        ("runs/gan/heartbeat.json", True),
        ("runs/gan/plan.json", False),
        ("runs/gan/desired-state/00000001.json", False),
        ("wheels/ab/cloudgan-0.1-py3-none-any.whl", False),
    ],
)
def test_a_taken_pod_cannot_write_what_others_act_on(action, name, allowed):
    (policy,) = role_document(ACCOUNT, POD_ROLE)["policies"].values()
    asked = ask(action, f"cloudgan-{ACCOUNT}-us-east-1/{name}")
    assert is_allowed([policy], asked) == allowed


def test_the_control_plane_is_limited_to_its_own_managed_policy():
    found = role_document(ACCOUNT, CLUSTER_ROLE)
    assert found["managed"] == [found["boundary"]] == [WITHIN_CLUSTER["permissionsboundary"]]


def listed(value):
    return value if isinstance(value, list) else [value]


def test_setup_refuses_a_boundary_or_a_role_that_allows_something_else(lab):
    cloud, iam = lab.cloud(), lab.session.client("iam")
    steps = setup_steps(target(ACCOUNT, "us-east-1", None, None))
    boundary = next(one for one in steps if one.method == "CreatePolicy")
    assert cloud.find(boundary).shared == "boundary"
    iam.delete_policy(PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/{BOUNDARY}")
    wide = json.dumps({"Version": "2012-10-17"} | EVERYTHING)
    iam.create_policy(PolicyName=BOUNDARY, PolicyDocument=wide)
    with pytest.raises(ConfigError, match=r"differs from deploy/aws/boundary\.json"):
        cloud.find(boundary)
    iam.delete_role(RoleName="cloudgan-pods")
    iam.create_role(RoleName="cloudgan-pods", AssumeRolePolicyDocument="{}")
    with pytest.raises(ConfigError, match="boundary none, not arn:aws:iam::123456789012:policy"):
        cloud.find(next(one for one in steps if one.ref.get("name") == "cloudgan-pods"))


def test_without_the_boundary_setup_names_the_administrators_file(aws, lab):
    aws.reset()
    aws.grants = [document("policy.json"), document("setup-policy.json")]
    steps = setup_steps(target(ACCOUNT, "us-east-1", None, None))
    with pytest.raises(CredentialsError, match=r"deploy/aws/boundary\.json"):
        lab.cloud().create(next(one for one in steps if one.method == "CreatePolicy"))


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_fits_into_a_managed_policy_and_its_statements_have_names(name):
    """6,144 characters without white space:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html (read 2026-11-22)."""
    assert len(re.sub(r"\s", "", (FOLDER / name).read_text(encoding="utf-8"))) <= 6144
    names = [one["Sid"] for one in document(name)["Statement"]]
    assert len(set(names)) == len(names)
    assert all(one["Action"] == sorted(one["Action"]) for one in document(name)["Statement"])
