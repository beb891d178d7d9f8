"""Rows of a run and its cluster: EKS, EC2, EventBridge Scheduler; `KINDS` has all rows of AWS.

A managed node group's tags reach neither its Auto Scaling group nor its instances
(https://github.com/aws/containers-roadmap/issues/2554); EKS tags the instances with `eks:cluster-name`
and `eks:nodegroup-name` (https://github.com/eksctl-io/eksctl/issues/2607), and EKS and its network plugin
tag the rest with the cluster's name (https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html,
https://github.com/aws/amazon-vpc-cni-k8s; all read 2026-11-22). So what a deleted cluster left is found by
these tags. Interfaces and security groups are free, but keep a VPC alive.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws import naming
from cloudgan.launch.clouds.aws.account_kinds import KINDS as ACCOUNT_KINDS
from cloudgan.launch.clouds.aws.errors import RefusedError, cause_of, is_permanent
from cloudgan.launch.clouds.aws.requests import Aws, Requests, asked, row, tags_of
from cloudgan.launch.clouds.resource import Resource, ResourceCause, ResourceState
from cloudgan.launch.clouds.rows import AbsentError, Body, resolve
from cloudgan.schema.plan import Step

_LATE: Final = dt.timedelta(seconds=600)
"""Tolerance for the ends that a previous attempt scheduled."""
_FEES: Final = {"STANDARD": "EKS standard support", "EXTENDED": "EKS extended support"}
_CLUSTER_STATES: Final[Mapping[str, ResourceState]] = {
    "ACTIVE": "ready",
    "UPDATING": "ready",  # the API stays available
    "DELETING": "deleting",
    "FAILED": "failed",
}
_POOL_STATES: Final[Mapping[str, ResourceState]] = {
    "ACTIVE": "ready",
    "DELETING": "deleting",
    **dict.fromkeys(("CREATE_FAILED", "DELETE_FAILED", "DEGRADED"), "failed"),
}
_PART_STATES: Final[Mapping[str, ResourceState]] = {
    # CREATING stays so without a node; nothing waits for it.
    **dict.fromkeys(("CREATING", "ACTIVE", "UPDATING", "DEGRADED"), "ready"),
    "DELETING": "deleting",
}


def is_managed(resource: Resource | None) -> bool:
    """Returns whether cloudgan created a resource for all runs."""
    return resource is not None and SHARED in resource.labels


def _with_issues(resource: Resource, body: Body) -> Resource:
    listed = (body.get("health") or {}).get("issues") or ()
    why = "; ".join(f"{one.get('message') or ''} ({one.get('code')})" for one in listed)
    return replace(resource, reason=why, cause=cause_of(why))


def _cluster(resource: Resource, body: Body) -> Resource:
    support = (body.get("upgradePolicy") or {}).get("supportType", "STANDARD")
    return replace(_with_issues(resource, body), fee=_FEES.get(support))


def _part(resource: Resource, body: Body) -> Resource:
    region, cluster, *_ = resource.name.split("/")
    return replace(_with_issues(resource, body), cause="", parent=f"{region}/{cluster}")


def _find_add_on(aws: Aws, step: Step) -> Resource | None:
    """Returns the add-on; an existing cluster's network plugin counts as found.

    A cluster that cloudgan did not create keeps its own plugin: replacing the settings of a
    cluster's network is not a launcher's business.
    """
    name = ADD_ON.name_of(step.ref)
    if body := aws.get(ADD_ON, name):
        return ADD_ON.resource(name, body)
    cluster, _, add_on = name.rpartition("/")
    if add_on != naming.NETWORK_PLUGIN:
        return None
    found = aws.get(CLUSTER, cluster)
    if found and is_managed(CLUSTER.resource(cluster, found)):
        return None
    return ADD_ON.resource(name, {"status": "ACTIVE"})


def _association(aws: Aws, ref: Mapping[str, str]) -> Mapping[str, str] | None:
    """Adds the id of a pod identity association."""
    which = {"clusterName": ref["cluster"], "namespace": ref["namespace"]}
    which |= {"serviceAccount": ref["account"]}
    where = "eks", ref["region"], "ListPodIdentityAssociations", "associations"
    try:
        found = next(aws.items(*where, **which), None)
    except AbsentError:
        return None
    return {**ref, "id": found["associationId"]} if found else None


def group_name(body: Body) -> str:
    """Returns the name of a node group's Auto Scaling group; empty: it has none yet."""
    groups = (body.get("resources") or {}).get("autoScalingGroups") or [{}]
    return str(groups[0].get("name", ""))


def _with_group(aws: Aws, name: str, body: dict[str, Any]) -> Body:
    """Adds the Auto Scaling group, which starts the instances."""
    if not (group := group_name(body)):
        return body
    region, names = name.partition("/")[0], {"AutoScalingGroupNames": [group]}
    found = aws.request("autoscaling", region, "DescribeAutoScalingGroups", names)
    return body | {"group": next(iter(found["AutoScalingGroups"]), {})}


