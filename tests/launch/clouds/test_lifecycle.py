"""What each cloud does alike: create, resume, list, delete, and refuse what is of others."""

import re

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, PlanError, ResourcesLeftError
from cloudgan.launch.clouds.engine import check_gone
from emulators.azure.faults import Refusal as AzureRefusal
from emulators.gcp.refusal import Refusal
from launch.clouds.lab import EACH, EACH_WHOLE, of_cloud, rows

FEES = {
    "aws": "EKS standard support",
    "azure": "load balancer and address of AKS",
    "gcp": "GKE standard",
}
POOL, CLUSTER = "/agentPools/", "/managedClusters/cloudgan$"
RUNNING = "Operation is not allowed because there's an in progress operation"


def pool_of(lab, run="gan"):
    (pool,) = (one for one in lab.cloud().list_resources(run) if one.node_type)
    return pool


@EACH
def test_resources_are_created_once_listed_with_their_labels_and_deleted_in_order(lab):
    plan = lab.make(nodes=2)
    assert not re.search(r"<[-_a-z]+>", plan.model_dump_json()), "all values are known"
    assert not any(lab.engine().ensure(step, plan) for step in of_cloud(plan))
    there = {one.kind: one for one in lab.cloud().list_resources()}
    pool, cluster = pool_of(lab), next(one for one in there.values() if one.shared == "cluster")
    found = (pool.run, pool.nodes, pool.node_type, pool.market, pool.state)
    assert found == ("gan", 2, plan.node_pool.node_type, "on_demand", "ready")
    assert pool.labels.items() >= plan.labels().as_dict().items()
    assert pool.parent == cluster.name
    assert (cluster.fee, cluster.is_free) == (FEES[lab.provider], False)
    assert cluster.created_at or lab.provider == "azure", "whose emulator does not write it"
    ends = [one.kind for one in there.values() if one.ends_run]
    assert ends == (["EventBridge schedule group"] if lab.provider == "aws" else [])
    assert lab.listed() == lab.left()
    assert lab.cloud().list_resources("another") == ()
    gone = lab.remove()
    kinds = [one.rpartition(" ")[0] for one in gone]
    assert kinds.index(pool.kind) < kinds.index(cluster.kind)
    assert set(there) <= set(kinds), "what setup made as well"
    assert lab.cloud().list_resources() == ()
    assert lab.left() == []


@EACH_WHOLE
def test_a_run_starts_on_its_nodes_and_a_second_shares_the_cluster_which_goes_with_the_last(
    whole_lab,
):
    lab = whole_lab
    lab.deploy(nodes=2)
    launcher = lab.launcher()
    assert launcher.state("gan").phase in ("waiting", "starting", "running")
    assert len(launcher.nodes("gan")) == 2
    before = lab.pools_created()
    lab.deploy(nodes=2)
    assert lab.pools_created() == before, "resumed"
    lab.deploy(name="other")
    cluster = [one for one in lab.left() if "pool" not in one and "cluster" in one]
    lab.down("gan")
    assert pool_of(lab, "other")
    assert cluster
    assert set(cluster) <= set(lab.left())
    assert (lab.down("other"), lab.in_cluster()) == ([], [])
    assert lab.down("gan") == [], "twice is fine"


def late_on_aws(lab):
    hidden = {"code": "ResourceNotFoundException", "status": 404, "times": 2}
    lab.aws.fault("DescribeCluster", after="CreateCluster", **hidden)
    lab.aws.fault("DescribeNodegroup", after="CreateNodegroup", **hidden)


APPEAR_LATE = {
    "aws": late_on_aws,
    "azure": lambda lab: setattr(lab.azure.faults, "late_gets", 3),
    "gcp": lambda lab: setattr(lab.google.server, "hidden_ticks", 6),
}


@EACH
def test_resources_may_appear_late(lab):
    APPEAR_LATE[lab.provider](lab)
    lab.make()
    assert pool_of(lab)


def busy_on_aws(lab):
    busy = {"code": "ResourceInUseException", "status": 409, "times": 2}
    for operation in ("UpdateNodegroupConfig", "DeleteNodegroup", "DeleteCluster"):
        lab.aws.fault(operation, **busy)


