"""`AwsClient`: creation, listing in all regions, deletion and errors."""

from __future__ import annotations

import json
import re

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
    ResourcesLeftError,
)
from cloudgan.launch.clouds.aws.bodies import schedule_group
from cloudgan.launch.clouds.aws.naming import ROLES
from cloudgan.launch.clouds.engine import Engine, names_of_gone
from cloudgan.schema.plan import fill_placeholders
from emulators.aws.faults import Fault
from launch.clouds.aws.lab import POLL_SECONDS, T4, planned

LOST = "Could not launch On-Demand Instances. {} Launching EC2 instance failed."
STOCK_OUT = LOST.format(
    "InsufficientInstanceCapacity - We currently do not have sufficient g4dn.xlarge capacity in the"
    " Availability Zone you requested (us-east-1a)."
)
NO_QUOTA = LOST.format(
    "VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit of 0 allows."
)
NO_SPOT = (
    "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count"
    " exceeded. Launching EC2 instance failed."
)
# The texts of terraform-aws-modules/terraform-aws-eks#2565 and aws/karpenter-provider-aws#7998, and EC2's.
NO_ROLE = LOST.format(
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted - The provided credentials do not have"
    " permission to create the service-linked role for EC2 Spot Instances."
)
NEW_ACCOUNT = LOST.format(
    "PendingVerification - Your request for accessing resources in this region is being validated,"
    " and you will not be able to launch additional resources in this region until it is complete."
)
NOT_ALLOWED = LOST.format(
    "UnauthorizedOperation - You are not authorized to perform this operation."
)
WRONG_TYPE = LOST.format(
    "InvalidParameterValue - The architecture 'arm64' of the type does not match the AMI."
)
NEW_PROFILE = LOST.format(
    "InvalidParameterValue - Value (eks-1) for parameter iamInstanceProfile.name is invalid. Invalid"
    " IAM Instance Profile name"
)
BUCKET = "us-east-1/cloudgan-123456789012-us-east-1"


def step_of(plan, operation):
    """The first step of a plan that asks for an operation."""
    return next(one for one in plan.steps if one.method == operation)


def removed(lab, plan):
    provider = lab.provider(lab.cloud(), plan)
    return list(provider.destroy(plan.run))


def test_a_run_is_provisioned_listed_and_destroyed_completely(whole_lab):
    plan = whole_lab.deploy(planned(nodes=2))
    resources = {one.kind: one for one in whole_lab.cloud().list_resources()}
    pool = resources["EKS node group"]
    assert (pool.run, pool.nodes, pool.node_type, pool.market) == (
        "gan",
        2,
        "g4dn.xlarge",
        "on_demand",
    )
    assert resources["EKS cluster"].fee == "EKS standard support"
    assert pool.parent == resources["EKS cluster"].name == "us-east-1/cloudgan"
    provider = whole_lab.provider(whole_lab.cloud(), plan)
    assert provider.state("gan").phase == "running"
    assert len(provider.nodes("gan")) == 2
    gone = removed(whole_lab, plan)
    assert gone[-3:] == [
        f"EKS node group us-east-1/cloudgan/{plan.node_pool.name}",
        "EKS cluster us-east-1/cloudgan",
        f"EventBridge schedule group us-east-1/{schedule_group(plan)}",
    ]
    assert whole_lab.left() == []
    assert removed(whole_lab, plan) == []


@pytest.mark.slow
def test_a_new_cluster_may_refuse_connections_and_the_login_of_its_creator_at_first(whole_lab):
    whole_lab.aws.new_clusters_refuse = (0, 401, 403)
    plan = whole_lab.deploy(planned())
    (line,) = [line for line in whole_lab.said if "API of the new cluster" in line]
    assert "retrying for 300 s" in line
    phase = whole_lab.provider(whole_lab.cloud(), plan).state("gan").phase
    assert phase in ("starting", "running"), "its pods may still start"
    removed(whole_lab, plan)


