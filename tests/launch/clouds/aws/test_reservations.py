"""Reservations of AWS: queries before a launch, requests, and deletions."""

import datetime as dt

import pytest

from cloudgan.core.errors import CredentialsError
from launch.clouds.aws.lab import RESERVATION, aws_plan
from launch.clouds.aws.used_permissions import document
from launch.clouds.lab import of_cloud


def reserved(name=RESERVATION, node_type="", **others):
    return aws_plan(node_type, reservation=name, **others)


def bodies(plan):
    return {step.method: step.body for step in of_cloud(plan)}


def test_a_node_group_uses_the_reservation_by_a_launch_template_of_the_run(lab):
    lab.reserve()
    plan = lab.resolved(reserved(nodes=2))
    assert plan.target.zone == "us-east-1b"
    assert lab.cloud().resolve_placeholders(reserved())["<zones>"] == "us-east-1b"
    sent = bodies(plan)
    data = sent["CreateLaunchTemplate"]["LaunchTemplateData"]
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": RESERVATION}
    }
    assert "InstanceMarketOptions" not in data
    pool = sent["CreateNodegroup"]
    assert not {"diskSize", "instanceTypes"} & set(pool)
    assert pool["capacityType"] == "ON_DEMAND"
    order = [step.method for step in plan.steps if step.at == "cloud"]
    assert order.index("CreateLaunchTemplate") < order.index("CreateCluster"), "free, so first"


def test_a_capacity_block_has_its_market_type_and_an_unknown_price(lab):
    end = dt.datetime.now(dt.UTC) + dt.timedelta(hours=30)
    how = {"ReservationType": "capacity-block", "EndDate": end}
    lab.reserve(1, "p5.48xlarge", **how)
    plan = lab.resolved(reserved(f"block:{RESERVATION}", "p5.48xlarge"))
    sent = bodies(plan)
    data = sent["CreateLaunchTemplate"]["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert sent["CreateNodegroup"]["capacityType"] == "CAPACITY_BLOCK"
    assert plan.node_pool.prepaid
    assert "no API of AWS states its price" in plan.node_pool.notes[-1]


def test_the_template_is_listed_with_the_run_and_deleted_after_the_nodes(lab, aws):
    lab.reserve()
    cloud, plan = lab.cloud(), lab.resolved(reserved())
    template = lab.step("CreateLaunchTemplate", plan)
    cloud.create(template)
    cloud.create(template)  # a lost response
    (found,) = cloud.list_resources("gan")
    assert (found.kind, found.is_free) == ("EC2 launch template", True)
    assert cloud.refresh(found) == found
    cloud.delete(found)
    cloud.delete(found)
    assert cloud.refresh(found) is None
    assert aws.state.left() == []


def test_another_reservation_of_the_same_run_has_another_template():
    names = {
        bodies(reserved(name))["CreateLaunchTemplate"]["LaunchTemplateName"]
        for name in (RESERVATION, "cr-0000000000000001")
    }
    assert len(names) == 2


def test_a_launcher_without_the_policy_for_reservations_is_refused_before_the_cluster(lab, aws):
    lab.reserve()
    plan = lab.resolved(reserved())
    aws.grants = [document("policy.json")]
    template = lab.step("CreateLaunchTemplate", plan)
    with pytest.raises(CredentialsError, match="CreateLaunchTemplate"):
        lab.cloud().create(template)
    assert aws.state.left() == []


def test_a_node_group_of_a_template_has_its_instance_type_which_eks_does_not_show(lab):
    lab.reserve()
    lab.make(reserved())
    (found,) = [one for one in lab.cloud().list_resources("gan") if one.kind == "EKS node group"]
    assert found.node_type == "g4dn.xlarge"
