"""`check` names what is missing and creates nothing."""

import pytest

from launch.clouds.aws.lab import aws_plan
from launch.clouds.aws.used_permissions import document

READ_ONLY = [{"Statement": document("policy.json")["Statement"][0]}]


def found(lab, plan=None):
    return {one.subject: one for one in lab.cloud().check(plan)}


def test_a_quota_without_a_value_is_unknown(lab):
    (quota,) = (one for name, one in found(lab, aws_plan()).items() if "quota" in name)
    assert quota.status == "unknown"


def test_the_launchers_policy_is_enough_with_its_conditions(lab):
    lab.aws.grants = [document("policy.json")]
    assert found(lab)["AWS permissions"].status == "ok"
    lab.aws.grants = [document("setup-policy.json"), *READ_ONLY]
    assert "eks:CreateCluster, eks:CreateNodegroup" in found(lab)["AWS permissions"].message


def test_permissions_that_iam_does_not_simulate_are_unknown(lab):
    lab.aws.fault("SimulatePrincipalPolicy", "AccessDenied", status=403)
    assert found(lab)["AWS permissions"].status == "unknown"


def test_a_region_that_cannot_serve_it_is_missing(lab):
    lab.aws.state.networks["us-east-1"].subnets.clear()
    place = found(lab, aws_plan())["AWS network in us-east-1"]
    assert place.status == "missing"
    assert "default VPC" in place.message


@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ('{"enableNetworkPolicy": "true"}', "ok", "enforces it"),
        ('enableNetworkPolicy: "true"\n', "ok", "enforces it"),
        ('{"enableNetworkPolicy": "false"}', "unknown", "update-addon --cluster-name physics"),
        (None, "unknown", "enable-network-policy-controller"),
    ],
)
def test_check_reports_whether_an_existing_cluster_enforces_policies(lab, values, status, message):
    plane = lab.create_cluster("physics")
    if values:
        plane.add_ons["vpc-cni"] = {"addonName": "vpc-cni", "configurationValues": values}
    policy = found(lab, aws_plan(cluster="physics"))["NetworkPolicy in us-east-1/physics"]
    assert policy.status == status
    assert message in policy.message


def test_check_says_that_deploy_enforces_policies_in_its_own_cluster(lab):
    policy = found(lab, aws_plan())["NetworkPolicy in us-east-1/cloudgan"]
    assert (policy.status, "`deploy` switches it on" in policy.message) == ("ok", True)
