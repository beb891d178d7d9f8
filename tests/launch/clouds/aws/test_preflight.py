"""`check` names what is missing and creates nothing."""

from __future__ import annotations

import pytest

from cloudgan.launch.clouds.aws.naming import ROLES
from emulators.aws.lookups import PAGE
from launch.clouds.aws.lab import planned
from launch.clouds.aws.used_permissions import document

READ_ONLY = [{"Statement": document("policy.json")["Statement"][0]}]


def found(lab, plan=None):
    return {one.subject: one for one in lab.cloud().check(plan)}


def test_check_of_a_complete_account_is_ok(lab):
    lab.aws.state.quotas["L-DB2E81BA"] = 16.0
    all_of_it = found(lab, planned(nodes=2))
    assert {one.status for one in all_of_it.values()} == {"ok"}
    quota = all_of_it["quota Running On-Demand G and VT instances in us-east-1"]
    assert quota.message.startswith("2 x g4dn.xlarge need 8 vCPUs of 16")
    made = [one for one in lab.aws.operations if one.startswith(("Create", "Put", "Delete"))]
    assert made == ["CreatePolicy", *["CreateRole"] * len(ROLES)], "setup's"


def test_a_small_quota_has_its_name_in_the_console(lab):
    lab.aws.state.quotas["L-3819A6DF"] = 4.0
    plan = planned(offer="aws/g4dn.xlarge/us-west-2/spot", nodes=2)
    quota = found(lab, plan)["quota All G and VT Spot Instance Requests in us-west-2"]
    assert (quota.status, quota.is_quota) == ("missing", True)
    assert "need 8 vCPUs, and the limit is 4; request 8 or more of L-3819A6DF" in quota.message


def test_a_quota_without_a_value_is_unknown(lab):
    (quota,) = (one for name, one in found(lab, planned()).items() if "quota" in name)
    assert quota.status == "unknown"


def test_the_launchers_policy_is_enough_with_its_conditions(lab):
    lab.aws.grants = [document("policy.json")]
    assert found(lab)["AWS permissions"].status == "ok"
    lab.aws.grants = [document("setup-policy.json"), *READ_ONLY]
    assert "eks:CreateCluster, eks:CreateNodegroup" in found(lab)["AWS permissions"].message


def test_each_missing_permission_is_named_on_each_page_of_the_simulation(lab):
    actions = max((one["Action"] for one in document("policy.json")["Statement"]), key=len)
    assert len(actions) > PAGE
    denied = sorted({"eks:CreateCluster", "s3:PutObject", actions[-1]})
    lab.aws.state.denied |= set(denied)
    rights = found(lab)["AWS permissions"]
    assert rights.status == "missing"
    assert f"may not: {', '.join(denied)};" in rights.message


def test_permissions_that_iam_does_not_simulate_are_unknown(lab):
    lab.aws.fault("SimulatePrincipalPolicy", "AccessDenied", status=403)
    assert found(lab)["AWS permissions"].status == "unknown"


def test_an_account_without_setup_gets_the_setup_command(aws, lab):
    aws.reset()
    roles = found(lab)["AWS roles"]
    assert roles.status == "missing"
    assert "cloudgan setup --provider=aws" in roles.message


def test_a_region_that_cannot_serve_it_is_missing(lab):
    lab.aws.state.networks["us-east-1"].subnets.clear()
    place = found(lab, planned())["AWS network in us-east-1"]
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
    lab.create_cluster("physics")
    plane = lab.aws.state.planes["us-east-1", "physics"]
    plane.status = "ACTIVE"
    if values:
        plane.add_ons["vpc-cni"] = {"addonName": "vpc-cni", "configurationValues": values}
    policy = found(lab, planned(rent={"cluster": "physics"}))["NetworkPolicy in us-east-1/physics"]
    assert policy.status == status
    assert message in policy.message


def test_check_says_that_deploy_enforces_policies_in_its_own_cluster(lab):
    policy = found(lab, planned())["NetworkPolicy in us-east-1/cloudgan"]
    assert (policy.status, "`deploy` switches it on" in policy.message) == ("ok", True)
