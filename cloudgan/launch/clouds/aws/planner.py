"""The AWS planner: targets, node groups, the order of the requests of a plan and of `setup`. Pure, needs no SDK.

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

import json
from collections.abc import Iterator
from typing import Any, Final

from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.errors import PlanError
from cloudgan.core.labels import SHARED
from cloudgan.launch.backends.kubernetes.permissions import review_step
from cloudgan.launch.clouds.aws import account_kinds, bodies, naming
from cloudgan.launch.clouds.aws.machines import machine
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
    desired_state_step,
    pool_of,
    unused_network,
)
from cloudgan.launch.kubernetes.manifests import device_plugin_step
from cloudgan.schema.plan import NodePool, Plan, Step, Target, Workers
from cloudgan.schema.price_row import PoolFee

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


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node group."""
    found = machine(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is only valid with --provider=gcp; on AWS, --market=spot is cheaper"
        )
    if found.image_problem and not wanted.has_own_image:
        raise PlanError(f"{found.node_type} ({found.accelerator}): {found.image_problem}")
    notes = (unused_network(wanted, found.network),) if wanted.nodes > 1 and found.network else ()
    reservation = bodies.reservation(wanted.reservation) if wanted.reservation else None
    return wanted.pool(
        naming.LONGEST_POOL,
        prepaid=reservation is not None and reservation.is_block,
        ends_cluster=not wanted.keep_cluster,
        fees=(
            PoolFee(kind="disk", product=_DISK, quantity=bodies.DISK_GIB),
            PoolFee(kind="public_ip", product="public IPv4"),
        ),
        notes=(*notes, reservation.note) if reservation else notes,
    )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the workers with the grace period of a spot node."""
    del node_pool
    return workers.model_copy(update={"grace_seconds": _GRACE_SECONDS})


def store_url(target: Target) -> str:
    """Returns the URL of the account's bucket."""
    return f"s3://{bodies.bucket_of(target)}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps before those of the run's Kubernetes objects.

    The node group is created empty, gets its scheduled end, and only then scales to the run's size.
    """
    target = plan.target
    own_bucket = plan.store.split("/")[2:3] == [bodies.bucket_of(target)]
    return (
        *(bodies.bucket(target) if own_bucket else ()),
        desired_state_step(plan),
        *bodies.template(plan),  # free, so that a refusal costs nothing
        *bodies.run_end(plan),
        bodies.cluster(target),
        review_step(target),
        *bodies.cluster_parts(target),
        *((device_plugin_step(),) if plan.workers.accelerators_per_node else ()),
        bodies.empty_pool(plan),
        bodies.end_of_pool(plan),
        bodies.full_pool(plan),
    )


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the request that moves the scheduled end of the nodes to that of their waiting."""
    return (bodies.scheduled_end(plan, pool_of(plan).keep_seconds),)


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the one-time steps of an account and region."""
    account = target.account or naming.ACCOUNT
    boundary = {
        "PolicyName": naming.BOUNDARY,
        "PolicyDocument": json.dumps(bodies.policy("boundary.json")),
        "Tags": [{"Key": SHARED, "Value": "boundary"}],
    }
    ref = {"account": account, "name": naming.BOUNDARY}
    ensure = f"permissions boundary {naming.BOUNDARY}"
    return (
        *bodies.bucket(target),
        bodies.step(ensure, account_kinds.BOUNDARY, ref, "CreatePolicy", boundary),
        *(one for role in naming.ROLES for one in _role_steps(account, role)),
    )


def role_document(account: str, role: str) -> dict[str, Any]:
    """Returns trust, boundary, managed and own policies of a role."""
    found: dict[str, Any] = bodies.policy("roles.json", account=account)[role]
    return found


def _role_steps(account: str, role: str) -> Iterator[Step]:
    found, ref, name = role_document(account, role), {"name": role}, {"RoleName": role}
    body: dict[str, Any] = name | {
        "AssumeRolePolicyDocument": json.dumps(found["trust"]),
        "PermissionsBoundary": found["boundary"],
        "Tags": [{"Key": SHARED, "Value": "role"}],
    }
    yield bodies.step(f"IAM role {role}", account_kinds.ROLE, ref, "CreateRole", body)
    for arn in found["managed"]:
        managed = arn.rpartition("/")[2]
        where, kind = ref | {"policy": managed}, account_kinds.MANAGED_POLICY
        body, ensure = name | {"PolicyArn": arn}, f"policy {managed} of {role}"
        yield bodies.step(ensure, kind, where, "AttachRolePolicy", body)
    for own, document in found["policies"].items():
        body = name | {"PolicyName": own, "PolicyDocument": json.dumps(document)}
        where, kind = ref | {"policy": own}, account_kinds.ROLE_POLICY
        yield bodies.step(f"policy {own} of {role}", kind, where, "PutRolePolicy", body)
