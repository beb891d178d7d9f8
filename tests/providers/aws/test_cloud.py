"""One account: what is made is found, listed in all regions, and goes; what goes wrong is told."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import (
    CapacityError,
    ConfigError,
    CredentialsError,
    LaunchError,
    PlanError,
)
from cloudgan.core.plan import filled
from cloudgan.launching.removing import Remover
from providers.aws.lab import POLL_SECONDS, T4, built, planned

STOCK_OUT = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have"
    " sufficient g4dn.xlarge capacity in the Availability Zone you requested (us-east-1a)."
    " Launching EC2 instance failed."
)
NO_QUOTA = (
    "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity"
    " than your current vCPU limit of 0 allows. Launching EC2 instance failed."
)
NO_SPOT = (
    "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count"
    " exceeded. Launching EC2 instance failed."
)


def removed(lab, plan):
    provider = lab.provider(lab.cloud(), plan)
    return list(provider.remove(plan.run))


def test_a_run_is_made_seen_and_removed_without_a_trace(whole_lab):
    plan = whole_lab.deploy(planned(nodes=2))
    things = {one.kind: one for one in whole_lab.cloud().things()}
    pool = things["EKS node group"]
    assert (pool.run, pool.nodes, pool.node_type, pool.market) == (
        "gan",
        2,
        "g4dn.xlarge",
        "on_demand",
    )
    assert things["EKS cluster"].fee == "EKS standard support"
    assert pool.parent == things["EKS cluster"].name == "us-east-1/cloudgan"
    provider = whole_lab.provider(whole_lab.cloud(), plan)
    assert provider.state("gan").phase == "running"
    assert len(provider.nodes("gan")) == 2
    gone = removed(whole_lab, plan)
    assert gone[-2:] == [
        f"EKS node group us-east-1/cloudgan/{plan.rental.pool}",
        "EKS cluster us-east-1/cloudgan",
    ]
    assert whole_lab.left() == []
    assert removed(whole_lab, plan) == []


def test_nodes_end_by_themselves_after_the_jobs_deadline(whole_lab):
    plan = whole_lab.deploy(planned(nodes=2, max_hours=3.0))
    whole_lab.aws.pass_time(3 * 3600)
    assert len(whole_lab.aws.state.groups()[0].machines) == 2, "the job may still need them"
    whole_lab.aws.pass_time(4 * 3600)
    assert whole_lab.aws.state.groups()[0].machines == []
    removed(whole_lab, plan)


def test_no_machine_comes_before_its_end_is_arranged(whole_lab):
    whole_lab.deploy(planned())
    asked = whole_lab.aws.operations
    assert asked.index("PutScheduledUpdateGroupAction") < asked.index("UpdateNodegroupConfig")
    assert asked.count("PutScheduledUpdateGroupAction") == 1


def test_a_second_deploy_makes_nothing_and_a_second_run_shares_the_cluster(whole_lab):
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
    ("said", "cause"),
    [(STOCK_OUT, "sufficient"), (NO_QUOTA, "vCPU limit"), (NO_SPOT, "spot instance count")],
)
def test_machines_that_are_not_to_be_had_end_the_try_at_once_with_the_clouds_own_words(
    whole_lab, said, cause
):
    whole_lab.aws.state.sold_out["g4dn.xlarge"] = said
    with pytest.raises(CapacityError, match=f"failed: .*{cause}"):
        whole_lab.deploy(planned())
    plan = whole_lab.resolved(planned())
    provider = whole_lab.provider(whole_lab.cloud(), plan)
    list(provider.release("gan", "failed"))
    assert whole_lab.left() == []


def test_a_node_group_that_eks_gave_up_is_told(lab):
    plan = lab.resolved(planned())
    cloud = lab.cloud()
    make_until(cloud, plan, "CreateNodegroup")
    (plane,) = lab.aws.state.planes.values()
    (pool,) = plane.pools.values()
    pool.status = "CREATE_FAILED"
    pool.issues.append(
        {"code": "AsgInstanceLaunchFailures", "message": STOCK_OUT, "resourceIds": ["eks-x"]}
    )
    (seen,) = cloud.things("gan")
    assert (seen.state, seen.cause) == ("failed", "capacity")
    assert "g4dn.xlarge" in seen.why


def make_until(cloud, plan, operation):
    """Does the steps of a plan up to one, each until it is there."""
    for step in plan.steps:
        if step.at != "cloud":
            continue
        if cloud.find(step) is None:
            cloud.create(step)
        while (found := cloud.find(step)) is None or found.state != "ready":
            pass
        if step.method == operation:
            return


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("ExpiredTokenException", 403, "has expired"),
        ("UnrecognizedClientException", 403, "does not know this login"),
        ("AccessDeniedException", 403, "deploy/aws/policy.json"),
    ],
)
def test_a_login_that_is_refused_says_what_to_do(lab, code, status, says):
    plan = lab.resolved(planned())
    lab.aws.fault("DescribeCluster", code, status=status)
    with pytest.raises(CredentialsError, match=says):
        lab.cloud().find(next(step for step in plan.steps if step.method == "CreateCluster"))


@pytest.mark.parametrize(("minutes", "way"), [(9, "behind"), (-9, "ahead")])
def test_a_wrong_clock_is_named(lab, minutes, way):
    plan = lab.resolved(planned())
    lab.aws.clock_minutes = minutes
    lab.aws.fault("DescribeCluster", "InvalidSignatureException", status=403)
    with pytest.raises(CredentialsError, match=f"9 min {way}"):
        lab.cloud().find(next(step for step in plan.steps if step.method == "CreateCluster"))


@pytest.mark.parametrize(
    "fault",
    [
        {"operation": "CreateCluster", "code": "ThrottlingException", "status": 429},
        {"operation": "CreateCluster", "code": "ServerException", "status": 500, "acts": True},
        {"operation": "CreateNodegroup", "code": "ServiceUnavailableException", "status": 503},
        {"operation": "CreateNodegroup", "code": "ServerException", "status": 500, "acts": True},
        {"operation": "DescribeNodegroup", "code": "ThrottlingException", "status": 429},
        {"operation": "UpdateNodegroupConfig", "code": "ThrottlingException", "status": 429},
        {"operation": "CreatePodIdentityAssociation", "code": "ServerException", "status": 500}
        | {"acts": True},
    ],
    ids=lambda fault: f"{fault['operation']}-{fault['code']}",
)
def test_what_passes_is_tried_again_and_made_once(whole_lab, fault):
    whole_lab.aws.fault(**fault)
    plan = whole_lab.deploy(planned())
    (plane,) = whole_lab.aws.state.planes.values()
    assert (len(plane.pools), len(plane.identities)) == (1, 1)
    removed(whole_lab, plan)
    assert whole_lab.left() == []


def test_a_thing_that_is_not_shown_for_a_while_is_waited_for(whole_lab):
    hidden = {"code": "ResourceNotFoundException", "status": 404}
    whole_lab.aws.fault("DescribeCluster", after="CreateCluster", times=2, **hidden)
    whole_lab.aws.fault("DescribeNodegroup", after="CreateNodegroup", times=2, **hidden)
    plan = whole_lab.deploy(planned())
    removed(whole_lab, plan)
    assert whole_lab.left() == []


def test_a_deletion_that_is_refused_for_a_while_is_asked_again(whole_lab):
    plan = whole_lab.deploy(planned())
    busy = {"code": "ResourceInUseException", "status": 409, "times": 2}
    whole_lab.aws.fault("DeleteNodegroup", **busy)
    whole_lab.aws.fault("DeleteCluster", **busy)
    removed(whole_lab, plan)
    assert whole_lab.left() == []
    assert any("cannot go yet" in one for one in whole_lab.said)


def test_a_cluster_that_is_being_made_has_no_api_yet(lab):
    plan = lab.resolved(planned())
    lab.aws.state.pending = 9
    cloud = lab.cloud()
    assert cloud.cluster(plan) is None
    cloud.create(next(step for step in plan.steps if step.method == "CreateCluster"))
    assert cloud.cluster(plan) is None


def test_a_creation_that_fails_in_the_middle_is_told_and_removed(lab):
    plan = lab.resolved(planned())
    lab.aws.state.pending = 3
    cloud = lab.cloud()
    create = next(step for step in plan.steps if step.method == "CreateCluster")
    cloud.create(create)
    (plane,) = lab.aws.state.planes.values()
    plane.after = "FAILED"
    while (found := cloud.find(create)).state == "making":
        pass
    assert found.state == "failed"
    cloud.delete(found)
    while cloud.look(found):
        pass
    assert lab.left() == []


def test_what_is_in_another_region_is_listed_too(lab):
    plan = lab.resolved(planned(offer="aws/g4dn.xlarge/us-west-2/on_demand"))
    make_until(lab.cloud(), plan, "CreateNodegroup")
    assert {one.region for one in lab.cloud().things("gan")} == {"us-west-2"}


def test_a_region_that_is_closed_to_the_account_is_told_and_passed_over(lab):
    denied = {"code": "AccessDeniedException", "status": 403}
    lab.aws.fault("ListClusters", **denied, times=3)
    with pytest.raises(CredentialsError):
        lab.cloud().things()
    lab.aws.faults.planned.clear()
    lab.aws.state.closed.add("eu-west-1")
    assert [one.kind for one in lab.cloud().things()] == ["IAM role"] * 3
    assert any("eu-west-1 could not be looked at" in one for one in lab.said)


def test_a_cluster_of_ones_own_is_used_and_never_deleted(whole_lab):
    aws = whole_lab.aws
    asked = {
        "name": "physics",
        "version": "1.34",
        "roleArn": "arn:aws:iam::123456789012:role/cloudgan-cluster",
    }
    network = {"subnetIds": [one["SubnetId"] for one in aws.state.networks["us-east-1"].subnets]}
    whole_lab.session.client("eks", "us-east-1").create_cluster(**asked, resourcesVpcConfig=network)
    aws.tie(whole_lab.cluster, name="physics")
    plan = whole_lab.deploy(planned(rent={"cluster": "physics"}))
    removed(whole_lab, plan)
    assert aws.state.left() == ["cluster us-east-1/physics"]
    kept = {one.kind for one in whole_lab.cloud().things()}
    assert {"EKS add-on", "EKS pod identity"} <= kept, "free, and for the next run"


def test_a_bucket_of_another_account_is_never_used(lab):
    lab.aws.foreign_buckets.add("cloudgan-123456789012-us-east-1")
    plan = lab.resolved(planned())
    with pytest.raises(ConfigError, match="not this account's"):
        lab.cloud().find(plan.steps[0])


def test_a_region_without_a_default_network_is_refused_with_a_way_out(lab):
    lab.aws.state.networks["us-east-1"].subnets.clear()
    with pytest.raises(PlanError, match="Create default VPC"):
        lab.cloud().known(planned())


def test_a_machine_that_a_region_or_a_zone_has_not_is_refused(lab):
    with pytest.raises(PlanError, match="has no p4d"):
        lab.cloud().known(planned(offer="aws/p4d.24xlarge/us-east-1/on_demand"))
    with pytest.raises(PlanError, match=r"no subnet in --zone=us-east-1c .* us-east-1b have"):
        lab.cloud().known(
            planned(offer="aws/p5.48xlarge/us-east-1/on_demand", rent={"zone": "us-east-1c"})
        )


def test_all_nodes_are_in_a_zone_that_has_them(lab):
    known = lab.cloud().known(planned(offer="aws/p5.48xlarge/us-east-1/on_demand"))
    assert known["<zone>"] == "us-east-1b"
    assert known["<subnet>"] != known["<second_subnet>"]


def test_another_account_than_the_logins_is_refused(lab):
    with pytest.raises(CredentialsError, match="999999999999 was asked for"):
        lab.cloud().known(planned(rent={"account": "999999999999"}))


def test_nothing_that_is_open_stays_open_but_what_only_the_moment_knows(lab):
    plan = filled(planned(offer=T4), lab.cloud().known(planned()))
    text = "".join(
        step.model_dump_json() for step in lab.resolved(plan).steps if step.at == "cloud"
    )
    found = {part.partition(">")[0] for part in text.split("<")[1:]}
    assert found == {"now + 87340 s", "autoscaling group of the node group"}


def test_what_a_dead_cluster_left_in_its_network_is_found_and_goes(lab):
    network = lab.aws.state.networks["us-west-2"]
    tag = {"Key": "cluster.k8s.amazonaws.com/name", "Value": "cloudgan"}
    other = tag | {"Value": "physics"}
    network.cards = [
        {"NetworkInterfaceId": "eni-1", "Status": "available", "TagSet": [tag]},
        {"NetworkInterfaceId": "eni-2", "Status": "in-use", "TagSet": [tag]},
        {"NetworkInterfaceId": "eni-3", "Status": "available", "TagSet": [other]},
    ]
    cloud = lab.cloud()
    (left,) = [one for one in cloud.things() if one.shared == "leftover"]
    assert (left.kind, left.name, left.is_free) == ("network interface", "us-west-2/eni-1", True)
    cloud.delete(left)
    assert cloud.look(left) is None
    cloud.delete(left)
    assert [one["NetworkInterfaceId"] for one in network.cards] == ["eni-2", "eni-3"]
    group = {"GroupId": "sg-1", "Tags": [{"Key": "aws:eks:cluster-name", "Value": "cloudgan"}]}
    network.security_groups = [group]
    (left,) = [one for one in cloud.things() if one.shared == "leftover"]
    with pytest.raises(LaunchError, match="dependent object"):
        cloud.delete(left)


IMAGE_THINGS = {
    "CloudWatch log group": ("us-west-2/log-group:/cloudgan/image", "logs", True),
    "CodeBuild project": ("us-west-2/project/cloudgan-image", "builder", True),
    "ECR repository": ("us-west-2/repository/cloudgan", "registry", False),
}


@pytest.fixture
def built_lab(lab):
    """An account in which an image was built, beside the bucket's region."""
    lab.session.client("s3").create_bucket(Bucket="cloudgan-123456789012-us-east-1")
    assert built(lab, "us-west-2").startswith("sha256:")
    return lab


