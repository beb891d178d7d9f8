"""The AWS planner: targets, node groups, the requests of a plan and of `setup`. Pure, needs no SDK.

A step's `method` is the API operation, its `path` service and region, its `body` the arguments.

EventBridge Scheduler ends a run that no launcher follows. A run has a schedule group with its tags, since
schedules have none, and in it two schedules that call EKS once an hour for a day: DeleteNodegroup for the
node group of the run, and DeleteCluster. EKS refuses DeleteCluster while a node group is attached ("you must
delete them first", https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCluster.html), so the
schedule of one run cannot end the cluster of another that has nodes. No program of ours runs: a schedule
calls the operation itself (https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html),
with the role `cloudgan-end`. Members of its input are in PascalCase: a public configuration reports a
ValidationException for EKS' own camelCase. All read 2026-11-23.

A node group uses a reservation only by a launch template that names it; a Capacity Block also needs the
instance type and a market type there, and the node group the capacity type CAPACITY_BLOCK
(https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html). A block is paid in advance, and
no operation of EC2 states its price: `DescribeCapacityBlocks` and `DescribeCapacityReservations` have no such
member in botocore's model (both read 2026-11-22).

A role gets what both its policies and its permissions boundary allow, so a user of
deploy/aws/setup-policy.json, which allows to create roles only with this boundary, cannot create one
with more rights (https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html,
read 2026-11-22). The control plane needs all of its managed policy, which AWS extends, and nothing else:
that policy is its boundary too.

deploy/aws/roles.json holds trust, boundary, AWS managed policies and own policies of each role, as of
https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html, create-node-role.html and
pod-id-role.html (read 2026-11-21). Schedules of other accounts cannot use the role of schedules, and a
taken pod cannot write what launchers act on.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cloudgan.core import assets, machines
from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.documents import parse_json
from cloudgan.core.durations import DAY_SECONDS, HOUR_SECONDS
from cloudgan.core.errors import PlanError
from cloudgan.core.labels import RUN, SHARED, derived_name
from cloudgan.core.machines import Machine
from cloudgan.launch.backends.kubernetes.checks import review_step
from cloudgan.launch.clouds.aws import account_kinds, kinds, naming
from cloudgan.launch.clouds.aws.requests import GLOBAL_REGION
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
    desired_state_step,
    pool_of,
    reservation_parts,
    unused_network,
)
from cloudgan.launch.clouds.rows import Kind
from cloudgan.launch.kubernetes.manifests import GPU_NODE, device_plugin_step
from cloudgan.schema.plan import NodePool, Plan, Step, Target, Workers
from cloudgan.schema.price_row import PoolFee

DEADLINE: Final = "cloudgan-deadline"
DISK_GIB: Final = 100
_RESERVE_SECONDS: Final = 900
_CLUSTER_SECONDS: Final = 2400
"""Longest wait for a new cluster."""
_SPARE_SECONDS: Final = 3600
"""For the copy of the results by a launcher that works."""
_BLOCK: Final = "block:"
_RESERVATION: Final = re.compile(rf"(?:{_BLOCK})?(cr-[0-9a-f]{{8,17}})")
_GRACE_SECONDS: Final = 90
"""Used part of the 120 s between a spot notice and the node's end."""
_DISK: Final = "EBS gp2"
"""A node group without a launch template has gp2 or gp3 by the account's EKS version: the dearer."""


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target in AWS."""
    return Target.of_flags(
        provider="aws",
        account=account or naming.ACCOUNT,
        region=region,
        zone=zone or naming.ZONE,
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        cluster=cluster or CLUSTER,
        details={
            "subnet": naming.SUBNET,
            "second_subnet": naming.SECOND_SUBNET,
            "version": naming.VERSION,
        },
    )


def machine(name: str) -> Machine:
    """Returns an instance type whose NVIDIA GPUs the EKS image supports (core/machines.csv)."""
    machines.refuse_retired("aws", name)
    known = machines.sold("aws")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.2) or list(known)[:3]
        raise PlanError(
            f"cloudgan does not support AWS instance type {name}: it needs NVIDIA GPUs that the EKS"
            f" image supports. The nearest: {', '.join(near)}"
        )
    return known[name]


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node group."""
    found = machine(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is only valid with --provider=gcp; on AWS, --market=spot is cheaper"
        )
    if found.image_problem and not wanted.has_own_image:
        raise PlanError(f"{found.node_type} ({found.accelerator}): {found.image_problem}")
    notes = unused_network(wanted, found.network)
    is_block = bool(wanted.reservation and wanted.reservation.startswith(_BLOCK))
    if wanted.reservation:
        name = reservation_id(wanted.reservation)
        of_block = (
            f"Capacity Block {name} was paid in advance, and no API of AWS states its price: the cost of"
            " these nodes is unknown, and the block costs the same without this run"
        )
        notes += (of_block,) if is_block else ()
    return wanted.pool(
        naming.LONGEST_POOL,
        prepaid=is_block,
        ends_cluster=not wanted.keep_cluster,
        fees=(
            PoolFee(kind="disk", product=_DISK, quantity=DISK_GIB),
            PoolFee(kind="public_ip", product="public IPv4"),
        ),
        notes=notes,
    )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the workers with the grace period of a spot node."""
    del node_pool
    return workers.model_copy(update={"grace_seconds": _GRACE_SECONDS})


def store_url(target: Target) -> str:
    """Returns the URL of the account's bucket."""
    return f"s3://{bucket_of(target)}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps before those of the run's Kubernetes objects.

    The node group is created empty, gets its scheduled end, and only then scales to the run's size.
    """
    target, limits = plan.target, plan.limits
    life = 2 * limits.gang_timeout_seconds + limits.deadline_seconds + _RESERVE_SECONDS
    own_bucket = plan.store.split("/")[2:3] == [bucket_of(target)]
    return (
        *(bucket(target) if own_bucket else ()),
        desired_state_step(plan),
        *template(plan),  # free, so that a refusal costs nothing
        *run_end(plan),
        cluster(target),
        review_step(target),
        *cluster_parts(target),
        *((device_plugin_step(),) if plan.workers.accelerators_per_node else ()),
        empty_pool(plan),
        scheduled_end(plan, life),
        full_pool(plan),
    )


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the request that moves the scheduled end of the nodes to that of their waiting."""
    return (scheduled_end(plan, pool_of(plan).keep_seconds),)


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the one-time steps of an account and region."""
    account = target.account or naming.ACCOUNT
    boundary = {
        "PolicyName": naming.BOUNDARY,
        "PolicyDocument": json.dumps(policy("boundary.json")),
        "Tags": [{"Key": SHARED, "Value": "boundary"}],
    }
    ref = {"account": account, "name": naming.BOUNDARY}
    ensure = f"permissions boundary {naming.BOUNDARY}"
    return (
        *bucket(target),
        step(ensure, account_kinds.BOUNDARY, ref, "CreatePolicy", boundary),
        *(one for role in naming.ROLES for one in _role_steps(account, role)),
    )


def role_document(account: str, role: str) -> dict[str, Any]:
    """Returns trust, boundary, managed and own policies of a role."""
    found: dict[str, Any] = policy("roles.json", account=account)[role]
    return found


def _role_steps(account: str, role: str) -> Iterator[Step]:
    found, ref, name = role_document(account, role), {"name": role}, {"RoleName": role}
    body: dict[str, Any] = name | {
        "AssumeRolePolicyDocument": json.dumps(found["trust"]),
        "PermissionsBoundary": found["boundary"],
        "Tags": [{"Key": SHARED, "Value": "role"}],
    }
    yield step(f"IAM role {role}", account_kinds.ROLE, ref, "CreateRole", body)
    for arn in found["managed"]:
        managed = arn.rpartition("/")[2]
        where, kind = ref | {"policy": managed}, account_kinds.MANAGED_POLICY
        body, ensure = name | {"PolicyArn": arn}, f"policy {managed} of {role}"
        yield step(ensure, kind, where, "AttachRolePolicy", body)
    for own, document in found["policies"].items():
        body = name | {"PolicyName": own, "PolicyDocument": json.dumps(document)}
        where, kind = ref | {"policy": own}, account_kinds.ROLE_POLICY
        yield step(f"policy {own} of {role}", kind, where, "PutRolePolicy", body)


def reservation_id(text: str) -> str:
    """Returns the id of the reservation that --reservation names."""
    expected = (
        "the id of an On-Demand Capacity Reservation, such as cr-0123456789abcdef0, or block: and the id"
        " of a Capacity Block"
    )
    return reservation_parts(_RESERVATION, text, expected)[0]


def step(
    ensure: str, kind: Kind, ref: dict[str, str], operation: str, body: dict[str, Any]
) -> Step:
    """Returns a step; services without regions are in us-east-1."""
    path = f"{kind.request.service}/{ref.get('region', GLOBAL_REGION)}"
    return kind.step(ensure, ref, path, body, operation)


def policy(file: str, **values: str) -> Any:
    """Returns a document of deploy/aws with values in place of ``<...>``."""
    text = assets.read_text(f"deploy/aws/{file}")
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return parse_json(text, file)


def bucket_of(target: Target) -> str:
    """Returns the name of the bucket of a target's account and region."""
    return naming.bucket_name(target.account or naming.ACCOUNT, str(target.region))