def test_a_cluster_of_another_user_is_refused_before_nodes_are_created(whole_lab, monkeypatch):
    """EKS knows the creator of a cluster only: another principal gets 401."""
    monkeypatch.setattr("cloudgan.launch.lifecycle.provisioned_backend._NEW_CLUSTER_SECONDS", 0.1)
    whole_lab.create_cluster("cloudgan-theirs")
    whole_lab.cluster.trust(lambda _: None)
    with pytest.raises(CredentialsError, match="cloudgan-theirs: the cluster rejects") as refused:
        whole_lab.deploy(planned(rent={"cluster": "cloudgan-theirs"}))
    assert "aws eks create-access-entry" in str(refused.value)
    assert "CreateNodegroup" not in whole_lab.aws.operations
    assert whole_lab.left() == ["cluster us-east-1/cloudgan-theirs"]


def test_nodes_end_after_the_jobs_deadline(whole_lab):
    plan = whole_lab.deploy(planned(nodes=2, max_hours=3.0))
    whole_lab.aws.pass_time(3 * 3600)
    assert len(whole_lab.aws.state.groups()[0].machines) == 2, "the job may still need them"
    whole_lab.aws.pass_time(4 * 3600)
    assert whole_lab.aws.state.groups()[0].machines == []
    removed(whole_lab, plan)


def test_the_end_of_the_nodes_is_scheduled_before_they_start(whole_lab):
    whole_lab.deploy(planned())
    asked = whole_lab.aws.operations
    assert asked.index("PutScheduledUpdateGroupAction") < asked.index("UpdateNodegroupConfig")
    assert asked.count("PutScheduledUpdateGroupAction") == 1


def test_a_second_deploy_creates_nothing_and_a_second_run_shares_the_cluster(whole_lab):
    first = whole_lab.deploy(planned())
    whole_lab.aws.faults.calls.clear()
    whole_lab.deploy(planned())
    made = [one for one in whole_lab.aws.operations if one.startswith(("Create", "Update"))]
    assert made == []
    second = whole_lab.deploy(planned("other"))
    removed(whole_lab, first)
    assert any("other" in one for one in whole_lab.left())
    assert "cluster us-east-1/cloudgan" in whole_lab.left()
    removed(whole_lab, second)
    assert whole_lab.left() == []


@pytest.mark.parametrize(
    ("said", "is_capacity"),
    [
        pytest.param(STOCK_OUT, True, marks=pytest.mark.slow),
        pytest.param(NO_QUOTA, True, marks=pytest.mark.slow),
        pytest.param(NO_SPOT, True, marks=pytest.mark.slow),
        (NO_ROLE, False),
        (NEW_ACCOUNT, False),
        pytest.param(NOT_ALLOWED, False, marks=pytest.mark.slow),
        pytest.param(WRONG_TYPE, False, marks=pytest.mark.slow),
    ],
)
def test_instances_that_do_not_start_fail_at_once_with_awss_message(whole_lab, said, is_capacity):
    whole_lab.aws.state.sold_out["g4dn.xlarge"] = said
    plan = planned()
    with pytest.raises(LaunchError, match="failed: Could not launch") as refused:
        whole_lab.deploy(plan)
    assert said in str(refused.value)
    assert isinstance(refused.value, CapacityError) == is_capacity, "another zone would be tried"
    provider = whole_lab.provider(whole_lab.cloud(), whole_lab.resolved(plan))
    list(provider.deprovision("gan", "failed"))
    assert whole_lab.left() == []


CODES = (
    ("ResourceNotFoundException", "No cluster for name: InsufficientCapacity", LaunchError, ""),
    ("AccessDeniedException", "not authorized: VcpuLimitExceeded", CredentialsError, "policy.json"),
    ("ResourceLimitExceededException", "too many clusters", CapacityError, ""),
    ("ExpiredTokenException", "old", CredentialsError, "has expired"),
    ("UnrecognizedClientException", "who", CredentialsError, "does not recognise this login"),
    (
        "InvalidSignatureException",
        "x",
        CredentialsError,
        "secret key does not match the access key",
    ),
)


