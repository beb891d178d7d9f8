"""Names of what cloudgan makes on Azure, and their addresses in the Azure Resource Manager."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudgan.core.plan import Place

SUBSCRIPTION: Final = "<subscription>"
ACCOUNT: Final = "<storage-account>"
REGISTRY: Final = "<registry>"
ZONE: Final = "<zone>"
CLIENT: Final = "<client-id>"
"""Of the pods' identity, which `setup` makes."""
# Known only once what comes before was made, so they are filled in when a request is sent.
ISSUER: Final = "<oidc-issuer>"
POD_PRINCIPAL: Final = "<principal-of-pods>"
USER_PRINCIPAL: Final = "<principal-of-user>"
USER_KIND: Final = "<kind-of-user>"

CLUSTER: Final = "cloudgan"
CONTAINER: Final = "cloudgan"
IDENTITY: Final = "cloudgan-pods"

_DIGITS = 16
_GROUPS = "resourcegroups"

# One version for each type, by the parts of its name in lower case. That of AKS is the one whose
# models the tests have (azure-mgmt-containerservice 41.8.0).
VERSIONS: Final = {
    _GROUPS: "2021-04-01",
    "microsoft.authorization/roleassignments": "2022-04-01",
    "microsoft.compute/virtualmachinescalesets": "2024-07-01",
    "microsoft.containerservice/managedclusters": "2026-08-01",
    "microsoft.containerservice/managedclusters/agentpools": "2026-08-01",
    "microsoft.containerregistry/registries": "2025-11-01",
    "microsoft.managedidentity/userassignedidentities": "2023-01-31",
    "microsoft.managedidentity/userassignedidentities/federatedidentitycredentials": "2023-01-31",
    "microsoft.storage/storageaccounts": "2023-05-01",
    "microsoft.storage/storageaccounts/blobservices/containers": "2023-05-01",
}


def group_name(region: str) -> str:
    """Returns the resource group that cloudgan makes in a region."""
    return f"cloudgan-{region}"


def nodes_group_name(region: str) -> str:
    """Returns the group in which AKS puts machines and networks; it goes with the cluster."""
    return f"cloudgan-{region}-nodes"


def account_name(subscription: str, region: str) -> str:
    """Returns the storage account of a subscription and region.

    Names are one space of the whole world: 3 to 24 lower case letters and digits
    (https://learn.microsoft.com/azure/storage/common/storage-account-overview, read 2026-11-21).
    """
    digits = hashlib.sha256(f"{subscription}/{region}".encode()).hexdigest()
    return f"cloudgan{digits[:_DIGITS]}"


def store_account(place: Place) -> str:
    """Returns the storage account of a place, or a placeholder."""
    if place.account in (None, SUBSCRIPTION):
        return ACCOUNT
    return account_name(place.account or "", place.region or "")


def group_id(place: Place) -> str:
    """Returns the address of cloudgan's own resource group."""
    return f"/subscriptions/{place.account}/resourceGroups/{group_name(place.region or '')}"


def cluster_id(place: Place) -> str:
    """Returns the address of the cluster: a name in cloudgan's group, or GROUP/NAME."""
    group, _, name = (place.cluster or CLUSTER).rpartition("/")
    root = f"/subscriptions/{place.account}/resourceGroups/{group}" if group else group_id(place)
    return f"{root}/providers/Microsoft.ContainerService/managedClusters/{name}"


def pool_id(place: Place, pool: str) -> str:
    """Returns the address of a pool of the cluster."""
    return f"{cluster_id(place)}/agentPools/{pool}"


def account_id(place: Place) -> str:
    """Returns the address of the storage account."""
    return f"{group_id(place)}/providers/Microsoft.Storage/storageAccounts/{store_account(place)}"


def container_id(place: Place) -> str:
    """Returns the address of the container in it."""
    return f"{account_id(place)}/blobServices/default/containers/{CONTAINER}"


def identity_id(place: Place) -> str:
    """Returns the address of the pods' identity."""
    root = f"{group_id(place)}/providers/Microsoft.ManagedIdentity"
    return f"{root}/userAssignedIdentities/{IDENTITY}"


def credential_id(place: Place) -> str:
    """Returns the address of what lets a cluster's pods be that identity."""
    name = re.sub(r"[^-A-Za-z0-9]+", "-", place.cluster or CLUSTER)
    return f"{identity_id(place)}/federatedIdentityCredentials/{name}"


def registry_name(place: Place) -> str:
    """Returns the name of the subscription's own registry of images in a region, or a placeholder.

    Names are one space of the whole world: 5 to 50 letters and digits
    (https://learn.microsoft.com/azure/container-registry/container-registry-get-started-azure-cli,
    read 2026-11-21).
    """
    if place.account in (None, SUBSCRIPTION):
        return REGISTRY
    return account_name(place.account or "", place.region or "")


def registry_id(place: Place) -> str:
    """Returns the address of the registry."""
    return (
        f"{group_id(place)}/providers/Microsoft.ContainerRegistry/registries/{registry_name(place)}"
    )


def assignment_id(place: Place, whose: str) -> str:
    """Returns the address of a right on the container; its name has to be a GUID."""
    scope = container_id(place)
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{scope}/{whose}")
    return f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}"


def type_of(address: str) -> str:
    """Returns the type of what is at an address, in lower case, such as ``.../managedclusters``."""
    path = address.partition("?")[0].strip("/").lower()
    _, found, rest = path.rpartition("/providers/")
    if not found:
        return _GROUPS
    provider, *parts = rest.split("/")
    return "/".join((provider, *parts[::2]))


def versioned(address: str) -> str:
    """Returns an address with the version by which its type is asked."""
    return f"{address}?api-version={VERSIONS[type_of(address)]}"
