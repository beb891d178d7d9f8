"""The AWS planner: targets, node groups and the requests of a plan. Pure, needs no SDK.

A step's `method` is the API operation, its `path` service and region, its `body` the arguments, and
`find` the resource's name in `AwsClient`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clouds import CLUSTER
from cloudgan.core.errors import PlanError
from cloudgan.core.labels import RUN, SHARED, derived_name
from cloudgan.launch.backends.kubernetes.permissions import review_step
from cloudgan.launch.clouds.aws import naming, reservations, run_end
from cloudgan.launch.clouds.aws.iam_roles import (
    MANAGED,
    boundary_arn,
    boundary_policy,
    inline_policy,
    managed_arn,
    tls_only_policy,
    trust,
)
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.planner import desired_state_step, unused_network
from cloudgan.launch.kubernetes.manifests import GPU_NODE, device_plugin_step
from cloudgan.schema.plan import (
    NODE_ADDRESSES,
    NODE_DISKS,
    NodePool,
    PoolFee,
    Step,
    Target,
    Workers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.clouds.planner import NodePoolRequest
    from cloudgan.schema.plan import Plan

POD_AGENT: Final = "eks-pod-identity-agent"
NETWORK_PLUGIN: Final = "vpc-cni"
ENABLE_POLICIES: Final = {"enableNetworkPolicy": "true"}
"""Configuration value that makes the VPC CNI plugin enforce NetworkPolicy objects.

The schema demands a string. Needs version 1.14 of the add-on and Kubernetes 1.25
(https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html, read 2026-11-22).
"""
DEADLINE: Final = "cloudgan-deadline"
_DEFAULT_REGION: Final = "us-east-1"  # has no LocationConstraint in S3
_GRACE_SECONDS: Final = 90
"""Used part of the 120 s between a spot notice and the node's end."""
_DISK_GIB: Final = 100
_DISK: Final = "EBS gp2"
"""A node group without a launch template has gp2 or gp3 by the account's EKS version: the dearer."""
_RESERVE_SECONDS: Final = 900


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target in AWS.

    Raises:
        ConfigError: A name cannot be one.
    """
    return Target.of_flags(
        provider="aws",
        account=account or naming.ACCOUNT,
        region=region,
        zone=zone or naming.ZONE,
        namespace=naming.NAMESPACE,
        service_account=naming.SERVICE_ACCOUNT,
        cluster=cluster or CLUSTER,
        details={
            "subnet": naming.SUBNET,
            "second_subnet": naming.SECOND_SUBNET,
            "version": naming.VERSION,
        },
    )


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node group.

    Raises:
        PlanError: EKS, or TensorFlow on it, cannot serve the request.
    """
    found = machine(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is only valid with --provider=gcp; on AWS, --market=spot is cheaper"
        )
    if found.needs_own_image and not wanted.has_own_image:
        raise PlanError(f"{found.name} ({found.gpu}): {found.needs_own_image}")
    notes = (unused_network(wanted, "EFA"),) if wanted.nodes > 1 and found.has_efa else ()
    reservation = reservations.parse(wanted.reservation) if wanted.reservation else None
    return NodePool(
        node_type=found.name,
        market=wanted.market,
        reservation=wanted.reservation,
        prepaid=reservation is not None and reservation.is_block,
        name=derived_name(wanted.run, wanted.spec_hash, naming.LONGEST_POOL),
        keep_cluster=wanted.keep_cluster,
        ends_cluster=not wanted.keep_cluster,
        keep_seconds=wanted.keep_seconds,
        served_runs=wanted.served_runs,
        fees=(
            PoolFee(name=NODE_DISKS, kind="disk", product=_DISK, quantity=_DISK_GIB),
            PoolFee(name=NODE_ADDRESSES, kind="public_ip", product="public IPv4"),
        ),
        notes=(*notes, reservation.note) if reservation else notes,
    )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the workers with the grace period of a spot node."""
    del node_pool
    return workers.model_copy(update={"grace_seconds": _GRACE_SECONDS})


def store_url(target: Target) -> str:
    """Returns the URL of the account's bucket."""
    return f"s3://{_bucket(target)}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps before those of the run's Kubernetes objects.

    The node group is created empty, gets its scheduled end, and only then scales to the run's size.
    """
    own_bucket = plan.store.split("/")[2:3] == [_bucket(plan.target)]
    return (
        *(_bucket_steps(plan.target) if own_bucket else ()),
        desired_state_step(plan),
        *_template(plan),  # free, so that a refusal costs nothing
        *run_end.steps(plan),
        _cluster(plan.target),
        review_step(plan.target),
        _network_plugin(plan.target),
        _pod_agent(plan.target),
        _identity(plan.target),
        *((device_plugin_step(),) if plan.workers.accelerators_per_node else ()),
        _empty_pool(plan),
        _end_of_pool(plan),
        _full_pool(plan),
    )


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the request that moves the scheduled end of the nodes to that of their waiting."""
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    return (_scheduled_end(plan, plan.node_pool.keep_seconds),)


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the one-time steps of an account and region: bucket, permissions boundary and roles."""
    account = target.account or naming.ACCOUNT
    boundary = {
        "PolicyName": naming.BOUNDARY,
        "PolicyDocument": boundary_policy(),
        "Tags": [{"Key": SHARED, "Value": "boundary"}],
    }
    arn = naming.policy_arn(account, naming.BOUNDARY)
    return (
        *_bucket_steps(target),
        _iam(f"permissions boundary {naming.BOUNDARY}", "CreatePolicy", arn, boundary),
        *(step for role in naming.ROLES for step in _role_steps(account, role)),
    )


def _role_steps(account: str, role: str) -> Iterator[Step]:
    body: dict[str, Any] = {
        "RoleName": role,
        "AssumeRolePolicyDocument": trust(account, role),
        "PermissionsBoundary": boundary_arn(account, role),
        "Tags": [{"Key": SHARED, "Value": "role"}],
    }
    yield _iam(f"IAM role {role}", "CreateRole", role, body)
    for policy in MANAGED.get(role, ()):
        body = {"RoleName": role, "PolicyArn": managed_arn(policy)}
        yield _iam(f"policy {policy} of {role}", "AttachRolePolicy", role, body)
    if own := inline_policy(account, role):
        name, document = own
        body = {"RoleName": role, "PolicyName": name, "PolicyDocument": document}
        yield _iam(f"policy {name} of {role}", "PutRolePolicy", role, body)


def cluster_name(target: Target) -> str:
    """Returns a cluster's name with its region."""
    return f"{target.region}/{target.cluster}"