def busy_on_azure(lab):
    for method, path in (("PUT", POOL), ("DELETE", POOL), ("DELETE", CLUSTER)):
        refusal = AzureRefusal(409, "OperationNotAllowed", RUNNING)
        lab.azure.faults.refuse(method, path, refusal, times=3)


BECOME_BUSY = {
    "aws": busy_on_aws,
    "azure": busy_on_azure,
    "gcp": lambda lab: lab.google.engine.become_busy(12),
}


@EACH
def test_another_operation_on_the_cluster_is_waited_for(lab):
    lab.make(name="other")
    BECOME_BUSY[lab.provider](lab)
    lab.make()
    if lab.provider == "gcp":
        lab.google.engine.become_busy(60)
    lab.remove()
    assert lab.left() == []
    assert any("waits: " in one for one in lab.said)
    assert any("cannot be deleted yet" in one for one in lab.said)


def aws_throttles(lab):
    for operation, code, status in (
        ("CreateCluster", "ThrottlingException", 429),
        ("CreateNodegroup", "ServiceUnavailableException", 503),
        ("DescribeNodegroup", "ThrottlingException", 429),
        ("UpdateNodegroupConfig", "ThrottlingException", 429),
    ):
        lab.aws.fault(operation, code, status=status)


def aws_loses_answers(lab):
    for what in ("Cluster", "Nodegroup", "ScheduleGroup", "PodIdentityAssociation"):
        lab.aws.fault(f"Create{what}", "ServerException", status=500, acts=True)


def azure_throttles(lab):
    slow = AzureRefusal(429, "TooManyRequests", "slow down", Retry_After="0")
    for path in (POOL, CLUSTER, "/resources$"):
        lab.azure.faults.refuse("*", path, slow, times=2)
    lab.azure.faults.refuse("GET", POOL, AzureRefusal(503, "ServerBusy", "busy"), times=3)


def google_throttles(lab):
    for code in (429, 500, 502, 503):
        lab.google.server.refuse("", Refusal(code, "later"))


def google_loses_answers(lab):
    for method in ("buckets.insert$", "clusters.create$", "nodePools.create$"):
        lab.google.server.lose_answer(method)


TRANSIENT = (
    ("aws", "throttling", aws_throttles),
    ("aws", "lost answers", aws_loses_answers),
    ("azure", "throttling", azure_throttles),
    ("gcp", "throttling", google_throttles),
    ("gcp", "lost answers", google_loses_answers),
)


@pytest.mark.parametrize(("lab", "disturb"), rows(*TRANSIENT), indirect=["lab"])
def test_a_transient_error_is_retried_and_nothing_is_created_twice(lab, disturb):
    before = lab.cloud().list_resources()
    disturb(lab)
    lab.make()
    there = lab.cloud().list_resources()
    assert len({(one.kind, one.name) for one in there}) == len(there)
    assert {one.name for one in there} > {one.name for one in before}
    assert lab.listed() == lab.left()
    assert len([one for one in lab.left() if "pool" in one or "node group" in one]) == 1
    lab.remove()
    assert lab.left() == []


POOLS_OF = {
    "aws": lambda lab: lab.aws.state.planes["us-east-1", "cloudgan"].pools.values(),
    "azure": lambda lab: lab.azure.arm.of_kind(
        "microsoft.containerservice/managedclusters/agentpools"
    ),
    "gcp": lambda lab: lab.google.engine.pools(),
}


@EACH
def test_a_pool_of_this_name_that_is_not_of_cloudgan_is_neither_listed_nor_used(lab):
    plan = lab.make()
    (pool,) = POOLS_OF[lab.provider](lab)
    if lab.provider == "aws":
        pool.body["tags"] = {}
    elif lab.provider == "azure":
        pool.body["properties"]["tags"] = {}
    else:
        pool["config"] = {"machineType": "g2-standard-4"}
    assert not [one for one in lab.cloud().list_resources("gan") if one.node_type]
    with pytest.raises(ConfigError, match="not managed by cloudgan"):
        lab.make(plan)