def _pool(resource: Resource, body: Body) -> Resource:
    types = body.get("instanceTypes") or [resource.labels.get(naming.NODE_TYPE)]
    return replace(
        _with_issues(resource, body),
        node_type=types[0],
        nodes=len(body.get("group", {}).get("Instances", ())),
        market="spot" if body.get("capacityType") == "SPOT" else "on_demand",
        parent=resource.name.rpartition("/")[0],
    )


def _find_end(aws: Aws, step: Step) -> Resource | None:
    """Returns the node group, if its scheduled end is not before the job's deadline."""
    name = POOL.name_of(step.ref)
    body = aws.get(POOL, name)
    if body is None:
        return None
    query = {"AutoScalingGroupName": group_name(body)}
    place, region = "ScheduledUpdateGroupActions", step.ref["region"]
    planned = aws.items("autoscaling", region, "DescribeScheduledActions", place, **query)
    ends = [one["StartTime"] for one in planned if one.get("DesiredCapacity") == 0]
    is_late = ends and min(ends) >= _moment(step, "StartTime") - _LATE
    return POOL.resource(name, body) if is_late else None


def _find_size(aws: Aws, step: Step) -> Resource | None:
    """Returns the node group of the wanted size; None before the request for that size."""
    name = POOL.name_of(step.ref)
    body = aws.get(POOL, name)
    if body is None:
        return None
    wanted: int = asked(step, "scalingConfig")["desiredSize"]
    resource = replace(POOL.resource(name, body), nodes=wanted)
    if resource.state in ("deleting", "failed"):
        return resource
    group = body.get("group") or {}
    if group.get("DesiredCapacity") != wanted:
        return resource if body["status"] == "UPDATING" else None
    up = sum(one["LifecycleState"] == "InService" for one in group["Instances"])
    if up >= wanted:
        return replace(resource, state="ready")
    why, cause = _why_not(aws, step.ref["region"], str(group["AutoScalingGroupName"]))
    if cause or is_permanent(why):
        return replace(resource, state="failed", reason=why, cause=cause)
    waiting = f"{up} of {wanted} instances run"
    return replace(resource, state="creating", reason=f"{waiting}: {why}" if why else waiting)


def _why_not(aws: Aws, region: str, group: str) -> tuple[str, ResourceCause]:
    """Returns why the latest start of an instance failed; EKS reports it much later."""
    query = {"AutoScalingGroupName": group, "MaxRecords": 20}
    found = aws.request("autoscaling", region, "DescribeScalingActivities", query)
    newest = max(found["Activities"], key=lambda one: one["StartTime"], default=None)
    if newest is None or newest["StatusCode"] != "Failed":
        return "", ""
    message = " ".join(str(newest.get("StatusMessage", "")).split())
    return message, cause_of(message)


def _moment(step: Step, member: str) -> dt.datetime:
    """Returns the time that a step's body asks for."""
    return dt.datetime.fromisoformat(resolve(step.body, str)[member])


def _with_tags_of_group(aws: Aws, name: str, body: dict[str, Any]) -> Body | None:
    region = name.partition("/")[0]
    found = aws.if_exists("scheduler", region, "ListTagsForResource", ResourceArn=body["Arn"])
    return body | {"tags": tags_of(found.get("Tags"))} if found else None


def _find_schedules(aws: Aws, step: Step) -> Resource | None:
    """Returns the schedule group of a step, or that of its schedule if this is not much earlier."""
    is_schedule = "group" in step.ref
    group = f"{step.ref['region']}/{step.ref['group' if is_schedule else 'name']}"
    aws.ensured.setdefault(group, {})[step.ensure] = step
    body = aws.get(SCHEDULES, group)
    found = SCHEDULES.resource(group, body) if body else None
    if found is None or not is_schedule or found.state != "ready":
        return found
    query = {"GroupName": step.ref["group"], "Name": step.ref["name"]}
    there = aws.if_exists("scheduler", step.ref["region"], "GetSchedule", **query)
    earliest = _moment(step, "StartDate") - _LATE
    return found if there and there["StartDate"] >= earliest else None


def _create_schedule(aws: Aws, step: Step, body: Any) -> None:
    """Creates a schedule; one of a previous attempt is moved.

    A group that was being deleted is gone with its schedules: all are created again.
    """
    region = step.ref["region"]
    try:
        aws.request("scheduler", region, "CreateSchedule", body)
    except RefusedError as error:
        if error.code != "ConflictException":
            raise
        aws.request("scheduler", region, "UpdateSchedule", body)
    except AbsentError:
        ensured = aws.ensured.get(f"{region}/{step.ref['group']}")
        if not ensured:
            raise
        for one in ensured.values():
            aws.request("scheduler", region, one.method, resolve(one.body, str))


def _instance(resource: Resource, body: Body) -> Resource:
    is_spot = body.get("InstanceLifecycle") == "spot"
    market: Any = "spot" if is_spot else "on_demand"
    return replace(resource, node_type=body["InstanceType"], nodes=1, market=market)


def _left(what: str, name: str, **how: Any) -> Requests:
    """Returns the requests of EC2 for what a deleted cluster left."""
    return Requests(
        service="ec2",
        get=f"Describe{what}s",
        which={"Filters": [{"Name": name, "Values": ["{name}"]}]},
        labels={SHARED: "leftover"},
        **{"found": f"{what}s", "tags": "Tags", "delete": f"Delete{what}"} | how,
    )