def test_what_building_images_made_is_listed_and_goes_the_builder_first(built_lab):
    cloud = built_lab.cloud()
    found = {one.kind: one for one in cloud.things() if one.region == "us-west-2"}
    assert {
        kind: (one.name, one.shared, one.is_free) for kind, one in found.items()
    } == IMAGE_THINGS
    assert found["ECR repository"].fee, "what it keeps bills, and no price list says what"
    assert "cloudgan-image" in {one.name for one in cloud.things() if one.kind == "IAM role"}
    assert cloud.things("gan") == ()
    gone = list(
        Remover(cloud, built_lab.said.append, POLL_SECONDS, most_seconds=5.0).remove(cloud.things())
    )
    assert gone[0] == "CodeBuild project us-west-2/project/cloudgan-image"
    assert gone[1:3] == [
        "CloudWatch log group us-west-2/log-group:/cloudgan/image",
        "ECR repository us-west-2/repository/cloudgan",
    ], "with the image in it"
    assert "IAM role cloudgan-image" in gone
    assert cloud.things() == ()
    for thing in found.values():
        cloud.delete(thing)


def test_what_is_called_as_ours_and_has_no_tag_of_ours_is_somebody_elses(lab):
    clients = {name: lab.session.client(name, "us-west-2") for name in ("ecr", "iam", "logs")}
    clients["ecr"].create_repository(repositoryName="cloudgan")
    clients["logs"].create_log_group(logGroupName="/cloudgan/image", tags={"team": "physics"})
    clients["iam"].create_role(RoleName="cloudgan-image", AssumeRolePolicyDocument="{}")
    cloud = lab.cloud()
    assert [one.name for one in cloud.things()] == [
        "cloudgan-cluster",
        "cloudgan-nodes",
        "cloudgan-pods",
    ]
    list(Remover(cloud, lab.said.append, POLL_SECONDS, most_seconds=5.0).remove(cloud.things()))
    assert clients["ecr"].describe_repositories()["repositories"]
    assert clients["logs"].describe_log_groups()["logGroups"]
    assert clients["iam"].get_role(RoleName="cloudgan-image")["Role"]