@pytest.mark.parametrize(("code", "said", "kind", "hint"), CODES)
def test_an_error_is_mapped_by_its_code_before_its_words(lab, code, said, kind, hint):
    lab.aws.faults.planned.append(Fault("CreateCluster", code, said, times=99, status=403))
    step = step_of(lab.resolved(planned()), "CreateCluster")
    with pytest.raises(kind, match=said) as refused:
        lab.cloud().create(step)
    assert isinstance(refused.value, CapacityError) == (kind is CapacityError)
    assert hint in str(refused.value)


@pytest.mark.parametrize(("minutes", "way"), [(9, "behind"), (-9, "ahead")])
def test_a_wrong_clock_is_reported(lab, minutes, way):
    step = step_of(lab.resolved(planned()), "CreateCluster")
    lab.aws.clock_minutes = minutes
    lab.aws.fault("DescribeCluster", "InvalidSignatureException", status=403)
    with pytest.raises(CredentialsError, match=f"9 min {way}"):
        lab.cloud().find(step)


def test_the_profile_of_a_new_role_is_waited_for(whole_lab):
    whole_lab.aws.state.sold_out["g4dn.xlarge"] = NEW_PROFILE
    limits = planned().limits.model_copy(update={"gang_timeout_seconds": 1})
    with pytest.raises(CapacityError, match="was not ready within 1 s"):
        whole_lab.deploy(planned().model_copy(update={"limits": limits}))


def test_a_failed_node_group_is_raised(lab):
    plan = lab.resolved(planned())
    cloud = lab.cloud()
    make_until(cloud, plan, "CreateNodegroup")
    (plane,) = lab.aws.state.planes.values()
    (pool,) = plane.pools.values()
    pool.status = "CREATE_FAILED"
    pool.issues.append(
        {"code": "AsgInstanceLaunchFailures", "message": STOCK_OUT, "resourceIds": ["eks-x"]}
    )
    (seen,) = [one for one in cloud.list_resources("gan") if one.kind == "EKS node group"]
    assert (seen.state, seen.cause) == ("failed", "capacity")
    assert "g4dn.xlarge" in seen.reason


def make_until(cloud, plan, operation):
    """Runs the steps of a plan up to one; waits for each resource."""
    for step in plan.steps:
        if step.at != "cloud":
            continue
        if cloud.find(step) is None:
            cloud.create(step)
        while (found := cloud.find(step)) is None or found.state != "ready":
            pass
        if step.method == operation:
            return


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "code", "status", "acts"),
    [
        ("CreateCluster", "ThrottlingException", 429, False),
        ("CreateCluster", "ServerException", 500, True),
        ("CreateNodegroup", "ServiceUnavailableException", 503, False),
        ("CreateNodegroup", "ServerException", 500, True),
        ("CreateScheduleGroup", "InternalServerException", 500, True),
        ("DescribeNodegroup", "ThrottlingException", 429, False),
        ("UpdateNodegroupConfig", "ThrottlingException", 429, False),
        ("UpdateNodegroupConfig", "ResourceInUseException", 409, False),
        ("CreatePodIdentityAssociation", "ServerException", 500, True),
    ],
)
def test_transient_errors_are_retried_without_duplicates(whole_lab, operation, code, status, acts):
    whole_lab.aws.fault(operation, code, status=status, acts=acts)
    plan = whole_lab.deploy(planned())
    (plane,) = whole_lab.aws.state.planes.values()
    assert (len(plane.pools), len(plane.identities)) == (1, 1)
    removed(whole_lab, plan)
    assert whole_lab.left() == []


def test_provisioning_waits_for_resources_that_appear_late(whole_lab):
    hidden = {"code": "ResourceNotFoundException", "status": 404}
    whole_lab.aws.fault("DescribeCluster", after="CreateCluster", times=2, **hidden)
    whole_lab.aws.fault("DescribeNodegroup", after="CreateNodegroup", times=2, **hidden)
    plan = whole_lab.deploy(planned())
    removed(whole_lab, plan)
    assert whole_lab.left() == []