def public_store(lab):
    (account,) = (
        one for one in lab.azure.arm.resources.values() if one.kind.endswith("storageaccounts")
    )
    account.body["properties"]["allowBlobPublicAccess"] = True


STORES = (
    (
        "aws",
        "of another account",
        lambda lab: lab.aws.foreign_buckets.add("cloudgan-123456789012-us-east-1"),
        "belongs to another account",
    ),
    ("azure", "readable by all", public_store, "allows public access"),
    (
        "gcp",
        "of another project",
        lambda lab: lab.google.storage.add_bucket_of_another_project("cloudgan-lab-us-central1"),
        r"another project.*--store=",
    ),
)


@pytest.mark.parametrize(("lab", "change", "why"), rows(*STORES), indirect=["lab"])
def test_a_store_that_is_not_the_users_alone_is_refused_before_anything_is_made(lab, change, why):
    change(lab)
    with pytest.raises(ConfigError, match=why):
        lab.make()
    assert lab.left() == []


def silent_zone(part):
    return lambda lab: getattr(lab.google, part).silent_zones.add("us-central1-b")


def aws_is_down(operation):
    return lambda lab: lab.aws.fault(operation, "ServiceUnavailable", times=10**6, status=503)


def azure_refuses(path, status, code="InternalServerError"):
    refusal = AzureRefusal(status, code, "does not have authorization", Retry_After="0")
    return lambda lab: lab.azure.faults.refuse("GET", path, refusal, times=99)


def google_is_down(lab):
    refusal = Refusal(503, "The service is currently down.")
    lab.google.server.refuse("", refusal, times=10**6)


def google_refuses(method, code):
    refusal = Refusal(code, "Permission denied." if code == 403 else "Invalid credentials.")
    return lambda lab: lab.google.server.refuse(method, refusal, times=10**6)


REGIONS = {"eu-west-1", "us-east-1", "us-west-2"}
GOOGLE = {"Cloud Storage", "Cloud TPU", "Compute Engine", "IAM", "Kubernetes Engine"}
SILENT = (
    ("aws", "part of each region", aws_is_down("DescribeVolumes"), REGIONS, {"EKS node group"}),
    ("aws", "all regions", aws_is_down("DescribeRegions"), {"all regions but us-east-1"}, {"EKS node group"}),
    ("aws", "IAM", aws_is_down("GetRole"), {"IAM role"}, {"EKS node group"}),
    ("aws", "S3", aws_is_down("ListBuckets"), {"S3 bucket"}, {"EKS node group"}),
    ("azure", "AKS", azure_refuses("/managedClusters$", 500), {"AKS"}, set()),
    ("azure", "resources", azure_refuses("/resources$", 500), {"scale sets", "shared resources"}, {"AKS pool"}),
    ("azure", "groups", azure_refuses("/resourcegroups$", 500), {"resource groups"}, {"AKS pool"}),
    ("azure", "denied", azure_refuses("/resources$", 403, "AuthorizationFailed"), {"scale sets", "shared resources"}, {"AKS pool"}),
    ("azure", "throttled", azure_refuses("/resources$", 429, "TooManyRequests"), {"scale sets", "shared resources"}, {"AKS pool"}),
    ("gcp", "clusters in a zone", silent_zone("engine"), {"us-central1-b"}, {"GKE node pool"}),
    ("gcp", "TPUs in a zone", silent_zone("tpus"), {"us-central1-b"}, {"GKE node pool"}),
    ("gcp", "machines in a zone", silent_zone("compute"), {"us-central1-b"}, {"GKE node pool"}),
    ("gcp", "all", google_is_down, GOOGLE, set()),
    ("gcp", "denied", google_refuses("iam.*list", 403), {"IAM"}, {"GKE node pool"}),
)  # fmt: skip


