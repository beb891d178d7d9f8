"""The authorizations that a request takes: actions, resources and condition keys.

Service authorization reference of each service,
https://docs.aws.amazon.com/service-authorization/latest/reference/ (read 2026-11-22). Tags in a
create request also take the permission to tag, and a role in it the permission to pass it. No page
names the service to which EKS passes the roles of nodes and pods: public policies name the ones here,
and each must be allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from emulators.aws.iam_policies import Authorization
from emulators.aws.lookups import LEFT, ON_LEFT
from emulators.aws.state import ACCOUNT, Body, State, roles
from emulators.aws.wire import Call

Found = Iterator[tuple[str, str, dict[str, Any]]]

_S3_ACTIONS = {
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListObjectsV2": "ListBucket",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}
_PASSED_TO = {
    "CreateCluster": ("eks.amazonaws.com",),
    "CreateNodegroup": ("ec2.amazonaws.com", "eks.amazonaws.com"),
    "CreatePodIdentityAssociation": ("eks.amazonaws.com", "pods.eks.amazonaws.com"),
}
_SCHEDULER = "scheduler.amazonaws.com"
_LINKED = {"CreateCluster": "eks.amazonaws.com", "CreateNodegroup": "eks-nodegroup.amazonaws.com"}


def authorizations(
    call: Call,
    state: State,
    path: str = "",
    tags: dict[str, str] | None = None,
    owner: str = ACCOUNT,
) -> list[Authorization]:
    """Returns what a request takes, at the time before it acts.

    Args:
        call: The request.
        state: Of the account; IAM's is moto's.
        path: Of an S3 request, such as ``/bucket/key``.
        tags: In an S3 request.
        owner: Account that owns the bucket of an S3 request.
    """
    known: dict[str, Callable[[], Found]] = {
        "autoscaling": lambda: _scaling(call, state),
        "ec2": lambda: _ec2(call, state),
        "eks": lambda: _eks(call, state),
        "iam": lambda: _iam(call),
        "s3": lambda: _s3(call, path, tags or {}, owner),
        "scheduler": lambda: _scheduler(call),
        "servicequotas": lambda: iter([(call.operation, "*", {})]),
        "sts": lambda: iter([(call.operation, "*", {})]),
    }
    return [
        Authorization(
            action if ":" in action else f"{call.service}:{action}", resource, _context(others)
        )
        for action, resource, others in known[call.service]()
    ]


def _context(others: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, Any] = {"aws:principalaccount": ACCOUNT, "aws:resourceaccount": ACCOUNT}
    asked, there = others.pop("request_tags", {}), others.pop("resource_tags", {})
    found |= {f"aws:requesttag/{key}": value for key, value in asked.items()}
    found |= {f"aws:resourcetag/{key}": value for key, value in there.items()}
    if asked:
        found["aws:tagkeys"] = tuple(asked)
    found |= {key: value for key, value in others.items() if value}
    return {key: value if isinstance(value, tuple) else (value,) for key, value in found.items()}


def _eks(call: Call, state: State) -> Found:
    asked, name = call.asked, call.operation
    cluster = asked.get("clusterName") or asked.get("name") or "*"
    plane = state.planes.get((call.region, cluster))
    root = f"arn:aws:eks:{call.region}:{ACCOUNT}"
    own = f"{root}:cluster/{cluster}" if cluster != "*" else "*"
    here = {"resource_tags": dict(plane.body.get("tags", {})) if plane else {}}
    part, there = _part_of_cluster(call, state)
    tags = dict(asked.get("tags") or {})
    if name.startswith("Create"):
        yield name, own, (here if name != "CreateCluster" else {}) | {"request_tags": tags}
        if tags:
            made = f"{root}:{part}" if part else own
            yield "TagResource", made, {"request_tags": dict(tags)}
    elif part and not name.startswith("List"):
        yield name, f"{root}:{part}", {"resource_tags": there}
    else:
        yield name, own, here
    if name == "CreateNodegroup":
        yield from _launch(call, state)
    role = asked.get("roleArn") or asked.get("nodeRole")
    for service in _PASSED_TO.get(name, ()) if role else ():
        yield "iam:PassRole", role, {"iam:passedtoservice": service}
    if name in _LINKED:
        role = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{_LINKED[name]}/AWSServiceRole"
        yield "iam:CreateServiceLinkedRole", role, {"iam:awsservicename": _LINKED[name]}


def _part_of_cluster(call: Call, state: State) -> tuple[str, dict[str, str]]:
    """Returns the end of the ARN of a node group, add-on or association, and its tags."""
    asked = call.asked
    cluster = asked.get("clusterName", "")
    plane = state.planes.get((call.region, cluster))
    found: Body | None = None
    if "nodegroupName" in asked:
        pool = plane.pools.get(asked["nodegroupName"]) if plane else None
        part, found = f"nodegroup/{cluster}/{asked['nodegroupName']}/0a1b", pool and pool.body
    elif "addonName" in asked:
        part = f"addon/{cluster}/{asked['addonName']}/0a1b"
        found = plane.add_ons.get(asked["addonName"]) if plane else None
    elif "PodIdentityAssociation" in call.operation:
        known = asked.get("associationId", "a-new")
        part = f"podidentityassociation/{cluster}/{known}"
        found = plane.identities.get(known) if plane else None
    else:
        return "", {}
    return part, dict((found or {}).get("tags", {}))


def _scaling(call: Call, state: State) -> Found:
    if call.operation.startswith("Describe"):
        yield call.operation, "*", {}
        return
    name = call.asked["AutoScalingGroupName"]
    root = f"arn:aws:autoscaling:{call.region}:{ACCOUNT}:autoScalingGroup:0a1b"
    owner: dict[str, str] = {}
    for (_, cluster), plane in state.planes.items():
        if any(pool.group.name == name for pool in plane.pools.values()):
            owner = {"eks:cluster-name": cluster}  # EKS tags the group so
    yield call.operation, f"{root}:autoScalingGroupName/{name}", {"resource_tags": owner}


def _scheduler(call: Call) -> Found:
    """Deleting a group also takes the right to delete its schedules.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_scheduler.html (read
    2026-11-23).
    """
    asked, name = call.asked, call.operation
    root = f"arn:aws:scheduler:{call.region}:{ACCOUNT}"
    if "GroupName" in asked:
        yield name, f"{root}:schedule/{asked['GroupName']}/{asked['Name']}", {}
        if "Target" in asked:
            yield "iam:PassRole", asked["Target"]["RoleArn"], {"iam:passedtoservice": _SCHEDULER}
        return
    group = asked.get("ResourceArn") or f"{root}:schedule-group/{asked.get('Name', '*')}"
    tags = {one["Key"]: one["Value"] for one in asked.get("Tags") or ()}
    yield name, "*" if name == "ListScheduleGroups" else group, {"request_tags": dict(tags)}
    if tags:
        yield "TagResource", group, {"request_tags": dict(tags)}
    if name == "DeleteScheduleGroup":
        yield "DeleteSchedule", f"{root}:schedule/{asked['Name']}/*", {}


def _ec2(call: Call, state: State) -> Found:
    network, root = state.networks[call.region], f"arn:aws:ec2:{call.region}:{ACCOUNT}"
    found = ON_LEFT.fullmatch(call.operation)
    if found and found[1] != "Describe":
        row = LEFT[found[2]]
        name = call.asked.get(row.key) or call.asked["InstanceIds"][0]
        there = [one for one in getattr(network, row.place) if one[row.key] == name]
        tags = [one.get("Tags") or one["TagSet"] for one in there]
        kind = re.sub("(?<!^)(?=[A-Z])", "-", found[2]).lower()
        resource = f"{root}:{kind}/{name}"
    elif call.operation == "CreateLaunchTemplate":
        resource = f"{root}:launch-template/lt-new"
        listed = [tag for one in call.asked.get("TagSpecifications", ()) for tag in one["Tags"]]
        sent = {one["Key"]: one["Value"] for one in listed}
        yield call.operation, resource, {"request_tags": dict(sent)}
        action = {"ec2:createaction": call.operation, "request_tags": dict(sent)}
        yield "CreateTags", resource, action
        return
    elif call.operation == "DeleteLaunchTemplate":
        name = call.asked["LaunchTemplateName"]
        tags = [network.templates[name]["Tags"]] if name in network.templates else []
        resource = f"{root}:launch-template/lt-{name}"
    else:
        yield call.operation, "*", {}
        return
    there = {one["Key"]: one["Value"] for many in tags for one in many}
    yield call.operation, resource, {"resource_tags": there}


def _launch(call: Call, state: State) -> Found:
    """Returns what EKS tries for the caller of CreateNodegroup with a launch template: RunInstances.

    Without it EKS answers "You are not authorized to launch instances with this launch template"
    (https://github.com/aws-samples/terraform-eks-code/issues/13, read 2026-11-22).
    """
    name = (call.asked.get("launchTemplate") or {}).get("name")
    template = state.networks[call.region].templates.get(name)
    if template is None:
        return
    root = f"arn:aws:ec2:{call.region}:{ACCOUNT}"
    own = f"{root}:launch-template/lt-{name}"
    tags = {one["Key"]: one["Value"] for one in template["Tags"]}
    yield "ec2:RunInstances", own, {"resource_tags": tags}
    image = f"arn:aws:ec2:{call.region}::image/ami-1"
    parts = ("instance", "network-interface", "security-group", "subnet", "volume")
    for resource in (image, *(f"{root}:{part}/*" for part in parts)):
        yield "ec2:RunInstances", resource, {"ec2:launchtemplate": own}


def _iam(call: Call) -> Found:
    asked, name = call.asked, call.operation
    if name == "SimulatePrincipalPolicy":
        yield name, asked["PolicySourceArn"], {}
        return
    root = f"arn:aws:iam::{ACCOUNT}"
    tags = {one["Key"]: one["Value"] for one in asked.get("Tags") or ()}
    if "RoleName" in asked:
        resource, kind = f"{root}:role/{asked['RoleName']}", "Role"
        boundary = asked.get("PermissionsBoundary")
        if name != "CreateRole":
            boundary = getattr(roles().get(resource), "permissions_boundary_arn", None)
        others = {"iam:permissionsboundary": boundary, "iam:policyarn": asked.get("PolicyArn")}
    else:
        resource = asked.get("PolicyArn") or f"{root}:policy/{asked['PolicyName']}"
        kind, others = "Policy", {}
    yield name, resource, others | {"request_tags": dict(tags)}
    if tags and name.startswith("Create"):
        yield f"Tag{kind}", resource, {"request_tags": dict(tags)}


def _s3(call: Call, path: str, tags: dict[str, str], owner: str) -> Found:
    bucket, _, key = path.lstrip("/").partition("/")
    action = _S3_ACTIONS.get(call.operation, call.operation)
    resource = f"arn:aws:s3:::{bucket}{f'/{key}' if key else ''}" if bucket else "*"
    others = {"aws:resourceaccount": owner}
    yield action, resource, others | {"request_tags": dict(tags)}
    if tags and action == "CreateBucket":
        yield "TagResource", resource, others | {"request_tags": dict(tags)}
