"""What a run asks of AWS, as values: no SDK, no network, no login.

A step's `method` is an operation of the API, its `path` the service and region that are asked, its
`body` the arguments. `find` is what the cloud knows the thing by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import PlanError
from cloudgan.core.labels import RUN, SHARED, derived_name
from cloudgan.core.plan import Place, Rental, Step, Workers
from cloudgan.kubernetes.device_plugin import GPU_NODE, device_plugin_step
from cloudgan.providers.aws import naming
from cloudgan.providers.aws.machines import machine
from cloudgan.providers.aws.roles import (
    MANAGED,
    POD_POLICY,
    managed_arn,
    only_by_tls,
    pod_rights,
    trust,
)
from cloudgan.providers.intent_step import intent_step

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan
    from cloudgan.providers.clouds import Wanted

POD_AGENT: Final = "eks-pod-identity-agent"
DEADLINE: Final = "cloudgan-deadline"
_DEFAULT_REGION: Final = "us-east-1"  # which S3 takes no name of
_GRACE_SECONDS: Final = 90
"""Of the 120 s between a spot node's notice and its end."""
_DISK_GIB: Final = 100
_RESERVE_SECONDS: Final = 900


def place(account: str | None, region: str, zone: str | None, cluster: str | None) -> Place:
    """Returns a place in AWS."""
    return Place(
        provider="aws",
        account=account or naming.ACCOUNT,
        region=region,
        zone=zone or naming.ZONE,
        namespace=naming.NAMESPACE,
        service_account=naming.SERVICE_ACCOUNT,
        cluster=cluster or naming.CLUSTER,
        details={
            "subnet": naming.SUBNET,
            "second_subnet": naming.SECOND_SUBNET,
            "version": naming.VERSION,
        },
    )


def rental(wanted: Wanted) -> Rental:
    """Returns the node group.

    Raises:
        PlanError: EKS, or TensorFlow on it, cannot serve it.
    """
    found = machine(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "AWS has no --flex_start, which is Google's; --spot=always is its cheap one"
        )
    if found.is_blackwell and not wanted.has_own_image:
        raise PlanError(
            f"{found.name} has {found.gpu} GPUs, which TensorFlow's public image cannot use; give an"
            " --image that was built for Blackwell, or take --accelerator=h200:8"
        )
    return Rental(
        node_type=found.name,
        market=wanted.market,
        pool=derived_name(wanted.run, wanted.spec, naming.LONGEST_POOL),
        keep_cluster=wanted.keep_cluster,
    )


def workers(workers: Workers, rental: Rental) -> Workers:
    """Returns the workers with the grace that AWS gives a spot node."""
    del rental
    return workers.model_copy(update={"grace_seconds": _GRACE_SECONDS})


def store(place: Place) -> str:
    """Returns the URL of the account's own bucket."""
    return f"s3://{_bucket(place)}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns what is ensured before the run's own objects.

    Nodes come last, and their end is arranged before they come: the node group is made empty, its
    scaling group told when to be empty again, and only then made as large as the run needs it.
    """
    own_bucket = plan.store.split("/")[2:3] == [_bucket(plan.place)]
    return (
        *(_bucket_steps(plan.place) if own_bucket else ()),
        intent_step(plan),
        _cluster(plan.place),
        _pod_agent(plan.place),
        _identity(plan.place),
        *((device_plugin_step(),) if plan.workers.accelerators_per_node else ()),
        _empty_pool(plan),
        _end_of_pool(plan),
        _full_pool(plan),
    )


def setup_steps(place: Place) -> tuple[Step, ...]:
    """Returns what is made once for an account and region: the bucket, and three roles."""
    account = place.account or naming.ACCOUNT
    found = list(_bucket_steps(place))
    for role in naming.ROLES:
        tags = [{"Key": SHARED, "Value": "role"}]
        body = {"RoleName": role, "AssumeRolePolicyDocument": trust(role), "Tags": tags}
        found.append(_iam(f"IAM role {role}", "CreateRole", role, body))
        for policy in MANAGED[role]:
            body = {"RoleName": role, "PolicyArn": managed_arn(policy)}
            found.append(_iam(f"policy {policy} of {role}", "AttachRolePolicy", role, body))
    body = {
        "RoleName": naming.POD_ROLE,
        "PolicyName": POD_POLICY,
        "PolicyDocument": pod_rights(account),
    }
    rights = _iam(
        f"policy {POD_POLICY} of {naming.POD_ROLE}", "PutRolePolicy", naming.POD_ROLE, body
    )
    return (*found, rights)


def cluster_name(place: Place) -> str:
    """Returns a cluster's name among all regions."""
    return f"{place.region}/{place.cluster}"


def pool_name(plan: Plan) -> str:
    """Returns a node group's name among all regions and clusters."""
    assert plan.rental is not None  # noqa: S101  a plan of a cloud has one
    return f"{cluster_name(plan.place)}/{plan.rental.pool}"


def _bucket(place: Place) -> str:
    return naming.bucket_name(place.account or naming.ACCOUNT, str(place.region))


