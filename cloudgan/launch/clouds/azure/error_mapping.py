"""Maps errors of Azure Resource Manager to cloudgan's errors."""

from __future__ import annotations

import re
from typing import Any, Final

from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfigError,
    CredentialsError,
    LaunchError,
    StockOutError,
)
from cloudgan.schema.resource import ResourceCause

_UNAUTHORIZED, _FORBIDDEN, _MISSING, _CONFLICT = 401, 403, 404, 409

# https://learn.microsoft.com/azure/virtual-machines/allocation-failure and
# https://learn.microsoft.com/troubleshoot/azure/azure-kubernetes/error-codes/, read 2026-11-21. AKS
# often nests them in the message of another error.
_OF_CAPACITY: Final = (
    "AllocationFailed",
    "AllocationTimeout",
    "AKSCapacityHeavyUsage",
    "AKSCapacityError",
    "NotAvailableForSubscription",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SkuNotAvailable",
    "SpotVMAllocationFailed",
    "currently not available in location",
)
_OF_QUOTA: Final = (
    "QuotaExceeded",
    "InsufficientVCPUQuota",
    "PublicIPCountLimitReached",
    "exceeding approved",  # OperationNotAllowed: this, or another operation runs
)
# Conflicts (HTTP 409) that no waiting changes, with what to do:
# https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors,
# https://github.com/hashicorp/terraform/issues/11485 and https://github.com/Azure/migAz/issues/194, read 2026-11-25.
_MOVE: Final = "delete it, or pass its location as --region"
_FINAL: Final = {
    "AlreadyInUse": "the name is used by another subscription: pass another --region",
    "InvalidResourceGroupLocation": _MOVE,
    "InvalidResourceLocation": _MOVE,
    "MissingSubscriptionRegistration": "run: az provider register --namespace with the name in this message",
    "ReadOnlyDisabledSubscription": "its owner enables it at https://portal.azure.com, Subscriptions",
    "ScopeLocked": "an owner removes the lock; it is listed by: az lock list",
    "StorageAccountAlreadyTaken": "the name is used by another subscription, or was until lately: pass another"
    " --region, or your own --store=https://ACCOUNT.blob.core.windows.net/CONTAINER",
}
_DENIED: Final = ("AuthorizationFailed", "LinkedAuthorizationFailed")
LOGIN: Final = (
    "run: az login, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service"
    " principal"
)
_ACTION = re.compile(r"perform action '([^']+)'")


class BusyError(LaunchError):
    """Another operation runs on the resource; retry later."""


class AssignedError(LaunchError):
    """The principal has the role on this scope, by an assignment of another name."""


class MissingError(LaunchError):
    """The resource does not exist."""


def cause_of(error_text: str) -> ResourceCause:
    """Returns the cause in an Azure error text."""
    text = error_text.casefold()
    if any(code.casefold() in text for code in _OF_QUOTA):
        return "quota"
    return "capacity" if any(code.casefold() in text for code in _OF_CAPACITY) else ""


def error_text(error: Any) -> str:
    """Returns the innermost message of an Azure error in one line."""
    if not isinstance(error, dict):
        return ""
    while error.get("details") and isinstance(error["details"][0], dict):
        error = error["details"][0]
    code, message = error.get("code") or "", " ".join(str(error.get("message") or "").split())
    return f"{code}: {message}" if code and code not in message else message


def map_error(status: int, answer: Any, request: str) -> CloudganError:
    """Returns the error of a response.

    Args:
        status: HTTP status.
        answer: JSON body or None.
        request: Such as ``PUT /subscriptions/...``.
    """
    error = answer.get("error", answer) if isinstance(answer, dict) else {}
    text = error_text(error) or "no message"
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"Azure rejects this login ({text}); {LOGIN}. If the login is new, check this machine's"
            " clock"
        )
    # A code or status that says it before any text: names in a message may contain any word.
    if status == _FORBIDDEN and (code in _DENIED or cause_of(text) != "quota"):
        return _forbidden(text, request)
    if code in _FINAL:
        return ConfigError(f"{request}: {text.rstrip('.')}; {_FINAL[code]}")
    if code == "RoleAssignmentExists":
        return AssignedError(f"{request}: {text}")
    found = None if status == _MISSING else capacity_error(f"{code} {text}", f"{request}: {text}")
    return found or _OTHERS.get(status, LaunchError)(f"{request}: Azure answered {status} ({text})")


def capacity_error(reason: str, message: str) -> CapacityError | None:
    """Returns the error of a missing capacity or quota; else None."""
    cause = cause_of(reason)
    if cause == "quota":
        return CapacityError(
            f"{message}. Ask for more at https://portal.azure.com, Quotas, Compute"
        )
    if cause == "capacity":
        return StockOutError(f"{message}. Try another --region, --zone or --market")
    return None


_OTHERS: Final = {_MISSING: MissingError, _CONFLICT: BusyError}


def _forbidden(text: str, request: str) -> CloudganError:
    found = _ACTION.search(text)
    what = found[1] if found else request
    return CredentialsError(
        f"this login lacks the permission {what} on Azure ({text[:200]}); {_remedy(what.lower())}"
    )


def _remedy(action: str) -> str:
    """Returns who may do what a launcher may not; roles with their scopes: docs/azure.md."""
    if "virtualmachinescalesets/delete" in action:
        return "it is deleted with its cluster, or by an owner of its resource group"
    roles = {
        "federatedidentitycredentials": "credential-role",
        "microsoft.compute/": "reader-role",
        "subscriptions/providers": "reader-role",
        "subscriptions/resources": "reader-role",
        "locations/operations": "reader-role",
    }
    role = next((role for part, role in roles.items() if part in action), "role")
    changed = ("resourcegroups/", "roleassignments/", "storageaccounts/", "assignedidentities/")
    if role == "role" and any(part in action for part in changed) and not action.endswith("/read"):
        role = "setup-role"
    return f"an owner grants it with deploy/azure/{role}.json (docs/azure.md)"
