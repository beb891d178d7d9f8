"""What the Azure Resource Manager refuses, as our errors; and why an operation failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import CapacityError, CloudganError, CredentialsError, LaunchError

if TYPE_CHECKING:
    from cloudgan.core.thing import ThingCause

_UNAUTHORIZED, _FORBIDDEN, _MISSING, _CONFLICT = 401, 403, 404, 409

# https://learn.microsoft.com/azure/virtual-machines/allocation-failure and
# https://learn.microsoft.com/troubleshoot/azure/azure-kubernetes/error-codes/, read 2026-11-21. They
# stand somewhere in what AKS says, often inside of another error's message.
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
    "exceeding approved",  # OperationNotAllowed means this, or that another operation runs
)
LOGIN: Final = (
    "type: az login, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service"
    " principal"
)
_ACTION = re.compile(r"perform action '([^']+)'")


class BusyError(LaunchError):
    """Another operation runs on this; the same request may be taken a little later."""


class MissingError(LaunchError):
    """There is nothing at this address."""


def cause_of(said: str) -> ThingCause:
    """Returns what kind of reason a text of Azure names."""
    text = said.casefold()
    if any(code.casefold() in text for code in _OF_QUOTA):
        return "quota"
    return "capacity" if any(code.casefold() in text for code in _OF_CAPACITY) else ""


def said(error: Any) -> str:
    """Returns an error of Azure, with the innermost of its details, in one line."""
    if not isinstance(error, dict):
        return ""
    while error.get("details") and isinstance(error["details"][0], dict):
        error = error["details"][0]
    code, message = error.get("code") or "", " ".join(str(error.get("message") or "").split())
    return f"{code}: {message}" if code and code not in message else message


def refusal(status: int, answer: Any, asked: str) -> CloudganError:
    """Returns the error that an answer means.

    Args:
        status: Of HTTP.
        answer: Its JSON; None where it was none.
        asked: Such as ``PUT /subscriptions/...``.
    """
    error = answer.get("error", answer) if isinstance(answer, dict) else {}
    text = said(error) or "without a word"
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"Azure does not accept this login ({text}); {LOGIN}. Where that was just done, look at"
            " this machine's clock"
        )
    if status == _FORBIDDEN:
        return _forbidden(text, asked)
    return failure(f"{code} {text}", f"{asked}: {text}") or _OTHERS.get(status, LaunchError)(
        f"{asked}: Azure answered {status} ({text})"
    )


def failure(reason: str, told: str) -> CapacityError | None:
    """Returns the error where a reason is that there is no machine or no quota; else None."""
    cause = cause_of(reason)
    if cause == "quota":
        return CapacityError(f"{told}. Ask for more at https://portal.azure.com, Quotas, Compute")
    if cause == "capacity":
        return CapacityError(f"{told}. Another --region, --zone or --spot may have some")
    return None


_OTHERS: Final = {_MISSING: MissingError, _CONFLICT: BusyError}


def _forbidden(text: str, asked: str) -> CloudganError:
    if cause_of(text) == "quota":
        return CapacityError(f"{asked}: {text}")
    found = _ACTION.search(text)
    what = found[1] if found else asked
    role = "image-role" if "containerregistry/" in what.lower() else "role"
    return CredentialsError(
        f"this login may not {what} on Azure ({text[:200]}); an administrator grants it with"
        f" deploy/azure/{role}.json"
    )
