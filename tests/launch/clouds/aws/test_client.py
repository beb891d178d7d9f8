"""`AwsClient`: creation, listing in all regions, deletion and errors."""

import json
import re

import pytest

from cloudgan.core.errors import CapacityError, CredentialsError, LaunchError, PlanError
from cloudgan.launch.clouds.aws.naming import ROLES
from launch.clouds.aws.lab import aws_plan
from launch.clouds.test_errors import NOT_STARTED, aws_says

BUCKET = "us-east-1/cloudgan-123456789012-us-east-1"


@pytest.mark.slow
def test_a_new_cluster_may_refuse_connections_and_the_login_of_its_creator_at_first(whole_lab):
    whole_lab.aws.new_clusters_refuse = (0, 401, 403)
    whole_lab.deploy()
    (line,) = [line for line in whole_lab.said if "API of the new cluster" in line]
    assert re.search(r"retrying for (300|29\d) s", line)
    assert whole_lab.launcher().state("gan").phase in ("starting", "running")


def test_the_end_of_the_nodes_is_scheduled_before_they_start_and_follows_the_deadline(lab):
    lab.make(nodes=2, max_hours=3.0)
    lab.aws.pass_time(3 * 3600)
    assert len(lab.aws.state.groups()[0].machines) == 2, "the job may still need them"
    lab.aws.pass_time(4 * 3600)
    assert lab.aws.state.groups()[0].machines == []
    asked = lab.aws.operations
    assert asked.index("PutScheduledUpdateGroupAction") < asked.index("UpdateNodegroupConfig")
    assert asked.count("PutScheduledUpdateGroupAction") == 1


@pytest.mark.parametrize(("minutes", "way"), [(9, "behind"), (-9, "ahead")])
def test_a_wrong_clock_is_reported(lab, minutes, way):
    step = lab.step("CreateCluster")
    lab.aws.clock_minutes = minutes
    lab.aws.fault("DescribeCluster", "InvalidSignatureException", status=403)
    with pytest.raises(CredentialsError, match=f"9 min {way}"):
        lab.cloud().find(step)


def test_the_profile_of_a_new_role_is_waited_for(lab):
    said = "Value (eks-1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    aws_says("InvalidParameterValue", said)[0](lab)
    with pytest.raises(CapacityError, match="was not ready within 1 s"):
        lab.make(gang_timeout_seconds=1)


def test_a_failed_node_group_is_raised(lab):
    lab.make()
    (plane,) = lab.aws.state.planes.values()
    (pool,) = plane.pools.values()
    pool.status, why = "CREATE_FAILED", f"{NOT_STARTED[0][1]} - {NOT_STARTED[0][2]}"
    pool.issues.append(
        {"code": "AsgInstanceLaunchFailures", "message": why, "resourceIds": ["eks-x"]}
    )
    (seen,) = [one for one in lab.cloud().list_resources("gan") if one.kind == "EKS node group"]
    assert (seen.state, seen.cause) == ("failed", "capacity")
    assert "g4dn.xlarge" in seen.reason


def test_a_cluster_in_creation_has_no_api_yet(lab):
    plan = lab.plan()
    lab.aws.state.pending = 9
    cloud = lab.cloud()
    assert cloud.cluster_api(plan.target) is None
    cloud.create(lab.step("CreateCluster", plan))
    assert cloud.cluster_api(plan.target) is None


def test_a_failed_creation_is_raised_and_deleted(lab):
    plan = lab.plan()
    lab.aws.state.pending = 3
    cloud = lab.cloud()
    create = lab.step("CreateCluster", plan)
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
    lab.make(region="us-west-2")
    assert {one.region for one in lab.cloud().list_resources("gan")} == {"us-west-2"}


def test_a_run_is_deleted_by_requests_to_its_region_only(whole_lab):
    lab = whole_lab
    lab.deploy()
    lab.aws.calls.clear()
    assert lab.down() == []
    regional = {call[1] for call in lab.aws.calls if call[0] in ("ec2", "eks", "scheduler")}
    assert regional == {"us-east-1"}


@pytest.mark.parametrize("operation", ["HeadBucket", "GetBucketTagging"])
def test_a_bucket_that_this_login_may_not_read_does_not_end_the_list(lab, operation):
    lab.make()
    before = {one.name for one in lab.cloud().list_resources()}
    lab.aws.fault(operation, "AccessDenied", status=403, times=10**6)
    there = lab.cloud().list_resources()
    assert {one.name for one in there} == before - {BUCKET}
    assert there.silent == ()
    assert any(f"cannot read S3 bucket {BUCKET}: " in one for one in lab.said)


@pytest.mark.parametrize(
    ("code", "silent"), [("AccessDeniedException", ()), ("ExpiredTokenException", ("eu-west-1",))]
)
def test_a_denied_region_is_skipped_with_a_warning_and_an_expired_login_denies_none(
    lab, code, silent
):
    denied = {"code": "AccessDeniedException", "status": 403}
    lab.aws.fault("ListClusters", **denied, times=3)
    with pytest.raises(CredentialsError):
        lab.cloud().list_resources()
    lab.aws.faults.planned.clear()
    lab.aws.state.closed["eu-west-1"] = code
    found = lab.cloud().list_resources()
    assert [one.kind for one in found] == [*["IAM role"] * len(ROLES), "IAM policy"]
    assert tuple(one.partition(" (")[0] for one in found.silent) == silent
    assert any("cannot list resources in eu-west-1" in one for one in lab.said)


