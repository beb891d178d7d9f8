"""What clusters of ours may leave in a network when they go: free, but it keeps networks alive.

EKS and its network plugin tag what they make with the cluster's name
(https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html,
https://github.com/aws/amazon-vpc-cni-k8s, read 2026-11-21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.thing import Thing
from cloudgan.providers.aws.kind import LEFTOVER_RANK, UnplannedKind, ask_if_there, tags_of
from cloudgan.providers.aws.naming import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.providers.aws.account import Account

_OF_CARD: Final = "cluster.k8s.amazonaws.com/name"
_OF_GROUP: Final = "aws:eks:cluster-name"


class Leftovers(UnplannedKind):
    """Network interfaces and security groups of clusters that are no more.

    Args:
        account: That is asked.
        kind: ``network interface`` or ``security group``.
    """

    def __init__(self, account: Account, kind: str) -> None:
        self._account, self.kind = account, kind
        self._is_card = kind == CARD
        self._id = "NetworkInterfaceId" if self._is_card else "GroupId"

    def look(self, name: str) -> Thing | None:
        """Returns one as it is now."""
        region, _, one = name.partition("/")
        by = "network-interface-id" if self._is_card else "group-id"
        filters = [{"Name": by, "Values": [one]}]
        return next((self._thing(region, each) for each in self._listed(region, filters)), None)

    def delete(self, name: str) -> None:
        """Deletes one; AWS refuses while something uses it."""
        region, _, one = name.partition("/")
        operation = "DeleteNetworkInterface" if self._is_card else "DeleteSecurityGroup"
        ask_if_there(self._account, "ec2", region, operation, **{self._id: one})

    def things(self, region: str, clusters: set[str]) -> Iterator[Thing]:
        """Yields those of a region whose cluster was cloudgan's own and is not among `clusters`."""
        if f"{region}/{CLUSTER}" in clusters:
            return
        tag = _OF_CARD if self._is_card else _OF_GROUP
        filters: list[dict[str, Any]] = [{"Name": f"tag:{tag}", "Values": [CLUSTER]}]
        if self._is_card:
            filters.append({"Name": "status", "Values": ["available"]})
        for found in self._listed(region, filters):
            yield self._thing(region, found)

    def _listed(self, region: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        what = "NetworkInterfaces" if self._is_card else "SecurityGroups"
        yield from self._account.all("ec2", region, f"Describe{what}", of=what, Filters=filters)

    def _thing(self, region: str, found: dict[str, Any]) -> Thing:
        tags = tags_of(found.get("TagSet" if self._is_card else "Tags"))
        return Thing(
            kind=self.kind,
            name=f"{region}/{found[self._id]}",
            state="ready",
            labels=tags | {SHARED: "leftover"},
            region=region,
            rank=LEFTOVER_RANK,
            is_free=True,
        )


CARD: Final = "network interface"
GROUP: Final = "security group"