def _bucket_steps(place: Place) -> tuple[Step, ...]:
    name, region = _bucket(place), str(place.region)
    owner = {"Bucket": name, "ExpectedBucketOwner": place.account}
    own_region = {} if region == _DEFAULT_REGION else {"LocationConstraint": region}
    tags = {"Tags": [{"Key": SHARED, "Value": "bucket"}]}
    closed = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    requests: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (
            f"bucket {name}",
            "CreateBucket",
            {"Bucket": name, "CreateBucketConfiguration": own_region | tags},
        ),
        (
            f"bucket {name} closed to the public",
            "PutPublicAccessBlock",
            owner | {"PublicAccessBlockConfiguration": dict.fromkeys(closed, True)},
        ),
        (
            f"bucket {name} open by TLS only",
            "PutBucketPolicy",
            owner | {"Policy": only_by_tls(name)},
        ),
    )
    return tuple(
        _step(what, method, naming.at("s3", region), f"{region}/{name}", body)
        for what, method, body in requests
    )


def _cluster(place: Place) -> Step:
    """A control plane whose API only its maker and AWS may enter, and that AWS keeps up to date."""
    body = {
        "name": place.cluster,
        "version": place.details["version"],
        "roleArn": naming.role_arn(str(place.account), naming.CLUSTER_ROLE),
        "resourcesVpcConfig": {
            "subnetIds": [place.details["subnet"], place.details["second_subnet"]],
            "endpointPublicAccess": True,
            "endpointPrivateAccess": True,
        },
        "accessConfig": {
            "authenticationMode": "API",
            "bootstrapClusterCreatorAdminPermissions": True,
        },
        "upgradePolicy": {"supportType": "STANDARD"},  # extended support costs six times as much
        "deletionProtection": False,
        "tags": {SHARED: "cluster"},
    }
    return _eks(f"EKS cluster {place.cluster}", "CreateCluster", place, cluster_name(place), body)


def _pod_agent(place: Place) -> Step:
    """Gives pods their role; network, proxy and names come with a cluster by themselves."""
    body = {"clusterName": place.cluster, "addonName": POD_AGENT, "tags": {SHARED: "add-on"}}
    name = f"{cluster_name(place)}/{POD_AGENT}"
    return _eks(f"EKS add-on {POD_AGENT}", "CreateAddon", place, name, body)


def _identity(place: Place) -> Step:
    body = {
        "clusterName": place.cluster,
        "namespace": place.namespace,
        "serviceAccount": place.service_account,
        "roleArn": naming.role_arn(str(place.account), naming.POD_ROLE),
        "tags": {SHARED: "identity"},
    }
    who = f"{place.namespace}/{place.service_account}"
    name = f"{cluster_name(place)}/{who}"
    return _eks(f"role of pods {who}", "CreatePodIdentityAssociation", place, name, body)


def _empty_pool(plan: Plan) -> Step:
    """The run's node group, in one zone; without a taint, because EKS' own pods need a node too."""
    assert plan.rental is not None  # noqa: S101  a plan of a cloud has one
    hired = plan.rental
    gpus = dict(GPU_NODE) if plan.workers.accelerators_per_node else {}
    body = {
        "clusterName": plan.place.cluster,
        "nodegroupName": hired.pool,
        "scalingConfig": {"minSize": 0, "maxSize": plan.workers.nodes, "desiredSize": 0},
        "diskSize": _DISK_GIB,
        "subnets": [plan.place.details["subnet"]],
        "instanceTypes": [hired.node_type],
        "amiType": "AL2023_x86_64_NVIDIA",
        "capacityType": "SPOT" if hired.market == "spot" else "ON_DEMAND",
        "nodeRole": naming.role_arn(str(plan.place.account), naming.NODE_ROLE),
        "labels": {RUN: plan.run} | gpus,
        "tags": plan.labels().as_dict(),
    }
    what = f"EKS node group {hired.pool}, empty"
    return _eks(what, "CreateNodegroup", plan.place, pool_name(plan), body)


def _end_of_pool(plan: Plan) -> Step:
    """If nobody comes back, AWS itself removes the nodes after the job's own deadline."""
    seconds = 2 * plan.limits.gang_timeout_seconds + plan.limits.deadline_seconds + _RESERVE_SECONDS
    body = {
        "AutoScalingGroupName": naming.GROUP_OF_POOL,
        "ScheduledActionName": DEADLINE,
        "StartTime": f"<now + {seconds:.0f} s>",
        "MinSize": 0,
        "DesiredCapacity": 0,
    }
    what = f"end of all nodes of {plan.run} after {seconds / 3600:.3g} h"
    where = naming.at("autoscaling", str(plan.place.region))
    return _step(what, "PutScheduledUpdateGroupAction", where, pool_name(plan), body)


def _full_pool(plan: Plan) -> Step:
    assert plan.rental is not None  # noqa: S101  a plan of a cloud has one
    body = {
        "clusterName": plan.place.cluster,
        "nodegroupName": plan.rental.pool,
        "scalingConfig": {"minSize": 0, "maxSize": plan.workers.nodes}
        | {"desiredSize": plan.workers.nodes},
    }
    what = f"{plan.workers.nodes} x {plan.rental.node_type} in {plan.rental.pool}"
    return _eks(what, "UpdateNodegroupConfig", plan.place, pool_name(plan), body)


def _eks(what: str, method: str, place: Place, find: str, body: dict[str, Any]) -> Step:
    return _step(what, method, naming.at("eks", str(place.region)), find, body)


def _iam(what: str, method: str, find: str, body: dict[str, Any]) -> Step:
    return _step(what, method, naming.at("iam", _DEFAULT_REGION), find, body)


def _step(what: str, method: str, path: str, find: str, body: dict[str, Any]) -> Step:
    return Step(ensure=what, method=method, path=path, find=find, at="cloud", body=body)