def test_a_refused_deletion_is_retried(whole_lab):
    plan = whole_lab.deploy(planned())
    busy = {"code": "ResourceInUseException", "status": 409, "times": 2}
    whole_lab.aws.fault("DeleteNodegroup", **busy)
    whole_lab.aws.fault("DeleteCluster", **busy)
    removed(whole_lab, plan)
    assert whole_lab.left() == []
    assert any("cannot be deleted yet" in one for one in whole_lab.said)


def test_a_cluster_in_creation_has_no_api_yet(lab):
    plan = lab.resolved(planned())
    lab.aws.state.pending = 9
    cloud = lab.cloud()
    assert cloud.cluster_api(plan.target) is None
    cloud.create(step_of(plan, "CreateCluster"))
    assert cloud.cluster_api(plan.target) is None


def test_a_failed_creation_is_raised_and_deleted(lab):
    plan = lab.resolved(planned())
    lab.aws.state.pending = 3
    cloud = lab.cloud()
    create = step_of(plan, "CreateCluster")
    cloud.create(create)
    (plane,) = lab.aws.state.planes.values()
    plane.after = "FAILED"
    while (found := cloud.find(create)).state == "creating":
        pass
    assert found.state == "failed"
    cloud.delete(found)
    while cloud.refresh(found):
        pass
    assert lab.left() == []


def test_resources_in_other_regions_are_listed(lab):
    plan = lab.resolved(planned(offer="aws/g4dn.xlarge/us-west-2/on_demand"))
    make_until(lab.cloud(), plan, "CreateNodegroup")
    assert {one.region for one in lab.cloud().list_resources("gan")} == {"us-west-2"}


def test_regions_that_do_not_answer_are_named_and_the_rest_is_listed(lab):
    plan = lab.resolved(planned(offer="aws/g4dn.xlarge/us-west-2/on_demand"))
    make_until(lab.cloud(), plan, "CreateNodegroup")
    lab.aws.fault("DescribeVolumes", "ServiceUnavailable", times=10**6, status=503)
    lab.attempts = 1
    found = lab.cloud().list_resources("gan")
    assert {one.kind for one in found} >= {"EKS node group"}, "what the region answered before"
    assert {one.partition(" (")[0] for one in found.silent} == {
        "eu-west-1",
        "us-east-1",
        "us-west-2",
    }
    provider = lab.provider(lab.cloud(), plan)
    with pytest.raises(ResourcesLeftError, match=r"no answer from .*DescribeVolumes in us-west-2"):
        list(provider.destroy("gan"))
    assert not [one for one in lab.aws.state.left() if one.startswith("node group")]


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("DescribeRegions", "all regions but us-east-1"),
        ("GetRole", "IAM role"),
        ("ListBuckets", "S3 bucket"),
    ],
)
def test_a_service_that_does_not_answer_is_named_and_the_rest_is_listed(lab, operation, name):
    before = len(lab.cloud().list_resources())
    lab.aws.fault(operation, "ServiceUnavailable", times=10**6, status=503)
    lab.attempts = 1
    found = lab.cloud().list_resources()
    assert {one.partition(" (")[0] for one in found.silent} == {name}
    assert 0 < len(found) <= before


def test_a_run_is_deleted_by_requests_to_its_region_only(whole_lab):
    lab, plan = whole_lab, whole_lab.deploy(planned())
    lab.aws.faults.calls.clear()
    list(lab.provider(lab.cloud(), plan).destroy("gan"))
    regional = {call[1] for call in lab.aws.faults.calls if call[0] in ("ec2", "eks", "scheduler")}
    assert regional == {"us-east-1"}
    assert lab.left() == []


