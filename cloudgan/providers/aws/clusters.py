"""EKS clusters, and what is made in one for all runs: an add-on, and the pods' role."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.thing import Thing, ThingState
from cloudgan.kubernetes.access import connect_by_token
from cloudgan.kubernetes.api import ClusterApi
from cloudgan.providers.aws.kind import CLUSTER_RANK, PART_RANK, PlannedKind, ask_if_there
from cloudgan.providers.aws.refusal import cause_of
from cloudgan.providers.aws.token import ClusterToken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_STATES: Final[Mapping[str, ThingState]] = {
    "ACTIVE": "ready",
    "CREATING": "making",
    "PENDING": "making",
    "UPDATING": "ready",  # it answers all the while
    "DELETING": "leaving",
    "FAILED": "failed",
}
_FEES: Final = {"STANDARD": "EKS standard support", "EXTENDED": "EKS extended support"}
_PART_STATES: Final[Mapping[str, ThingState]] = {
    "CREATING": "ready",  # without a node it stays so: nothing waits for it
    "ACTIVE": "ready",
    "UPDATING": "ready",
    "DEGRADED": "ready",
    "DELETING": "leaving",
}


class Clusters(PlannedKind):
    """Control planes."""

    kind = "EKS cluster"

    def look(self, name: str) -> Thing | None:
        """Returns a cluster as it is now."""
        found = self.describe(name)
        return _cluster(name, found) if found else None

    def delete(self, name: str) -> None:
        """Asks for deletion; add-ons and the pods' role go with it."""
        region, _, cluster = name.partition("/")
        ask_if_there(self._account, "eks", region, "DeleteCluster", name=cluster)

    def describe(self, name: str) -> dict[str, Any] | None:
        """Returns what EKS says of a cluster; None where there is none."""
        region, _, cluster = name.partition("/")
        found = ask_if_there(self._account, "eks", region, "DescribeCluster", name=cluster)
        return found["cluster"] if found else None

    def names(self, region: str) -> Iterator[str]:
        """Yields the names of all clusters of a region, whosever they are."""
        for found in self._account.all("eks", region, "ListClusters", of="clusters"):
            yield f"{region}/{found}"

    def connect(self, name: str, say: Callable[[str], None]) -> ClusterApi | None:
        """Returns the API of a cluster whose login renews itself; None where none answers yet."""
        found = self.describe(name)
        if found is None or _STATES.get(found["status"]) != "ready":
            return None
        region, _, cluster = name.partition("/")
        ca = base64.b64decode(found["certificateAuthority"]["data"]).decode()
        token = ClusterToken(self._account.session, cluster, region)
        return ClusterApi(connect_by_token(found["endpoint"], ca, token), say=say)


class PodAgents(PlannedKind):
    """The add-on that gives pods their role."""

    kind = "EKS add-on"

    def look(self, name: str) -> Thing | None:
        """Returns an add-on as it is now."""
        region, cluster, add_on = name.split("/")
        which = {"clusterName": cluster, "addonName": add_on}
        answer = ask_if_there(self._account, "eks", region, "DescribeAddon", **which)
        if answer is None:
            return None
        found = answer["addon"]
        return Thing(
            kind=self.kind,
            name=name,
            state=_PART_STATES.get(found["status"], "failed"),
            labels=found.get("tags", {}),
            region=region,
            why=issues(found),
            rank=PART_RANK,
            parent=f"{region}/{cluster}",
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Asks for deletion."""
        region, cluster, add_on = name.split("/")
        which = {"clusterName": cluster, "addonName": add_on}
        ask_if_there(self._account, "eks", region, "DeleteAddon", **which)


class Identities(PlannedKind):
    """Which role a service account of a cluster has."""

    kind = "EKS pod identity"

    def look(self, name: str) -> Thing | None:
        """Returns an association as it is now."""
        region, cluster, *_ = name.split("/")
        known = self._id(name)
        which = {"clusterName": cluster, "associationId": known}
        answer = known and ask_if_there(
            self._account, "eks", region, "DescribePodIdentityAssociation", **which
        )
        if not answer:
            return None
        return Thing(
            kind=self.kind,
            name=name,
            state="ready",
            labels=answer["association"].get("tags", {}),
            region=region,
            rank=PART_RANK,
            parent=f"{region}/{cluster}",
            is_free=True,
        )

    def delete(self, name: str) -> None:
        """Deletes an association."""
        region, cluster, *_ = name.split("/")
        known = self._id(name)
        if known:
            which = {"clusterName": cluster, "associationId": known}
            ask_if_there(self._account, "eks", region, "DeletePodIdentityAssociation", **which)

    def _id(self, name: str) -> str:
        region, cluster, namespace, account = name.split("/")
        which = {"clusterName": cluster, "namespace": namespace, "serviceAccount": account}
        found = ask_if_there(self._account, "eks", region, "ListPodIdentityAssociations", **which)
        listed = (found or {}).get("associations") or [{}]
        return str(listed[0].get("associationId", ""))


def is_ours(thing: Thing | None) -> bool:
    """Whether cloudgan made it, for all runs."""
    return thing is not None and SHARED in thing.labels


def _cluster(name: str, found: Mapping[str, Any]) -> Thing:
    why = issues(found)
    made = found.get("createdAt")
    support = (found.get("upgradePolicy") or {}).get("supportType", "STANDARD")
    return Thing(
        kind=Clusters.kind,
        name=name,
        state=_STATES.get(found["status"], "making"),
        labels=found.get("tags", {}),
        region=name.partition("/")[0],
        why=why,
        cause=cause_of(why),
        rank=CLUSTER_RANK,
        made=made.isoformat() if made else None,
        fee=_FEES.get(support),
    )


def issues(found: Mapping[str, Any]) -> str:
    """Returns what EKS says is wrong with a cluster or a node group; empty: nothing."""
    listed = (found.get("health") or {}).get("issues") or ()
    return "; ".join(f"{one.get('message') or ''} ({one.get('code')})" for one in listed)
