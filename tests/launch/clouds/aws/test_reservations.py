"""Reservations of AWS: queries before a launch, requests, and deletions."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError, PlanError
from cloudgan.launch.plan.build import all_steps
from launch.clouds.aws.lab import RESERVATION, planned
from launch.clouds.aws.used_permissions import document

P5 = "aws/p5.48xlarge/us-east-1/on_demand"


def reserved(name=RESERVATION, offer="aws/g4dn.xlarge/us-east-1/on_demand", zone=None, **others):
    return planned("gan", offer, rent={"reservation": name, "zone": zone}, **others)


def bodies(plan):
    return {step.method: step.body for step in plan.steps if step.at == "cloud"}


def test_a_node_group_uses_the_reservation_by_a_launch_template_of_the_run(lab, aws):
    aws.state.reserve(RESERVATION, "g4dn.xlarge", 2, "us-east-1b")
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


def test_a_capacity_block_has_its_market_type_and_an_unknown_price(lab, aws):
    end = dt.datetime.now(dt.UTC) + dt.timedelta(hours=30)
    how = {"ReservationType": "capacity-block", "EndDate": end}
    aws.state.reserve(RESERVATION, "p5.48xlarge", 1, "us-east-1b", **how)
    plan = lab.resolved(reserved(f"block:{RESERVATION}", P5))
    sent = bodies(plan)
    data = sent["CreateLaunchTemplate"]["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert sent["CreateNodegroup"]["capacityType"] == "CAPACITY_BLOCK"
    assert plan.node_pool.prepaid
    assert "no API of AWS states its price" in plan.node_pool.notes[-1]


REFUSED = (
    (None, {}, "has no capacity reservation cr-0123456789abcdef0 in us-east-1"),
    ({}, {"zone": "us-east-1a"}, "is in us-east-1b: give --zone=us-east-1b"),
    ({"AvailableInstanceCount": 1}, {"nodes": 2}, "has 1 free instances, and the run needs 2"),
    ({"State": "expired"}, {}, "is expired, not active"),
)


def test_a_reservation_that_cannot_serve_is_refused_before_anything_is_made(lab, aws):
    for there, asked, why in REFUSED:
        if there is not None:
            aws.state.reserve(RESERVATION, "g4dn.xlarge", 4, "us-east-1b", **there)
        with pytest.raises(PlanError, match=why):
            lab.resolved(reserved(**asked))
    assert aws.state.left() == []


@pytest.mark.parametrize("name", ["week", "cr-", "cr-XYZ", "block:", "block:week", "cr-0123/../x"])
def test_what_is_no_id_of_a_reservation_is_bad_input(name):
    with pytest.raises(ConfigError, match="cr-0123456789abcdef0"):
        reserved(name)


def test_the_template_is_listed_with_the_run_and_deleted_after_the_nodes(lab, aws):
    aws.state.reserve(RESERVATION, "g4dn.xlarge", 2, "us-east-1b")
    cloud, plan = lab.cloud(), lab.resolved(reserved())
    template = next(one for one in plan.steps if one.method == "CreateLaunchTemplate")
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
    aws.state.reserve(RESERVATION, "g4dn.xlarge", 2, "us-east-1b")
    plan = lab.resolved(reserved())
    aws.grants = [document("policy.json")]
    template = next(one for one in plan.steps if one.method == "CreateLaunchTemplate")
    with pytest.raises(CredentialsError, match="CreateLaunchTemplate"):
        lab.cloud().create(template)
    assert aws.state.left() == []


def test_the_emulator_refuses_a_node_group_with_an_instance_type_in_both_places(lab, aws):
    aws.state.reserve(RESERVATION, "g4dn.xlarge", 2, "us-east-1b")
    lab.create_cluster("cloudgan")
    aws.state.planes["us-east-1", "cloudgan"].status = "ACTIVE"
    plan = lab.resolved(reserved())
    by_name = {one.method: one for one in all_steps(plan)}
    lab.cloud().create(by_name["CreateLaunchTemplate"])
    pool = by_name["CreateNodegroup"]
    for wrong in ({"instanceTypes": ["g4dn.xlarge"]}, {"diskSize": 100}):
        with pytest.raises(LaunchError, match=r"[Ll]aunch template"):
            lab.cloud().create(pool.model_copy(update={"body": pool.body | wrong}))
    lab.cloud().create(pool)
    (found,) = [one for one in lab.cloud().list_resources("gan") if one.kind == "EKS node group"]
    assert found.node_type == "g4dn.xlarge", "EKS does not show the instance type of a template"