@pytest.mark.parametrize("operation", ["HeadBucket", "GetBucketTagging"])
def test_a_bucket_that_this_login_may_not_read_does_not_end_the_list(whole_lab, operation):
    whole_lab.deploy(planned())
    before = {one.name for one in whole_lab.cloud().list_resources()}
    whole_lab.aws.fault(operation, "AccessDenied", status=403, times=10**6)
    there = whole_lab.cloud().list_resources()
    assert {one.name for one in there} == before - {BUCKET}
    assert there.silent == ()
    assert any(f"cannot read S3 bucket {BUCKET}: " in one for one in whole_lab.said)


def test_a_denied_region_is_skipped_with_a_warning(lab):
    denied = {"code": "AccessDeniedException", "status": 403}
    lab.aws.fault("ListClusters", **denied, times=3)
    with pytest.raises(CredentialsError):
        lab.cloud().list_resources()
    lab.aws.faults.planned.clear()
    lab.aws.state.closed.add("eu-west-1")
    kinds = [one.kind for one in lab.cloud().list_resources()]
    assert kinds == [*["IAM role"] * len(ROLES), "IAM policy"]
    assert any("cannot list resources in eu-west-1" in one for one in lab.said)


def test_network_policies_are_enforced_before_a_created_cluster_has_nodes(whole_lab):
    whole_lab.deploy(planned())
    plane = whole_lab.aws.state.planes["us-east-1", "cloudgan"]
    plugin = plane.add_ons["vpc-cni"]
    assert json.loads(plugin["configurationValues"]) == {"enableNetworkPolicy": "true"}
    assert "status" not in plugin, "no conflict with the self-managed plugin of a new cluster"
    calls = whole_lab.aws.operations
    assert calls.index("CreateAddon") < calls.index("CreateNodegroup")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resolveConflicts": "PRESERVE"}, "preserve is not supported"),
        ({"configurationValues": '{"enableNetworkPolicy": true}'}, "string expected"),
        ({"configurationValues": '{"networkPolicy": "true"}'}, "not defined in the schema"),
    ],
)
def test_eks_refuses_a_network_plugin_with_invalid_settings(lab, settings, message):
    lab.create_cluster("physics")
    lab.aws.state.planes["us-east-1", "physics"].status = "ACTIVE"
    eks = lab.session.client("eks", "us-east-1")
    with pytest.raises(eks.exceptions.InvalidParameterException, match=message):
        eks.create_addon(clusterName="physics", addonName="vpc-cni", **settings)


def test_a_network_plugin_in_conflict_with_the_self_managed_one_fails(lab):
    lab.create_cluster("cloudgan", tags={"cloudgan-shared": "cluster"})
    lab.aws.state.planes["us-east-1", "cloudgan"].status = "ACTIVE"
    plan = lab.resolved(planned())
    step = step_of(plan, "CreateAddon")
    kept = {key: value for key, value in step.body.items() if key != "resolveConflicts"}
    provisioner = Engine(lab.cloud(), lab.said.append, 0.01)
    with pytest.raises(LaunchError, match="Conflicts found when trying to apply"):
        provisioner.ensure(step.model_copy(update={"body": kept}), plan)


def test_the_network_plugin_of_an_existing_cluster_is_left_alone(lab):
    lab.create_cluster("physics")
    lab.aws.state.planes["us-east-1", "physics"].status = "ACTIVE"
    plan = lab.resolved(planned(rent={"cluster": "physics"}))
    step = step_of(plan, "CreateAddon")
    assert not Engine(lab.cloud(), lab.said.append, 0.01).ensure(step, plan)
    assert lab.aws.state.planes["us-east-1", "physics"].add_ons == {}


def test_an_existing_cluster_is_used_and_never_deleted(whole_lab):
    aws = whole_lab.aws
    whole_lab.create_cluster("physics")
    aws.tie(whole_lab.cluster, name="physics")
    plan = whole_lab.deploy(planned(rent={"cluster": "physics"}))
    removed(whole_lab, plan)
    assert aws.state.left() == ["cluster us-east-1/physics"]
    kept = {one.kind for one in whole_lab.cloud().list_resources()}
    assert {"EKS add-on", "EKS pod identity"} <= kept, "free, and for the next run"


