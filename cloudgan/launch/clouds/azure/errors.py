"""Errors of Azure Resource Manager: one table from status and code to cloudgan's errors."""

from __future__ import annotations

import re
from typing import Any, Final

from cloudgan.core import assets
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfigError,
    CredentialsError,
    LaunchError,
    StockOutError,
)
from cloudgan.launch.clouds.resource import ResourceCause
from cloudgan.launch.clouds.rows import AbsentError, BusyError, DeniedError

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
SCOPE: Final = "https://management.azure.com/.default"
"""Of tokens for the Resource Manager."""
LOGIN: Final = (
    "run: az login, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service"
    " principal"
)
ROLES: Final = tuple(
    f"deploy/azure/{name}.json" for name in ("role", "reader-role", "credential-role", "setup-role")
)
_ACTION = re.compile(r"perform action '([^']+)'")


class AssignedError(LaunchError):
    """The principal has the role on this scope, by an assignment of another name."""


_MOVE: Final = "delete it, or pass its location as --region"
_Errors = dict[int | str, tuple[type[CloudganError], str]]
_TABLE: Final[_Errors] = {
    # Conflicts (HTTP 409) that no waiting changes, with what to do:
    # https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors,
    # https://github.com/hashicorp/terraform/issues/11485 and https://github.com/Azure/migAz/issues/194,
    # read 2026-11-25.
    "AlreadyInUse": (
        ConfigError,
        "the name is used by another subscription: pass another --region",
    ),
    "InvalidResourceGroupLocation": (ConfigError, _MOVE),
    "InvalidResourceLocation": (ConfigError, _MOVE),
    "MissingSubscriptionRegistration": (
        ConfigError,
        "run: az provider register --namespace with the name in this message",
    ),
    "ReadOnlyDisabledSubscription": (
        ConfigError,
        "its owner enables it at https://portal.azure.com, Subscriptions",
    ),
    "ScopeLocked": (ConfigError, "an owner removes the lock; it is listed by: az lock list"),
    "StorageAccountAlreadyTaken": (
        ConfigError,
        "the name is or lately was of another subscription: pass another --region, or your own --store",
    ),
    "RoleAssignmentExists": (AssignedError, ""),
    404: (AbsentError, ""),
    409: (BusyError, ""),
}
"""Errors by code, which decides first, or status, with what to do."""
_DENIED: Final = ("AuthorizationFailed", "LinkedAuthorizationFailed")
_UNAUTHORIZED, _FORBIDDEN, _MISSING = 401, 403, 404


def cause_of(text: str) -> ResourceCause:
    """Returns the cause in an Azure error text."""
    low = text.casefold()
    if any(code.casefold() in low for code in _OF_QUOTA):
        return "quota"
    return "capacity" if any(code.casefold() in low for code in _OF_CAPACITY) else ""


def error_text(error: Any) -> str:
    """Returns the innermost message of an Azure error in one line."""
    if not isinstance(error, dict):
        return ""
    while isinstance(inner := error.get("details"), list) and inner and isinstance(inner[0], dict):
        error = inner[0]
    code = str(error.get("code") or "")
    message = " ".join(str(error.get("message") or "").split())
    return f"{code}: {message}" if code and code not in message else message


def failure(reason: str, message: str) -> LaunchError:
    """Returns the error of an operation that Azure accepted and that failed, or of a lack of machines."""
    cause = cause_of(reason)
    if cause == "quota":
        return CapacityError(
            f"{message}. Ask for more at https://portal.azure.com, Quotas, Compute"
        )
    if cause == "capacity":
        return StockOutError(f"{message}. Try another --region, --zone or --market")
    return LaunchError(message)


def map_error(status: int, answer: Any, request: str) -> CloudganError:
    """Returns the error of a response.

    A code or status decides before any text: names in a message may contain any word.
    """
    error = answer.get("error", answer) if isinstance(answer, dict) else {}
    text = error_text(error) or "no message"
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"Azure rejects this login ({text}); {LOGIN}. If the login is new, check this machine's"
            " clock"
        )
    if status == _FORBIDDEN and (code in _DENIED or cause_of(text) != "quota"):
        return _forbidden(text, request)
    if code in _TABLE:
        kind, hint = _TABLE[code]
        return kind(f"{request}: {text.rstrip('.')}; {hint}" if hint else f"{request}: {text}")
    if status != _MISSING and cause_of(f"{code} {text}"):
        return failure(f"{code} {text}", f"{request}: {text}")
    kind, _ = _TABLE.get(status, (LaunchError, ""))
    return kind(f"{request}: Azure answered {status} ({text})")


def actions(role: str) -> tuple[str, ...]:
    """Returns the permissions of a role."""
    found = parse_json(assets.read_text(role), role)
    return tuple(found["Actions"])


def _forbidden(text: str, request: str) -> CloudganError:
    found = _ACTION.search(text)
    what = found[1] if found else request
    remedy = "it is deleted with its cluster, or by an owner of its resource group"
    if what.lower() != "microsoft.compute/virtualmachinescalesets/delete":
        having = (role for role in ROLES if what.lower() in map(str.lower, actions(role)))
        remedy = f"an owner grants it with {next(having, ROLES[0])} (docs/clouds.md)"
    return DeniedError(f"this login lacks the permission {what} on Azure ({text[:200]}); {remedy}")
