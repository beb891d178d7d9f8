"""Names of cloudgan's Azure resources: their `ref` and, by the rows, their resource ids."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from cloudgan.core.clouds import CLUSTER as DEFAULT_CLUSTER
from cloudgan.launch.clouds.azure import kinds
from cloudgan.schema.plan import Target

SUBSCRIPTION: Final = "<subscription>"
ACCOUNT: Final = "<storage-account>"
ZONE: Final = "<zone>"
SYSTEM_SIZE: Final = "<system-size>"
"""Size of the cluster's own node, one that the subscription offers in the region."""
CLIENT: Final = "<client-id>"
"""Client id of the pods' identity, created by `setup`."""
ASSIGNMENT: Final = "<name-of-assignment>"
"""It follows from the principal, which is known when the request is sent."""

CONTAINER: Final = "cloudgan"
IDENTITY: Final = "cloudgan-pods"
_DIGITS = 16

Ref = dict[str, str]


def group_name(region: str) -> str:
    """Returns the name of cloudgan's resource group in a region."""
    return f"cloudgan-{region}"


def account_name(subscription: str, region: str) -> str:
    """Returns the storage account of a subscription and region.

    Names are globally unique: 3 to 24 lower case letters and digits
    (https://learn.microsoft.com/azure/storage/common/storage-account-overview, read 2026-11-21).
    """
    digits = hashlib.sha256(f"{subscription}/{region}".encode()).hexdigest()
    return f"cloudgan{digits[:_DIGITS]}"


def store_account(target: Target) -> str:
    """Returns the storage account of a place, or a placeholder."""
    if target.account in (None, SUBSCRIPTION):
        return ACCOUNT
    return account_name(target.account or "", target.region or "")


def group(target: Target) -> Ref:
    """Returns the parts of the id of cloudgan's resource group."""
    return {"subscription": str(target.account), "group": group_name(target.region or "")}


def cluster(target: Target) -> Ref:
    """Returns the parts of a cluster's id: a name in cloudgan's group, or GROUP/NAME."""
    there, _, name = (target.cluster or DEFAULT_CLUSTER).rpartition("/")
    return group(target) | ({"group": there} if there else {}) | {"cluster": name}


def container(target: Target) -> Ref:
    """Returns the parts of the blob container's id, which are those of its storage account's too."""
    return group(target) | {"account": store_account(target), "container": CONTAINER}


def identity(target: Target) -> Ref:
    """Returns the parts of the id of the pods' managed identity."""
    return group(target) | {"identity": IDENTITY}


def credential(target: Target) -> Ref:
    """Returns the parts of the id of the federated credential of a cluster's pods."""
    name = re.sub(r"[^-A-Za-z0-9]+", "-", target.cluster or DEFAULT_CLUSTER)
    return identity(target) | {"credential": name}


def group_id(target: Target) -> str:
    """Returns the id of cloudgan's resource group."""
    return kinds.GROUP.name_of(group(target))


def cluster_id(target: Target) -> str:
    """Returns the id of the cluster."""
    return kinds.CLUSTER.name_of(cluster(target))


def identity_id(target: Target) -> str:
    """Returns the id of the pods' managed identity."""
    return kinds.IDENTITY.name_of(identity(target))


def reservation_id(target: Target, reservation: str) -> str:
    """Returns the id of a capacity reservation group that --reservation names."""
    group, _, name = reservation.partition("/")
    root = f"/subscriptions/{target.account}/resourceGroups/{group}"
    return f"{root}/providers/Microsoft.Compute/capacityReservationGroups/{name}"