def test_a_bucket_of_another_account_is_refused(lab):
    lab.aws.foreign_buckets.add("cloudgan-123456789012-us-east-1")
    plan = lab.resolved(planned())
    with pytest.raises(ConfigError, match="belongs to another account"):
        lab.cloud().find(plan.steps[0])


@pytest.mark.parametrize(
    ("node_type", "silent", "why"),
    [
        ("p4de.24xlarge", 0, "us-east-1 has no p4de.24xlarge; --region can be: us-west-2"),
        ("p4d.24xlarge", 0, "AWS: no region has p4d.24xlarge; pass another --accelerator"),
        ("p4d.24xlarge", 1, "no region that answered has p4d.24xlarge; no answer: eu-west-1$"),
        ("p5.48xlarge", 0, r"no subnet in --zone=us-east-1c .* \(us-east-1b\)"),
        ("g4dn.xlarge", None, "Create default VPC"),
    ],
)
def test_a_place_that_cannot_serve_is_refused_with_alternatives(lab, node_type, silent, why):
    if silent is None:
        lab.aws.state.networks["us-east-1"].subnets.clear()
    denied = {"code": "UnauthorizedOperation", "status": 403, "times": silent or 0}
    lab.aws.fault("DescribeInstanceTypeOfferings", after="DescribeRegions", **denied)
    zone = "us-east-1c" if node_type == "p5.48xlarge" else None
    offer = f"aws/{node_type}/us-east-1/on_demand"
    with pytest.raises(PlanError, match=why):
        lab.cloud().resolve_placeholders(planned(offer=offer, rent={"zone": zone}))


def test_the_zone_offers_the_instance_type(lab):
    known = lab.cloud().resolve_placeholders(planned(offer="aws/p5.48xlarge/us-east-1/on_demand"))
    assert known["<zone>"] == known["<zones>"] == "us-east-1b"
    assert known["<subnet>"] != known["<second_subnet>"]


def test_each_zone_that_offers_the_instance_type_has_its_subnet(lab):
    zones = lab.cloud().resolve_placeholders(planned())["<zones>"].split()
    assert zones == ["us-east-1a", "us-east-1b", "us-east-1c"]
    chosen = [lab.resolved(planned(rent={"zone": zone})).target for zone in zones]
    assert [one.zone for one in chosen] == zones
    assert len({one.details["subnet"] for one in chosen}) == 3


def test_a_plan_for_another_account_is_refused(lab):
    with pytest.raises(CredentialsError, match="not to 999999999999"):
        lab.cloud().resolve_placeholders(planned(rent={"account": "999999999999"}))


def test_only_values_known_at_creation_stay_placeholders(lab):
    plan = fill_placeholders(planned(offer=T4), lab.cloud().resolve_placeholders(planned()))
    text = "".join(
        step.model_dump_json() for step in lab.resolved(plan).steps if step.at == "cloud"
    )
    assert "<" not in text
    markers = re.findall(r'{"\$(\w+)":("?[\w.]+)', text)
    assert [*dict.fromkeys(markers)] == [
        ("after_seconds", "92440"),  # the cluster's first and last scheduled deletion
        ("after_seconds", "178840"),
        ("ref", '"node_group.autoscaling_group'),
        ("after_seconds", "87340"),  # nodes to zero
    ]


def test_network_resources_of_a_deleted_cluster_are_listed_and_deleted(lab):
    network = lab.aws.state.networks["us-west-2"]
    tag = {"Key": "cluster.k8s.amazonaws.com/name", "Value": "cloudgan"}
    other = tag | {"Value": "physics"}
    network.cards = [
        {"NetworkInterfaceId": "eni-1", "Status": "available", "TagSet": [tag]},
        {"NetworkInterfaceId": "eni-2", "Status": "in-use", "TagSet": [tag]},
        {"NetworkInterfaceId": "eni-3", "Status": "available", "TagSet": [other]},
    ]
    cloud = lab.cloud()
    (left,) = [one for one in cloud.list_resources() if one.shared == "leftover"]
    assert (left.kind, left.name, left.is_free) == ("network interface", "us-west-2/eni-1", True)
    cloud.delete(left)
    assert cloud.refresh(left) is None
    cloud.delete(left)
    assert [one["NetworkInterfaceId"] for one in network.cards] == ["eni-2", "eni-3"]
    group = {"GroupId": "sg-1", "Tags": [{"Key": "aws:eks:cluster-name", "Value": "cloudgan"}]}
    network.security_groups = [group]
    (left,) = [one for one in cloud.list_resources() if one.shared == "leftover"]
    with pytest.raises(LaunchError, match="dependent object"):
        cloud.delete(left)