def test_the_repository_does_not_stand_or_fall_with_the_cluster_of_its_name(built_lab):
    plan = built_lab.resolved(planned(offer="aws/g4dn.xlarge/us-west-2/on_demand"))
    make_until(built_lab.cloud(), plan, "CreateCluster")
    names = [one.name for one in built_lab.cloud().things()]
    assert "us-west-2/cloudgan" in names
    assert len(set(names)) == len(names)


def test_who_may_not_look_at_images_sees_the_rest_and_is_told_once(built_lab):
    denied = {"code": "AccessDeniedException", "status": 403}
    built_lab.aws.fault("ListTagsForResource", **denied, times=3)
    kinds = {one.kind for one in built_lab.cloud().things()}
    assert kinds == {"IAM role"}
    (told,) = (one for one in built_lab.said if "were not looked at" in one)
    assert "images in eu-west-1, us-east-1, us-west-2" in told
    assert "deploy/aws/image-policy.json" in told


def test_a_builder_is_asked_for_only_where_its_repository_or_log_is(built_lab):
    built_lab.aws.faults.calls.clear()
    built_lab.cloud().things()
    asked = {call for call in built_lab.aws.faults.calls if call[0] == "codebuild"}
    assert asked == {("codebuild", "us-west-2", "BatchGetProjects")}, "CodeBuild is not everywhere"


def test_a_login_is_named_and_its_absence_too(lab, monkeypatch):
    from cloudgan.providers.aws.account import session_of

    assert lab.cloud().identify()["account"] == "123456789012"
    with pytest.raises(CredentialsError, match="AWS_ACCESS_KEY_ID"):
        session_of(None, "us-east-1")
    with pytest.raises(CredentialsError, match="profile"):
        session_of("nobody", "us-east-1")