def bucket(target: Target) -> Iterator[Step]:
    """Yields the steps of a bucket: private, TLS only, owned by this account."""
    name, region = bucket_of(target), str(target.region)
    # In S3 this region has no LocationConstraint.
    own_region = {} if region == GLOBAL_REGION else {"LocationConstraint": region}
    configuration = own_region | {"Tags": [{"Key": SHARED, "Value": "bucket"}]}
    owner = {"Bucket": name, "ExpectedBucketOwner": target.account}
    closed = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    access = {"PublicAccessBlockConfiguration": dict.fromkeys(closed, True)}
    tls = {"Policy": json.dumps(policy("bucket-policy.json", bucket=name))}
    ref = {"region": region, "name": name}
    body = {"Bucket": name, "CreateBucketConfiguration": configuration}
    yield step(f"bucket {name}", account_kinds.BUCKET, ref, "CreateBucket", body)
    kind, ensure = account_kinds.BUCKET_ACCESS, f"bucket {name} blocks public access"
    yield step(ensure, kind, ref, "PutPublicAccessBlock", owner | access)
    kind, ensure = account_kinds.BUCKET_POLICY, f"bucket {name} requires TLS"
    yield step(ensure, kind, ref, "PutBucketPolicy", owner | tls)


def schedule_group(plan: Plan) -> str:
    """Returns the name of a run's schedule group."""
    longest = naming.LONGEST_GROUP - len(naming.PREFIX)
    return naming.PREFIX + derived_name(plan.run, plan.spec_hash, longest)