def left_node(name, pool="gan-0a1b", cluster="cloudgan"):
    tags = {"eks:cluster-name": cluster, "eks:nodegroup-name": pool}
    return {
        "InstanceId": name,
        "InstanceType": "g4dn.xlarge",
        "State": {"Code": 16, "Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def left_volume(name, state):
    tags = [{"Key": "eks:cluster-name", "Value": "cloudgan"}]
    return {"VolumeId": name, "State": state, "Size": 100, "VolumeType": "gp3", "Tags": tags}


def test_instances_and_volumes_without_their_node_group_are_listed_priced_and_deleted(lab):
    """The tags of a node group do not reach its instances, so no label of cloudgan's finds them."""
    network = lab.aws.state.networks["us-west-2"]
    network.instances = [left_node("i-1"), left_node("i-2", cluster="physics")]
    network.volumes = [left_volume("vol-1", "available"), left_volume("vol-2", "in-use")]
    cloud = lab.cloud()
    left = {one.name: one for one in cloud.list_resources() if one.shared == "leftover"}
    assert left.keys() == {"us-west-2/i-1", "us-west-2/vol-1"}
    node = left["us-west-2/i-1"]
    assert (node.kind, node.node_type, node.nodes) == ("EC2 instance", "g4dn.xlarge", 1)
    for one in left.values():
        assert not one.is_free
        cloud.delete(one)
        assert cloud.refresh(one) is None
        cloud.delete(one)
    assert network.instances[0]["State"]["Name"] == "terminated"
    assert [one["VolumeId"] for one in network.volumes] == ["vol-2"]


def test_instances_of_a_node_group_that_exists_are_not_left_over(lab):
    cloud, plan = lab.cloud(), lab.resolved(planned())
    make_until(cloud, plan, "CreateNodegroup")
    nodes = [left_node("i-1", plan.node_pool.name), left_node("i-2", "old")]
    lab.aws.state.networks["us-east-1"].instances = nodes
    found = [one.name for one in cloud.list_resources() if one.kind == "EC2 instance"]
    assert found == ["us-east-1/i-2"]


def test_resources_with_cloudgans_names_but_without_its_tags_are_ignored(lab):
    iam = lab.session.client("iam")
    iam.delete_role(RoleName="cloudgan-pods")
    iam.create_role(RoleName="cloudgan-pods", AssumeRolePolicyDocument="{}")
    cloud = lab.cloud()
    assert [one.name for one in cloud.list_resources()] == [
        "cloudgan-cluster",
        "cloudgan-nodes",
        "cloudgan-end",
        "arn:aws:iam::123456789012:policy/cloudgan-boundary",
    ]
    list(
        names_of_gone(
            Engine(cloud, lab.said.append, POLL_SECONDS, gone_seconds=5.0).destroy(
                cloud.list_resources()
            )
        )
    )
    assert iam.get_role(RoleName="cloudgan-pods")["Role"]


def test_identify_returns_the_account_and_a_missing_login_is_an_error(lab, monkeypatch):
    from cloudgan.launch.clouds.aws.login import open_session

    assert lab.cloud().identify()["account"] == "123456789012"
    with pytest.raises(CredentialsError, match="AWS_ACCESS_KEY_ID"):
        open_session(None, "us-east-1")
    with pytest.raises(CredentialsError, match="profile"):
        open_session("missing", "us-east-1")
