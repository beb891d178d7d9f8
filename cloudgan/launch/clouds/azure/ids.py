"""Names and resource ids of cloudgan's Azure resources."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Final

from cloudgan.core.clouds import CLUSTER
from cloudgan.schema.plan import Target

SUBSCRIPTION: Final = "<subscription>"
ACCOUNT: Final = "<storage-account>"
ZONE: Final = "<zone>"
SYSTEM_SIZE: Final = "<system-size>"
"""Size of the cluster's own node, one that the subscription offers in the region."""
CLIENT: Final = "<client-id>"
"""Client id of the pods' identity, created by `setup`."""
# Known only after earlier steps; filled in when a request is sent.
ISSUER: Final = "<oidc-issuer>"
POD_PRINCIPAL: Final = "<principal-of-pods>"
USER_PRINCIPAL: Final = "<principal-of-user>"
USER_KIND: Final = "<kind-of-user>"
ASSIGNMENT: Final = "<name-of-assignment>"

CONTAINER: Final = "cloudgan"
IDENTITY: Final = "cloudgan-pods"

_DIGITS = 16
_GROUPS = "resourcegroups"

# API version by resource type in lower case. AKS: the version of the models in the tests
# (azure-mgmt-containerservice 41.8.0).
VERSIONS: Final = {
    _GROUPS: "2021-04-01",
    "microsoft.authorization/roleassignments": "2022-04-01",
    "microsoft.compute/capacityreservationgroups": "2024-07-01",
    "microsoft.compute/virtualmachinescalesets": "2024-07-01",
    "microsoft.containerservice/managedclusters": "2026-08-01",
    "microsoft.containerservice/managedclusters/agentpools": "2026-08-01",
    "microsoft.managedidentity/userassignedidentities": "2023-01-31",
    "microsoft.managedidentity/userassignedidentities/federatedidentitycredentials": "2023-01-31",
    "microsoft.storage/storageaccounts": "2023-05-01",
    "microsoft.storage/storageaccounts/blobservices/containers": "2023-05-01",
}


def group_name(region: str) -> str:
    """Returns the name of cloudgan's resource group in a region."""
    return f"cloudgan-{region}"


def nodes_group_name(region: str) -> str:
    """Returns the name of the AKS node resource group; it is deleted with the cluster."""
    return f"cloudgan-{region}-nodes"


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


def group_id(target: Target) -> str:
    """Returns the id of cloudgan's resource group."""
    return f"/subscriptions/{target.account}/resourceGroups/{group_name(target.region or '')}"


def cluster_id(target: Target) -> str:
    """Returns the id of the cluster: a name in cloudgan's group, or GROUP/NAME."""
    group, _, name = (target.cluster or CLUSTER).rpartition("/")
    root = f"/subscriptions/{target.account}/resourceGroups/{group}" if group else group_id(target)
    return f"{root}/providers/Microsoft.ContainerService/managedClusters/{name}"


def pool_id(target: Target, pool: str) -> str:
    """Returns the id of a node pool."""
    return f"{cluster_id(target)}/agentPools/{pool}"


def account_id(target: Target) -> str:
    """Returns the id of the storage account."""
    return f"{group_id(target)}/providers/Microsoft.Storage/storageAccounts/{store_account(target)}"


def container_id(target: Target) -> str:
    """Returns the id of the blob container."""
    return f"{account_id(target)}/blobServices/default/containers/{CONTAINER}"


def identity_id(target: Target) -> str:
    """Returns the id of the pods' managed identity."""
    root = f"{group_id(target)}/providers/Microsoft.ManagedIdentity"
    return f"{root}/userAssignedIdentities/{IDENTITY}"


def credential_id(target: Target) -> str:
    """Returns the id of the federated credential of a cluster's pods."""
    name = re.sub(r"[^-A-Za-z0-9]+", "-", target.cluster or CLUSTER)
    return f"{identity_id(target)}/federatedIdentityCredentials/{name}"


def assignments_id(scope: str) -> str:
    """Returns the id of the role assignments on a scope."""
    return f"{scope}/providers/Microsoft.Authorization/roleAssignments"


def assignment_name(scope: str, role: str, principal: str) -> str:
    """Returns the name of a role assignment, a GUID: Azure refuses to change what it assigns to whom."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scope}/{role}/{principal}".lower()))


def type_of(address: str) -> str:
    """Returns the resource type of an id in lower case, such as ``.../managedclusters``."""
    path = address.partition("?")[0].strip("/").lower()
    _, found, rest = path.rpartition("/providers/")
    if not found:
        return _GROUPS
    provider, *parts = rest.split("/")
    return "/".join((provider, *parts[::2]))


def versioned(address: str) -> str:
    """Returns an id with the API version of its type."""
    return f"{address}?api-version={VERSIONS[type_of(address)]}"