def run_end(plan: Plan) -> Iterator[Step]:
    """Yields the steps that end a run without a launcher, before anything that is billed.

    With --keep-cluster only the node group ends.
    """
    pool, limits, region = pool_of(plan), plan.limits, str(plan.target.region)
    jobs = (limits.deadline_seconds + pool.keep_seconds) * pool.served_runs
    seconds = jobs + 2 * limits.gang_timeout_seconds + _CLUSTER_SECONDS + _SPARE_SECONDS
    group, cluster = schedule_group(plan), plan.target.cluster
    ref = {"region": region, "name": group}
    body: dict[str, Any] = {"Name": group, "Tags": _tags(plan)}
    yield step("schedules", kinds.SCHEDULES, ref, "CreateScheduleGroup", body)
    nodes = {"ClusterName": cluster, "NodegroupName": pool.name}
    targets = [("nodes", "node group", "deleteNodegroup", nodes)]
    if not pool.keep_cluster:
        targets.append(("cluster", "unused cluster", "deleteCluster", {"Name": cluster}))
    for name, what, operation, arguments in targets:
        ref = {"region": region, "group": group, "name": name}
        ensure = f"{what} is deleted after {seconds / HOUR_SECONDS:.3g} h without a launcher"
        body = {
            "Name": name,
            "GroupName": group,
            "ScheduleExpression": "rate(1 hours)",
            "StartDate": {"$after_seconds": round(seconds)},
            "EndDate": {"$after_seconds": round(seconds + DAY_SECONDS)},
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": {
                "Arn": f"arn:aws:scheduler:::aws-sdk:eks:{operation}",
                "RoleArn": naming.role_arn(str(plan.target.account), naming.END_ROLE),
                "Input": json.dumps(arguments),
                "RetryPolicy": {"MaximumRetryAttempts": 0},  # the next hour is the next attempt
            },
        }
        yield step(ensure, kinds.SCHEDULE, ref, "CreateSchedule", body)


def cluster(target: Target) -> Step:
    """Returns the step of the cluster: access for its creator only, standard support."""
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
    ref = {"region": str(target.region), "name": str(target.cluster)}
    ensure = f"EKS cluster {target.cluster}"
    return step(ensure, kinds.CLUSTER, ref, "CreateCluster", body)


def cluster_parts(target: Target) -> Iterator[Step]:
    """Yields the steps of the add-ons and the role of pods, before the cluster has nodes.

    The network plugin enforces NetworkPolicy. EKS installs it as self-managed in each new cluster, so the
    add-on has to overwrite its fields
    (https://github.com/aws/amazon-network-policy-controller-k8s/issues/200, read 2026-11-22).
    """
    where = {"region": str(target.region), "cluster": str(target.cluster)}
    plugin = {"configurationValues": json.dumps(naming.ENABLE_POLICIES)}
    plugin |= {"resolveConflicts": "OVERWRITE"}
    own: dict[str, Any] = {"clusterName": target.cluster}
    for name, settings in ((naming.NETWORK_PLUGIN, plugin), (naming.POD_AGENT, {})):
        body = own | {"addonName": name, "tags": {SHARED: "add-on"}} | settings
        ref = where | {"name": name}
        yield step(f"EKS add-on {name}", kinds.ADD_ON, ref, "CreateAddon", body)
    names = {"namespace": str(target.namespace), "account": str(target.service_account)}
    body = own | {
        "namespace": names["namespace"],
        "serviceAccount": names["account"],
        "roleArn": naming.role_arn(str(target.account), naming.POD_ROLE),
        "tags": {SHARED: "identity"},
    }
    ensure, method = f"role of pods {'/'.join(names.values())}", "CreatePodIdentityAssociation"
    yield step(ensure, kinds.IDENTITY, where | names, method, body)