_IN_CLUSTER: Final = "{region}/{cluster}/{name}"
_IN_USE: Final = ("ResourceInUseException",)


def _eks(what: str, which: Mapping[str, str], **how: Any) -> Requests:
    """Returns the requests of EKS for a part of a cluster."""
    names = {"get": f"Describe{what}", "found": what.lower(), "delete": f"Delete{what}"}
    return Requests(service="eks", which=which, **names | {"exists": _IN_USE} | how)


POOL = row(
    "EKS node group",
    10,
    _eks(
        "Nodegroup",
        {"clusterName": "{cluster}", "nodegroupName": "{name}"},
        complete=_with_group,
    ),
    _IN_CLUSTER,
    states=_POOL_STATES,
    otherwise="creating",
    created="createdAt",
    refine=_pool,
)
POOL_END = row(
    "scheduled end of an EKS node group",
    10,
    Requests(service="autoscaling"),
    _IN_CLUSTER,
    find=_find_end,
)
POOL_SIZE = row(
    "size of an EKS node group",
    10,
    Requests(service="eks", busy=_IN_USE),
    _IN_CLUSTER,
    find=_find_size,
)
INTERFACE = row(
    "network interface",
    20,
    _left(
        "NetworkInterface",
        "network-interface-id",
        key="NetworkInterfaceId",
        tags="TagSet",
        deletes={"NetworkInterfaceId": "{name}"},
    ),
    is_free=True,
)
SECURITY_GROUP = row(
    "security group",
    20,
    _left("SecurityGroup", "group-id", key="GroupId", deletes={"GroupId": "{name}"}),
    is_free=True,
)
INSTANCE = row(
    "EC2 instance",
    20,
    _left(
        "Instance",
        "instance-id",
        key="InstanceId",
        found="Reservations.Instances",
        delete="TerminateInstances",
        deletes={"InstanceIds": ["{name}"]},
        # A terminated instance is described for an hour.
        complete=lambda _, __, body: None if body["State"]["Name"] == "terminated" else body,
    ),
    state="State.Name",
    states={"shutting-down": "deleting"},
    created="LaunchTime",
    refine=_instance,
)
VOLUME = row(
    "EBS volume",
    20,
    _left("Volume", "volume-id", key="VolumeId", deletes={"VolumeId": "{name}"}),
    created="CreateTime",
    refine=lambda resource, body: replace(
        resource, fee=f"EBS {body['VolumeType']}, {body['Size']} GiB"
    ),
)
TEMPLATE = row(
    "EC2 launch template",
    20,
    Requests(
        service="ec2",
        get="DescribeLaunchTemplates",
        which={"LaunchTemplateNames": ["{name}"]},
        found="LaunchTemplates",
        delete="DeleteLaunchTemplate",
        deletes={"LaunchTemplateName": "{name}"},
        tags="Tags",
        key="LaunchTemplateName",
        exists=("InvalidLaunchTemplateName.AlreadyExistsException",),
    ),
    created="CreateTime",
    is_free=True,
)
ADD_ON = row(
    "EKS add-on",
    55,
    _eks("Addon", {"clusterName": "{cluster}", "addonName": "{name}"}),
    _IN_CLUSTER,
    states=_PART_STATES,
    otherwise="failed",
    is_free=True,
    may_be_foreign=True,
    refine=_part,
    find=_find_add_on,
)
IDENTITY = row(
    "EKS pod identity",
    55,
    _eks(
        "PodIdentityAssociation",
        {"clusterName": "{cluster}", "associationId": "{id}"},
        found="association",
        search=_association,
    ),
    "{region}/{cluster}/{namespace}/{account}",
    is_free=True,
    may_be_foreign=True,
    refine=_part,
)
CLUSTER = row(
    "EKS cluster",
    58,
    _eks("Cluster", {"name": "{name}"}),
    states=_CLUSTER_STATES,
    otherwise="creating",
    created="createdAt",
    may_be_foreign=True,
    refine=_cluster,
)
SCHEDULES = row(
    "EventBridge schedule group",
    59,
    Requests(
        service="scheduler",
        get="GetScheduleGroup",
        which={"Name": "{name}"},
        delete="DeleteScheduleGroup",
        exists=("ConflictException",),
        complete=_with_tags_of_group,
    ),
    state="State",
    states={"DELETING": "deleting"},
    created="CreationDate",
    is_free=True,
    ends_run=True,
    find=_find_schedules,
)
SCHEDULE = row(
    "EventBridge schedule",
    59,
    Requests(service="scheduler"),
    "{region}/{group}/{name}",
    find=_find_schedules,
    create=_create_schedule,
)
KINDS: Final = (
    *(POOL, POOL_END, POOL_SIZE, INTERFACE, SECURITY_GROUP, INSTANCE, VOLUME, TEMPLATE),
    *(ADD_ON, IDENTITY, CLUSTER, SCHEDULES, SCHEDULE, *ACCOUNT_KINDS),
)
