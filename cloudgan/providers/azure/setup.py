"""What is made once for a subscription and region: a private store, and who may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.aks import put

if TYPE_CHECKING:
    from cloudgan.core.plan import Place, Step

# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage, read 2026-11-21
BLOB_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
"""Storage Blob Data Contributor: neither owners nor contributors may read blobs without it."""


def store_steps(place: Place) -> tuple[Step, ...]:
    """Returns the steps of the group and of the store in it."""
    account = ids.store_account(place)
    group = {"location": place.region, "tags": {SHARED: "group"}}
    return (
        put(f"resource group {ids.group_name(place.region or '')}", ids.group_id(place), group),
        put(f"private storage account {account}", ids.account_id(place), _account_body(place)),
        put(
            f"container {ids.CONTAINER} in {account}",
            ids.container_id(place),
            {"properties": {"publicAccess": "None"}},
        ),
    )


def setup_steps(place: Place) -> tuple[Step, ...]:
    """Returns all that an administrator makes once; `place` names its subscription."""
    identity = {"location": place.region, "tags": {SHARED: "identity"}}
    return (
        *store_steps(place),
        put(f"identity {ids.IDENTITY}", ids.identity_id(place), identity),
        put(
            f"{ids.IDENTITY} may use the store",
            ids.assignment_id(place, "pods"),
            _assignment_body(place, ids.POD_PRINCIPAL, "ServicePrincipal"),
        ),
        put(
            "whoever is logged in may use the store",
            ids.assignment_id(place, "user"),
            _assignment_body(place, ids.USER_PRINCIPAL, ids.USER_KIND),
        ),
    )


def _account_body(place: Place) -> dict[str, Any]:
    return {
        "location": place.region,
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "tags": {SHARED: "bucket"},
        "properties": {
            "allowBlobPublicAccess": False,
            "allowCrossTenantReplication": False,
            "allowSharedKeyAccess": False,
            "defaultToOAuthAuthentication": True,
            "minimumTlsVersion": "TLS1_2",
            "supportsHttpsTrafficOnly": True,
        },
    }


def _assignment_body(place: Place, principal: str, kind: str) -> dict[str, Any]:
    roles = f"/subscriptions/{place.account}/providers/Microsoft.Authorization/roleDefinitions"
    return {
        "properties": {
            "roleDefinitionId": f"{roles}/{BLOB_CONTRIBUTOR}",
            "principalId": principal,
            "principalType": kind,  # else a principal made just now may not be found yet
        }
    }