def test_network_policies_are_enforced_before_a_created_cluster_has_nodes(lab):
    lab.make()
    plane = lab.aws.state.planes["us-east-1", "cloudgan"]
    plugin = plane.add_ons["vpc-cni"]
    assert json.loads(plugin["configurationValues"]) == {"enableNetworkPolicy": "true"}
    assert "status" not in plugin, "no conflict with the self-managed plugin of a new cluster"
    calls = lab.aws.operations
    assert calls.index("CreateAddon") < calls.index("CreateNodegroup")


def test_an_existing_cluster_is_used_and_never_deleted(whole_lab):
    lab = whole_lab
    lab.create_cluster("physics", is_active=False)
    lab.aws.tie(lab.cluster, name="physics")
    lab.deploy(cluster="physics")
    add_ons = lab.aws.state.planes["us-east-1", "physics"].add_ons
    assert "vpc-cni" not in add_ons, "its network plugin is left alone"
    assert lab.down() == ["cluster us-east-1/physics"]
    kept = {one.kind for one in lab.cloud().list_resources()}
    assert {"EKS add-on", "EKS pod identity"} <= kept, "free, and for the next run"


def test_a_region_that_does_not_answer_may_have_the_instance_type(lab):
    denied = {"code": "UnauthorizedOperation", "status": 403}
    lab.aws.fault("DescribeInstanceTypeOfferings", after="DescribeRegions", **denied)
    why = "no region that answered has p4d.24xlarge; no answer: eu-west-1$"
    with pytest.raises(PlanError, match=why):
        lab.plan("p4d.24xlarge")


def test_a_region_without_a_default_network_is_refused(lab):
    lab.aws.state.networks["us-east-1"].subnets.clear()
    with pytest.raises(PlanError, match="Create default VPC"):
        lab.plan()


def test_each_zone_that_offers_the_instance_type_has_its_subnet(lab):
    zones = lab.cloud().resolve_placeholders(aws_plan())["<zones>"].split()
    assert zones == ["us-east-1a", "us-east-1b", "us-east-1c"]
    chosen = [lab.plan(zone=zone).target for zone in zones]
    assert [one.zone for one in chosen] == zones
    assert len({one.details["subnet"] for one in chosen}) == 3


def test_a_plan_for_another_account_is_refused(lab):
    with pytest.raises(CredentialsError, match="not to 999999999999"):
        lab.cloud().resolve_placeholders(aws_plan(account="999999999999"))


CLUSTERS = pytest.mark.parametrize("cluster", ["cloudgan", "cloudgan-ann"])


@CLUSTERS
def test_network_resources_of_a_deleted_cluster_are_listed_and_deleted(lab, cluster):
    network = lab.aws.state.networks["us-west-2"]
    tag = {"Key": "cluster.k8s.amazonaws.com/name", "Value": cluster}
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
    group = {"GroupId": "sg-1", "Tags": [{"Key": "aws:eks:cluster-name", "Value": cluster}]}
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


def left_volume(name, state, cluster="cloudgan"):
    tags = [{"Key": "eks:cluster-name", "Value": cluster}]
    return {"VolumeId": name, "State": state, "Size": 100, "VolumeType": "gp3", "Tags": tags}


@CLUSTERS
def test_instances_and_volumes_without_their_node_group_are_listed_priced_and_deleted(lab, cluster):
    """The tags of a node group do not reach its instances, so no label of cloudgan's finds them."""
    network = lab.aws.state.networks["us-west-2"]
    network.instances = [left_node("i-1", cluster=cluster), left_node("i-2", cluster="cloudganx")]
    network.volumes = [left_volume("vol-1", "available", cluster)]
    network.volumes += [left_volume("vol-2", "in-use", cluster)]
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
    cloud, plan = lab.cloud(), lab.make()
    nodes = [left_node("i-1", plan.node_pool.name), left_node("i-2", "old")]
    lab.aws.state.networks["us-east-1"].instances = nodes
    found = [one.name for one in cloud.list_resources() if one.kind == "EC2 instance"]
    assert found == ["us-east-1/i-2"]


def test_what_node_groups_of_a_foreign_cluster_left_is_its_owners(lab):
    lab.create_cluster("cloudgan-ann")
    network = lab.aws.state.networks["us-east-1"]
    network.instances = [left_node("i-1", cluster="cloudgan-ann")]
    network.volumes = [left_volume("vol-1", "available", "cloudgan-ann")]
    assert not [one for one in lab.cloud().list_resources() if one.shared == "leftover"]


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
    lab.remove()
    assert iam.get_role(RoleName="cloudgan-pods")["Role"]


def test_identify_returns_the_account_and_a_missing_login_is_an_error(lab, monkeypatch):
    from cloudgan.launch.clouds.aws.login import open_session

    assert lab.cloud().identify()["account"] == "123456789012"
    with pytest.raises(CredentialsError, match="AWS_ACCESS_KEY_ID"):
        open_session(None, "us-east-1")
    with pytest.raises(CredentialsError, match="profile"):
        open_session("missing", "us-east-1")