@pytest.mark.parametrize(("lab", "silence", "names", "kinds"), rows(*SILENT), indirect=["lab"])
def test_what_does_not_answer_is_named_and_the_rest_is_listed_and_deleted(
    lab, silence, names, kinds
):
    lab.make()
    silence(lab)
    lab.lose_patience()
    found = lab.cloud().list_resources()
    assert {one.partition(" (")[0] for one in found.silent} == names
    assert kinds <= {one.kind for one in found}
    if not lab.cloud().list_resources("gan").silent:
        return  # no run has such resources
    with pytest.raises(ResourcesLeftError, match="no answer from"):
        lab.down()
    if "GKE node pool" in kinds or "EKS node group" in kinds:
        assert not [one for one in lab.left() if "pool" in one or "node group" in one]


EXPIRES = (
    ("gcp", "at machines", google_refuses("compute.instances", 401)),
    ("gcp", "at TPUs", google_refuses("tpu.*queuedResources.list", 401)),
    ("aws", "at schedules", lambda lab: lab.aws.fault("ListScheduleGroups", "ExpiredToken", times=99)),
    ("azure", "at scale sets", azure_refuses("/resources$", 401, "ExpiredAuthenticationToken")),
)  # fmt: skip


@pytest.mark.parametrize(("lab", "expire"), rows(*EXPIRES), indirect=["lab"])
def test_a_login_that_expires_while_a_cloud_is_listed_does_not_show_that_nothing_is_left(
    lab, expire
):
    expire(lab)
    found = lab.engine().list("gan")
    assert found == ()
    assert len(found.silent) == 1
    with pytest.raises(ResourcesLeftError, match="no answer from"):
        check_gone("gan", (), found.silent)


NEW_CLUSTER = "cloudgan.launch.lifecycle.provisioned_backend._NEW_CLUSTER_SECONDS"
READER = {"apiGroups": ["", "batch"], "resources": ["*"], "verbs": ["get", "list"]}
NO_RIGHTS = {
    "aws": (
        lambda lab: lab.cluster.trust(lambda _: None),
        r"cloudgan: the cluster rejects.*aws eks create-access-entry",
    ),
    "azure": (
        lambda lab: setattr(lab.azure.aks, "rules", []),
        r"create namespaces.*cloudgan launcher",
    ),
    "gcp": (
        lambda lab: lab.log_in(lab.cluster.token([READER])),
        (
            "(?!.*list pods).*may not create namespaces, create serviceaccounts in namespace cloudgan"
            ".*create jobs in namespace cloudgan, delete jobs in namespace cloudgan.*"
            "deploy/gcp/resources.yaml"
        ),
    ),
}


@EACH_WHOLE
def test_without_rights_in_the_cluster_no_nodes_are_created_and_nothing_is_left(
    whole_lab, monkeypatch
):
    lab = whole_lab
    monkeypatch.setattr(NEW_CLUSTER, 0.1)
    take, why = NO_RIGHTS[lab.provider]
    take(lab)
    with pytest.raises(CredentialsError, match=why):
        lab.deploy()
    assert lab.pools_created() == 0
    assert lab.left() == []


ELSEWHERE = (
    ("aws", "another region", {"node_type": "p4de.24xlarge"}, "us-east-1 has no p4de.24xlarge; --region can be: us-west-2"),
    ("aws", "nowhere", {"node_type": "p4d.24xlarge"}, "AWS: no region has p4d.24xlarge; pass another --accelerator"),
    ("aws", "another zone", {"node_type": "p5.48xlarge", "zone": "us-east-1c"}, r"no subnet in --zone=us-east-1c .* \(us-east-1b\)"),
    ("gcp", "another region", {"node_type": "a3-highgpu-8g"}, "--region can be: europe-west4"),
    ("gcp", "another zone", {"zone": "us-central1-f"}, "--zone can be: europe-west4-a, us-central1-a, us-central1-b"),
    ("gcp", "nowhere", {"node_type": "a2-ultragpu-1g"}, "no region has a2-ultragpu-1g for this project; pass another --accelerator"),
)  # fmt: skip


@pytest.mark.parametrize(("lab", "asked", "why"), rows(*ELSEWHERE), indirect=["lab"])
def test_a_place_without_the_machine_names_those_that_have_it(lab, asked, why):
    with pytest.raises(PlanError, match=why):
        lab.cloud().resolve_placeholders(lab.planned(**asked))
