"""EKS: clusters, node groups, add-ons and pod identities, with their provisioning times."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from emulators.aws.scaling import Scaling
from emulators.aws.state import VERSION, Body, Group, Plane, Pool, Service, State, roles
from emulators.aws.wire import Call, Refusal

NETWORK_PLUGIN = "vpc-cni"
CONFLICT = (
    "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. Conflicts:"
    " CustomResourceDefinition.apiextensions.k8s.io policyendpoints.networking.k8s.aws - .spec.versions"
)


class Eks(Service):
    """Answers for EKS."""

    def __init__(self, state: State, scaling: Scaling) -> None:
        self._state, self._scaling = state, scaling
        self.became_active: Callable[[], None] = lambda: None

    def answer(self, call: Call) -> Body:
        asked = {key: value for key, value in call.asked.items() if key != "clientRequestToken"}
        return super().answer(call._replace(asked=asked))

    def DescribeClusterVersions(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"clusterVersions": [{"clusterVersion": VERSION, "defaultVersion": True}]}

    # Clusters.

    def CreateCluster(self, region: str, asked: Body) -> Body:  # noqa: N802
        name = asked["name"]
        if (region, name) in self._state.planes:
            raise Refusal(
                "ResourceInUseException", f"Cluster already exists with name: {name}", 409
            )
        self._check_role(asked["roleArn"])
        zones = {self._zone(region, one) for one in asked["resourcesVpcConfig"]["subnetIds"]}
        if len(zones) < 2:
            text = "Subnets specified must be in at least two different AZs"
            raise Refusal("InvalidParameterException", text)
        if asked.get("version") != VERSION:
            raise Refusal("InvalidParameterException", "unsupported Kubernetes version")
        plane = Plane(asked, region, pending=self._state.pending)
        self._state.planes[region, name] = plane
        return {"cluster": self._cluster(plane)}

    def DescribeCluster(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane = self._plane(region, asked["name"])
        shown, before = {"cluster": self._cluster(plane)}, plane.status
        if not _turn(plane):
            del self._state.planes[region, asked["name"]]
        elif (before, plane.status) == ("CREATING", "ACTIVE"):
            self.became_active()
        return shown

    def ListClusters(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"clusters": [name for place, name in self._state.planes if place == region]}

    def DeleteCluster(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane = self._plane(region, asked["name"])
        if plane.pools:
            raise Refusal("ResourceInUseException", "Cluster has nodegroups attached", 409)
        if plane.status == "CREATING":
            text = (
                f"Cannot delete because cluster {asked['name']} currently has an update in progress"
            )
            raise Refusal("ResourceInUseException", text, 409)
        plane.status, plane.after, plane.pending = "DELETING", "", self._state.pending
        return {"cluster": self._cluster(plane)}

    # Node groups.

    def CreateNodegroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane, name = self._active(region, asked["clusterName"]), asked["nodegroupName"]
        if name in plane.pools:
            raise Refusal(
                "ResourceInUseException", f"NodeGroup already exists with name {name}", 409
            )
        self._check_role(asked["nodeRole"])
        for subnet in asked["subnets"]:
            self._zone(region, subnet)
        sizes = asked["scalingConfig"]
        if not sizes["minSize"] <= sizes["desiredSize"] <= sizes["maxSize"] or not sizes["maxSize"]:
            raise Refusal("InvalidParameterException", "desired capacity is out of its limits")
        node_type, reservation = self._instances(region, asked)
        group = Group(
            f"eks-{name}-{secrets.token_hex(8)}",
            region,
            node_type,
            asked["capacityType"] == "SPOT",
            asked["labels"] | {"eks.amazonaws.com/nodegroup": name},
            sizes["maxSize"],
            sizes["minSize"],
            reservation=reservation,
        )
        pool = plane.pools[name] = Pool(asked, group, pending=self._state.pending)
        self._scaling.resize(group, sizes["desiredSize"])
        return {"nodegroup": _pool(pool)}

    def _instances(self, region: str, asked: Body) -> tuple[str, str]:
        """Returns the instance type of a node group, and its reservation.

        With a launch template, EKS refuses a disk size, and an instance type in both places
        (https://github.com/terraform-aws-modules/terraform-aws-eks/issues/1386; botocore's description of
        CreateNodegroup). A Capacity Block needs a launch template with its market type
        (https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html, all read 2026-11-22).
        """
        is_block = asked.get("capacityType") == "CAPACITY_BLOCK"
        if "launchTemplate" not in asked:
            if is_block:
                raise Refusal("InvalidParameterException", "CAPACITY_BLOCK needs a launch template")
            return asked["instanceTypes"][0], ""
        named = asked["launchTemplate"]["name"]
        template = self._state.networks[region].templates.get(named)
        if template is None:
            raise Refusal("InvalidRequestException", f"Launch template {named} was not found")
        data = template["LaunchTemplateData"]
        if "diskSize" in asked:
            raise Refusal("InvalidParameterException", "Disk size must be in the launch template")
        if "instanceTypes" in asked:
            text = "Cannot specify instance types in launch template and API Request"
            raise Refusal("InvalidRequestException", text)
        market = data.get("InstanceMarketOptions", {}).get("MarketType")
        if is_block != (market == "capacity-block"):
            raise Refusal("InvalidParameterException", "capacity type and market type disagree")
        target = data.get("CapacityReservationSpecification", {}).get(
            "CapacityReservationTarget", {}
        )
        return data["InstanceType"], target.get("CapacityReservationId", "")

    def DescribeNodegroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane, pool = self._pool(region, asked)
        shown = {"nodegroup": _pool(pool)}
        if not _turn(pool):
            self._scaling.resize(pool.group, 0)
            del plane.pools[asked["nodegroupName"]]
        return shown

    def ListNodegroups(self, region: str, asked: Body) -> Body:  # noqa: N802
        return {"nodegroups": list(self._plane(region, asked["clusterName"]).pools)}

    def UpdateNodegroupConfig(self, region: str, asked: Body) -> Body:  # noqa: N802
        _, pool = self._pool(region, asked)
        if pool.status != "ACTIVE":
            text = "Nodegroup cannot be updated as it is currently not in Active State"
            raise Refusal("ResourceInUseException", text, 409)
        sizes = pool.body["scalingConfig"] = pool.body["scalingConfig"] | asked["scalingConfig"]
        pool.group.largest, pool.group.smallest = sizes["maxSize"], sizes["minSize"]
        pool.status, pool.after, pool.pending = "UPDATING", "ACTIVE", self._state.pending
        self._scaling.resize(pool.group, sizes["desiredSize"])
        return {"update": {"id": secrets.token_hex(8), "status": "InProgress"}}

    def DeleteNodegroup(self, region: str, asked: Body) -> Body:  # noqa: N802
        _, pool = self._pool(region, asked)
        if pool.status in {"CREATING", "UPDATING"}:
            text = f"Nodegroup is {pool.status}: it cannot be deleted now"
            raise Refusal("ResourceInUseException", text, 409)
        pool.status, pool.after, pool.pending = "DELETING", "", self._state.pending
        return {"nodegroup": _pool(pool)}

    # Parts of a cluster.

    def CreateAddon(self, region: str, asked: Body) -> Body:  # noqa: N802
        """Refuses what EKS refuses, and fails where its own objects are in the way.

        PRESERVE: https://github.com/eksctl-io/eksctl/pull/5880. Values outside the schema, in which
        enableNetworkPolicy is a string: https://github.com/aws/amazon-vpc-cni-k8s/issues/2173 and
        https://github.com/awslabs/cdk-eks-blueprints/pull/851. Each new cluster has a self-managed
        plugin, so without OVERWRITE the add-on fails by a conflict:
        https://github.com/aws/amazon-network-policy-controller-k8s/issues/200 (all read 2026-11-22).
        """
        plane, name = self._active(region, asked["clusterName"]), asked["addonName"]
        if name in plane.add_ons:
            raise Refusal("ResourceInUseException", "Addon already exists.", 409)
        how = asked.get("resolveConflicts", "NONE")
        if how == "PRESERVE":
            why = "Resolve conflicts option preserve is not supported for operation CreateAddon"
            raise Refusal("InvalidParameterException", why)
        _check_values(name, asked.get("configurationValues", "{}"))
        kept = {key: value for key, value in asked.items() if key != "resolveConflicts"}
        if name == NETWORK_PLUGIN and how != "OVERWRITE":
            issue = {"code": "ConfigurationConflict", "message": CONFLICT}
            kept |= {"status": "CREATE_FAILED", "health": {"issues": [issue]}}
        plane.add_ons[name] = kept
        return {"addon": {"status": "CREATING"} | kept}

    def DescribeAddon(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane = self._plane(region, asked["clusterName"])
        found = _one(plane.add_ons, asked["addonName"])
        has_nodes = any(pool.group.machines for pool in plane.pools.values())
        return {"addon": {"status": "ACTIVE" if has_nodes else "CREATING"} | found}

    def DeleteAddon(self, region: str, asked: Body) -> Body:  # noqa: N802
        there = self._plane(region, asked["clusterName"]).add_ons
        found = _one(there, asked["addonName"])
        del there[asked["addonName"]]
        return {"addon": found | {"status": "DELETING"}}

    def CreatePodIdentityAssociation(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane = self._active(region, asked["clusterName"])
        self._check_role(asked["roleArn"])
        who = (asked["namespace"], asked["serviceAccount"])
        if any(
            (one["namespace"], one["serviceAccount"]) == who for one in plane.identities.values()
        ):
            raise Refusal("ResourceInUseException", "Association already exists: a-0", 409)
        known = f"a-{secrets.token_hex(8)}"
        plane.identities[known] = asked | {"associationId": known}
        return {"association": plane.identities[known]}

    def ListPodIdentityAssociations(self, region: str, asked: Body) -> Body:  # noqa: N802
        plane = self._plane(region, asked["clusterName"])
        keys = ("clusterName", "namespace", "serviceAccount", "associationId")
        found = [
            {key: one[key] for key in keys}
            for one in plane.identities.values()
            if one["namespace"] == asked["namespace"]
            and one["serviceAccount"] == asked["serviceAccount"]
        ]
        return {"associations": found}

    def DescribePodIdentityAssociation(self, region: str, asked: Body) -> Body:  # noqa: N802
        there = self._plane(region, asked["clusterName"]).identities
        return {"association": _one(there, asked["associationId"])}

    def DeletePodIdentityAssociation(self, region: str, asked: Body) -> Body:  # noqa: N802
        there = self._plane(region, asked["clusterName"]).identities
        found = _one(there, asked["associationId"])
        del there[asked["associationId"]]
        return {"association": found}

    def _cluster(self, plane: Plane) -> Body:
        body = plane.body
        kept = {key: body[key] for key in ("name", "version", "roleArn", "tags") if key in body}
        (network,) = {
            one["VpcId"]
            for one in self._state.networks[plane.region].subnets
            if one["SubnetId"] == body["resourcesVpcConfig"]["subnetIds"][0]
        }
        shown = kept | {"status": plane.status, "createdAt": plane.made}
        shown["resourcesVpcConfig"] = body["resourcesVpcConfig"] | {"vpcId": network}
        shown["upgradePolicy"] = body.get("upgradePolicy", {"supportType": "EXTENDED"})
        if plane.status != "CREATING":
            shown["endpoint"] = self._scaling.nodes.url
            shown["certificateAuthority"] = {"data": self._scaling.nodes.authority}
        return shown

    def _plane(self, region: str, name: str) -> Plane:
        found = self._state.planes.get((region, name))
        if found is None:
            raise Refusal("ResourceNotFoundException", f"No cluster found for name: {name}.", 404)
        return found

    def _active(self, region: str, name: str) -> Plane:
        plane = self._plane(region, name)
        if plane.status != "ACTIVE":
            text = f"Cluster {name} is {plane.status}, and must be ACTIVE"
            raise Refusal("InvalidRequestException", text)
        return plane

    def _pool(self, region: str, asked: Body) -> tuple[Plane, Pool]:
        plane = self._plane(region, asked["clusterName"])
        found = plane.pools.get(asked["nodegroupName"])
        if found is None:
            text = f"No node group found for name: {asked['nodegroupName']}."
            raise Refusal("ResourceNotFoundException", text, 404)
        return plane, found

    def _zone(self, region: str, subnet: str) -> str:
        for one in self._state.networks[region].subnets:
            if one["SubnetId"] == subnet:
                return str(one["AvailabilityZone"])
        raise Refusal("InvalidParameterException", f"The subnet ID '{subnet}' does not exist")

    @staticmethod
    def _check_role(arn: str) -> None:
        if arn not in roles():
            text = f"Role with arn: {arn}, could not be assumed"
            raise Refusal("InvalidParameterException", text)


def _check_values(add_on: str, text: str) -> None:
    """Refuses configuration values outside the part of the schema that is used here."""
    values = json.loads(text)
    known = {"enableNetworkPolicy"} if add_on == NETWORK_PLUGIN else set()
    wrong = [f"$.{key}: is not defined in the schema" for key in values if key not in known]
    wrong += [
        f"$.{key}: {type(value).__name__} found, string expected"
        for key, value in values.items()
        if not isinstance(value, str)
    ]
    if wrong:
        why = "ConfigurationValue provided in request is not supported: Json schema validation"
        raise Refusal("InvalidParameterException", f"{why} failed with error: {wrong}")


def _turn(resource: Any) -> bool:
    """Advances the status by one request; False: now it is deleted."""
    if resource.status == "ACTIVE" or resource.status.endswith("_FAILED"):
        return True
    if resource.pending > 0:
        resource.pending -= 1
        return True
    resource.status = resource.after
    return bool(resource.status)


def _pool(pool: Pool) -> Body:
    keys = ("clusterName", "nodegroupName", "scalingConfig", "capacityType")
    # As in AWS' reference: instance types only without a launch template.
    shown = {key: pool.body[key] for key in ("instanceTypes",) if key in pool.body}
    shown |= {key: pool.body[key] for key in (*keys, "tags", "labels", "subnets", "amiType")}
    shown |= {"status": pool.status, "createdAt": pool.made, "health": {"issues": pool.issues}}
    return shown | {"resources": {"autoScalingGroups": [{"name": pool.group.name}]}}


def _one(there: dict[str, Body], name: str) -> Body:
    """Returns an add-on or an association."""
    if name not in there:
        raise Refusal("ResourceNotFoundException", f"There is no {name}", 404)
    return there[name]