def template_name(plan: Plan) -> str:
    """Returns the name of a plan's launch template: another reservation needs another one."""
    pool = pool_of(plan)
    return f"{pool.name}-{reservation_id(str(pool.reservation)).removeprefix('cr-')}"


def template(plan: Plan) -> Iterator[Step]:
    """Yields the step of the launch template of nodes in a reservation.

    It has what the node group may then not have.
    """
    pool = pool_of(plan)
    if not pool.reservation:
        return
    one, name = reservation_id(pool.reservation), template_name(plan)
    disk = {"VolumeSize": DISK_GIB, "VolumeType": "gp3", "DeleteOnTermination": True}
    data: dict[str, Any] = {
        "InstanceType": pool.node_type,
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": disk}],
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": one}
        },
    }
    if pool.prepaid:
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    body = {
        "LaunchTemplateName": name,
        "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": _tags(plan)}],
    }
    ref = {"region": str(plan.target.region), "name": name}
    ensure = f"launch template for {pool.reservation}"
    yield step(ensure, kinds.TEMPLATE, ref, "CreateLaunchTemplate", body)


def empty_pool(plan: Plan) -> Step:
    """Returns the step of the empty node group: one zone, no taint since EKS' pods need a node."""
    pool, labels = pool_of(plan), plan.labels().as_dict()
    gpus = dict(GPU_NODE) if plan.workers.accelerators_per_node else {}
    body: dict[str, Any] = {
        "clusterName": plan.target.cluster,
        "nodegroupName": pool.name,
        "scalingConfig": {"minSize": 0, "maxSize": plan.workers.nodes, "desiredSize": 0},
        "subnets": [plan.target.details["subnet"]],
        "amiType": machine(pool.node_type).image,
        "capacityType": "SPOT" if pool.market == "spot" else "ON_DEMAND",
        "nodeRole": naming.role_arn(str(plan.target.account), naming.NODE_ROLE),
        "labels": {RUN: plan.run} | gpus,
    }
    if pool.reservation:
        body["launchTemplate"] = {"name": template_name(plan), "version": "1"}
        body["tags"] = labels | {naming.NODE_TYPE: pool.node_type}  # EKS does not show it then
    else:
        body |= {"diskSize": DISK_GIB, "instanceTypes": [pool.node_type], "tags": labels}
    if pool.prepaid:
        body["capacityType"] = "CAPACITY_BLOCK"
    ensure = f"EKS node group {pool.name}, empty"
    return step(ensure, kinds.POOL, _pool_ref(plan), "CreateNodegroup", body)


def scheduled_end(plan: Plan, seconds: float) -> Step:
    """Returns the step that makes AWS remove the nodes after some seconds."""
    body = {
        "AutoScalingGroupName": {"$ref": naming.GROUP_OF_POOL},
        "ScheduledActionName": DEADLINE,
        "StartTime": {"$after_seconds": round(seconds)},
        "MinSize": 0,
        "DesiredCapacity": 0,
    }
    ensure = f"end of all nodes of {plan.run} after {seconds / HOUR_SECONDS:.3g} h"
    kind, method = kinds.POOL_END, "PutScheduledUpdateGroupAction"
    return step(ensure, kind, _pool_ref(plan), method, body)


def full_pool(plan: Plan) -> Step:
    """Returns the step that starts the nodes."""
    pool, nodes = pool_of(plan), plan.workers.nodes
    body = {
        "clusterName": plan.target.cluster,
        "nodegroupName": pool.name,
        "scalingConfig": {"minSize": 0, "maxSize": nodes, "desiredSize": nodes},
    }
    ensure = f"{nodes} x {pool.node_type} in {pool.name}"
    kind, method = kinds.POOL_SIZE, "UpdateNodegroupConfig"
    return step(ensure, kind, _pool_ref(plan), method, body)


def _pool_ref(plan: Plan) -> dict[str, str]:
    where = {"region": str(plan.target.region), "cluster": str(plan.target.cluster)}
    return where | {"name": pool_of(plan).name}


def _tags(plan: Plan) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in plan.labels().as_dict().items()]