def pool_name(plan: Plan) -> str:
    """Returns a node group's name with region and cluster."""
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    return f"{cluster_name(plan.target)}/{plan.node_pool.name}"


def _bucket(target: Target) -> str:
    return naming.bucket_name(target.account or naming.ACCOUNT, str(target.region))


def _bucket_steps(target: Target) -> tuple[Step, ...]:
    name, region = _bucket(target), str(target.region)
    owner = {"Bucket": name, "ExpectedBucketOwner": target.account}
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
            f"bucket {name} blocks public access",
            "PutPublicAccessBlock",
            owner | {"PublicAccessBlockConfiguration": dict.fromkeys(closed, True)},
        ),
        (
            f"bucket {name} requires TLS",
            "PutBucketPolicy",
            owner | {"Policy": tls_only_policy(name)},
        ),
    )
    return tuple(
        _step(ensure, method, naming.endpoint("s3", region), f"{region}/{name}", body)
        for ensure, method, body in requests
    )


def _cluster(target: Target) -> Step:
    """Returns the step for the cluster: access for its creator only, standard support."""
    body = {
        "name": target.cluster,
        "version": target.details["version"],
        "roleArn": naming.role_arn(str(target.account), naming.CLUSTER_ROLE),
        "resourcesVpcConfig": {
            "subnetIds": [target.details["subnet"], target.details["second_subnet"]],
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
    return _eks(
        f"EKS cluster {target.cluster}", "CreateCluster", target, cluster_name(target), body
    )


def _network_plugin(target: Target) -> Step:
    """Returns the step that enforces NetworkPolicy in a cluster of cloudgan, before it has nodes.

    EKS installs the plugin as self-managed in each new cluster, so the add-on has to overwrite its
    fields (https://github.com/aws/amazon-network-policy-controller-k8s/issues/200, read 2026-11-22).
    """
    return _add_on(
        target,
        NETWORK_PLUGIN,
        {"configurationValues": json.dumps(ENABLE_POLICIES), "resolveConflicts": "OVERWRITE"},
    )


def _pod_agent(target: Target) -> Step:
    """Returns the step for the add-on that gives pods their role."""
    return _add_on(target, POD_AGENT, {})


def _add_on(target: Target, name: str, settings: dict[str, str]) -> Step:
    body = {"clusterName": target.cluster, "addonName": name, "tags": {SHARED: "add-on"}} | settings
    found = f"{cluster_name(target)}/{name}"
    return _eks(f"EKS add-on {name}", "CreateAddon", target, found, body)


def _identity(target: Target) -> Step:
    body = {
        "clusterName": target.cluster,
        "namespace": target.namespace,
        "serviceAccount": target.service_account,
        "roleArn": naming.role_arn(str(target.account), naming.POD_ROLE),
        "tags": {SHARED: "identity"},
    }
    account = f"{target.namespace}/{target.service_account}"
    name = f"{cluster_name(target)}/{account}"
    return _eks(f"role of pods {account}", "CreatePodIdentityAssociation", target, name, body)


def _empty_pool(plan: Plan) -> Step:
    """Returns the step for the empty node group: one zone, no taint since EKS' pods need a node."""
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    pool = plan.node_pool
    labels = plan.labels().as_dict()
    gpus = dict(GPU_NODE) if plan.workers.accelerators_per_node else {}
    body: dict[str, Any] = {
        "clusterName": plan.target.cluster,
        "nodegroupName": pool.name,
        "scalingConfig": {"minSize": 0, "maxSize": plan.workers.nodes, "desiredSize": 0},
        "subnets": [plan.target.details["subnet"]],
        "amiType": machine(pool.node_type).image_type,
        "capacityType": "SPOT" if pool.market == "spot" else "ON_DEMAND",
        "nodeRole": naming.role_arn(str(plan.target.account), naming.NODE_ROLE),
        "labels": {RUN: plan.run} | gpus,
    }
    if pool.reservation:
        body["launchTemplate"] = {"name": reservations.template_name(plan), "version": "1"}
        body["tags"] = labels | {
            naming.NODE_TYPE: pool.node_type
        }  # EKS does not show the type then
    else:
        body |= {"diskSize": _DISK_GIB, "instanceTypes": [pool.node_type], "tags": labels}
    if pool.prepaid:
        body["capacityType"] = "CAPACITY_BLOCK"
    ensure = f"EKS node group {pool.name}, empty"
    return _eks(ensure, "CreateNodegroup", plan.target, pool_name(plan), body)


def _template(plan: Plan) -> tuple[Step, ...]:
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    if not plan.node_pool.reservation:
        return ()
    region, name = str(plan.target.region), reservations.template_name(plan)
    body = reservations.template_body(plan, _DISK_GIB)
    where = naming.endpoint("ec2", region)
    ensure = f"launch template for {plan.node_pool.reservation}"
    return (_step(ensure, "CreateLaunchTemplate", where, f"{region}/{name}", body),)


def _end_of_pool(plan: Plan) -> Step:
    """Returns the step that makes AWS remove the nodes after the job's deadline."""
    seconds = 2 * plan.limits.gang_timeout_seconds + plan.limits.deadline_seconds + _RESERVE_SECONDS
    return _scheduled_end(plan, seconds)


def _scheduled_end(plan: Plan, seconds: float) -> Step:
    body = {
        "AutoScalingGroupName": naming.GROUP_OF_POOL,
        "ScheduledActionName": DEADLINE,
        "StartTime": f"<now + {seconds:.0f} s>",
        "MinSize": 0,
        "DesiredCapacity": 0,
    }
    ensure = f"end of all nodes of {plan.run} after {seconds / 3600:.3g} h"
    where = naming.endpoint("autoscaling", str(plan.target.region))
    return _step(ensure, "PutScheduledUpdateGroupAction", where, pool_name(plan), body)


def _full_pool(plan: Plan) -> Step:
    assert plan.node_pool is not None  # noqa: S101  a plan of a cloud has one
    body = {
        "clusterName": plan.target.cluster,
        "nodegroupName": plan.node_pool.name,
        "scalingConfig": {"minSize": 0, "maxSize": plan.workers.nodes}
        | {"desiredSize": plan.workers.nodes},
    }
    ensure = f"{plan.workers.nodes} x {plan.node_pool.node_type} in {plan.node_pool.name}"
    return _eks(ensure, "UpdateNodegroupConfig", plan.target, pool_name(plan), body)


def _eks(ensure: str, method: str, target: Target, find: str, body: dict[str, Any]) -> Step:
    return _step(ensure, method, naming.endpoint("eks", str(target.region)), find, body)


def _iam(ensure: str, method: str, find: str, body: dict[str, Any]) -> Step:
    return _step(ensure, method, naming.endpoint("iam", _DEFAULT_REGION), find, body)


def _step(ensure: str, method: str, path: str, find: str, body: dict[str, Any]) -> Step:
    return Step(ensure=ensure, method=method, path=path, find=find, at="cloud", body=body)
