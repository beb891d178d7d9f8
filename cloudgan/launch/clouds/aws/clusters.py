"""EKS clusters with their shared add-ons and pod identity."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.launch.clouds.aws.error_mapping import cause_of
from cloudgan.launch.clouds.aws.login import ClusterToken
from cloudgan.launch.clouds.aws.planner import NETWORK_PLUGIN
from cloudgan.launch.clouds.aws.resource_handler import (
    CLUSTER_RANK,
    PART_RANK,
    PlannedHandler,
    request_if_exists,
)
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kubeconfig import connect_by_token
from cloudgan.schema.resource import Resource, ResourceState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cloudgan.launch.clouds.aws.account import Account
    from cloudgan.schema.plan import Step

_STATES: Final[Mapping[str, ResourceState]] = {
    "ACTIVE": "ready",
    "CREATING": "creating",
    "PENDING": "creating",
    "UPDATING": "ready",  # the API stays available
    "DELETING": "deleting",
    "FAILED": "failed",
}
_FEES: Final = {"STANDARD": "EKS standard support", "EXTENDED": "EKS extended support"}
_POLICIES_ON: Final = re.compile(r"""enableNetworkPolicy["']?\s*:\s*["']true["']""")
"""In the JSON or YAML of an add-on's configuration values."""
_PART_STATES: Final[Mapping[str, ResourceState]] = {
    "CREATING": "ready",  # stays so without a node; nothing waits for it
    "ACTIVE": "ready",
    "UPDATING": "ready",
    "DEGRADED": "ready",
    "DELETING": "deleting",
}


class Clusters(PlannedHandler):
    """Handler of EKS clusters."""

    kind = "EKS cluster"

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of a cluster."""
        found = self.describe(name)
        return _cluster(name, found) if found else None

    def delete(self, name: str) -> None:
        """Requests deletion, including add-ons and pod identities."""
        region, _, cluster = name.partition("/")
        request_if_exists(self._account, "eks", region, "DeleteCluster", name=cluster)

    def describe(self, name: str) -> dict[str, Any] | None:
        """Returns the EKS description of a cluster; None if absent."""
        region, _, cluster = name.partition("/")
        found = request_if_exists(self._account, "eks", region, "DescribeCluster", name=cluster)
        return found["cluster"] if found else None

    def names(self, region: str) -> Iterator[str]:
        """Yields the names of all clusters of a region."""
        for found in self._account.list_all("eks", region, "ListClusters", "clusters"):
            yield f"{region}/{found}"

    def connect(self, name: str, say: Callable[[str], None]) -> ClusterApi | None:
        """Returns the Kubernetes API of a cluster; None unless the cluster is ready."""
        found = self.describe(name)
        if found is None or _STATES.get(found["status"]) != "ready":
            return None
        region, _, cluster = name.partition("/")
        ca = base64.b64decode(found["certificateAuthority"]["data"]).decode()
        token = ClusterToken(self._account.session, cluster, region)
        return ClusterApi(connect_by_token(found["endpoint"], ca, token), say=say)


class AddOns(PlannedHandler):
    """Handler of the add-ons that give pods their IAM role and enforce NetworkPolicy objects."""

    kind = "EKS add-on"

    def __init__(self, account: Account, clusters: Clusters) -> None:
        super().__init__(account)
        self._clusters = clusters

    def find(self, step: Step) -> Resource | None:
        """Returns the add-on; an existing cluster's network plugin counts as found.

        A cluster that cloudgan did not create keeps its own plugin: replacing the settings of a
        cluster's network is not a launcher's business.
        """
        name = str(step.find)
        found = self.refresh(name)
        cluster, _, add_on = name.rpartition("/")
        if found or add_on != NETWORK_PLUGIN or is_managed(self._clusters.refresh(cluster)):
            return found
        return Resource(
            kind=self.kind,
            name=name,
            state="ready",
            deletion_order=PART_RANK,
            parent=cluster,
            is_free=True,
        )

    def enforces_policies(self, cluster: str) -> bool | None:
        """Returns whether the VPC CNI add-on of a cluster is set to enforce NetworkPolicy objects.

        None: the cluster has no such add-on, or a self-managed plugin.
        """
        found = self._describe(f"{cluster}/{NETWORK_PLUGIN}")
        if found is None:
            return None
        return _POLICIES_ON.search(found.get("configurationValues") or "") is not None

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of an add-on."""
        region, cluster, _ = name.split("/")
        found = self._describe(name)
        if found is None:
            return None
        return Resource(
            kind=self.kind,
            name=name,
            state=_PART_STATES.get(found["status"], "failed"),
            labels=found.get("tags", {}),
            region=region,
            reason=issues(found),
            deletion_order=PART_RANK,
            parent=f"{region}/{cluster}",
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Requests deletion."""
        region, cluster, add_on = name.split("/")
        which = {"clusterName": cluster, "addonName": add_on}
        request_if_exists(self._account, "eks", region, "DeleteAddon", **which)

    def _describe(self, name: str) -> dict[str, Any] | None:
        region, cluster, add_on = name.split("/")
        which = {"clusterName": cluster, "addonName": add_on}
        answer = request_if_exists(self._account, "eks", region, "DescribeAddon", **which)
        return answer["addon"] if answer else None


class PodIdentities(PlannedHandler):
    """Handler of pod identity associations: the IAM role of a Kubernetes service account."""

    kind = "EKS pod identity"

    def refresh(self, name: str) -> Resource | None:
        """Returns the current state of an association."""
        region, cluster, *_ = name.split("/")
        identifier = self._id(name)
        which = {"clusterName": cluster, "associationId": identifier}
        answer = identifier and request_if_exists(
            self._account, "eks", region, "DescribePodIdentityAssociation", **which
        )
        if not answer:
            return None
        return Resource(
            kind=self.kind,
            name=name,
            state="ready",
            labels=answer["association"].get("tags", {}),
            region=region,
            deletion_order=PART_RANK,
            parent=f"{region}/{cluster}",
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Deletes an association."""
        region, cluster, *_ = name.split("/")
        identifier = self._id(name)
        if identifier:
            which = {"clusterName": cluster, "associationId": identifier}
            request_if_exists(self._account, "eks", region, "DeletePodIdentityAssociation", **which)

    def _id(self, name: str) -> str:
        region, cluster, namespace, account = name.split("/")
        which = {"clusterName": cluster, "namespace": namespace, "serviceAccount": account}
        found = request_if_exists(
            self._account, "eks", region, "ListPodIdentityAssociations", **which
        )
        listed = (found or {}).get("associations") or [{}]
        return str(listed[0].get("associationId", ""))


def is_managed(resource: Resource | None) -> bool:
    """Returns whether cloudgan created a resource for all runs."""
    return resource is not None and SHARED in resource.labels


def _cluster(name: str, found: Mapping[str, Any]) -> Resource:
    why = issues(found)
    created = found.get("createdAt")
    support = (found.get("upgradePolicy") or {}).get("supportType", "STANDARD")
    return Resource(
        kind=Clusters.kind,
        name=name,
        state=_STATES.get(found["status"], "creating"),
        labels=found.get("tags", {}),
        region=name.partition("/")[0],
        reason=why,
        cause=cause_of(why),
        deletion_order=CLUSTER_RANK,
        created_at=created.isoformat() if created else None,
        fee=_FEES.get(support),
    )


def issues(found: Mapping[str, Any]) -> str:
    """Returns the health issues of a cluster or node group; empty: none."""
    listed = (found.get("health") or {}).get("issues") or ()
    return "; ".join(f"{one.get('message') or ''} ({one.get('code')})" for one in listed)
