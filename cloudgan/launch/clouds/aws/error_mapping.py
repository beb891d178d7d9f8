"""Mapping of AWS error responses to cloudgan's errors, with the command to run next."""

from __future__ import annotations

import datetime as dt
import re
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    CredentialsError,
    LaunchError,
    StockOutError,
)
from cloudgan.schema.resource import ResourceCause

LOGIN: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a configured profile by"
    " --profile or AWS_PROFILE"
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_UNKNOWN_LOGIN: Final = frozenset(
    {
        "AuthFailure",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "UnrecognizedClientException",
        "401",
    }
)
_CLOCK: Final = frozenset({"RequestTimeTooSkewed", "SignatureDoesNotMatch"}) | frozenset(
    {"InvalidSignatureException", "RequestInTheFuture"}
)
_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AccessDeniedError", "403"}
)
_QUOTA: Final = (
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "ResourceLimitExceeded",
    "VcpuLimitExceeded",
    "reached your quota",
    "vCPU limit",
)
_CAPACITY: Final = (
    "InsufficientInstanceCapacity",
    "UnfulfillableCapacity",
    "InsufficientCapacity",
    "ReservationCapacityExceeded",
)
_CAPACITY_WORDS: Final = ("do not have sufficient", "no Spot capacity", "not available in your")
# Of EC2 (https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html, 2026-11-25), which Auto
# Scaling quotes; the last two are its texts without a code.
_PERMANENT: Final = re.compile(
    r"\b(AuthFailure|Blocked|InvalidAMIID|InvalidParameter|OptInRequired|PendingVerification"
    r"|UnauthorizedOperation)|not authorized|is being validated"
)
_OF_ONE_RESOURCE: Final = re.compile("NotFound|NoSuch|AlreadyExists|InUse")
_SKEW_SECONDS: Final = 240


class RefusedError(LaunchError):
    """AWS refused a request, but not for its login; `code` is the AWS error code."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def cause_of(message: str) -> ResourceCause:
    """Returns why machines are unavailable according to a message; empty: another reason."""
    if any(word in message for word in _QUOTA):
        return "quota"
    if any(word in message for word in (*_CAPACITY, *_CAPACITY_WORDS)):
        return "capacity"
    return ""


def is_permanent(message: str) -> bool:
    """Whether another zone or a later try gives no machine either: the account or the request is refused.

    The profile of a new role is unknown for some seconds
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html, 2026-11-25).
    """
    return bool(_PERMANENT.search(message)) and "iaminstanceprofile" not in message.lower()


def error_of(response: dict[str, Any], request: str, service: str = "") -> CloudganError:
    """Returns the error for an error response.

    Args:
        response: The response that botocore parsed.
        request: Such as ``CreateCluster in us-east-1``.
        service: The service.
    """
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    message = " ".join(str(error.get("Message", "")).split()) or code or "no message"
    if code in _EXPIRED:
        return CredentialsError(
            f"AWS: this login has expired ({message}); log in again, or {LOGIN}"
        )
    if code in _CLOCK:
        return CredentialsError(f"AWS: {_clock(response, message)}")
    if code in _UNKNOWN_LOGIN:
        return CredentialsError(f"AWS does not recognise this login ({message}); {LOGIN}")
    if code in _DENIED:
        return CredentialsError(f"AWS: {request}: {message}. {_remedy(request, service)}")
    cause = "" if _OF_ONE_RESOURCE.search(code) else cause_of(f"{code} {message}")
    if cause:
        kind = StockOutError if cause == "capacity" else CapacityError
        return kind(f"AWS: {request}: {message}")
    return RefusedError(f"AWS: {request}: {message} ({code})", code)


def _remedy(request: str, service: str) -> str:
    """Returns which policy an administrator grants for a denied request."""
    if request.startswith("CreatePolicy"):
        return (
            "Only an administrator of the account creates the permissions boundary: policy"
            " cloudgan-boundary with the content of deploy/aws/boundary.json (docs/aws.md)"
        )
    policy, user = "policy", "launcher"
    if service == "iam" and not request.startswith(("Get", "Simulate")):
        policy, user = "setup-policy", "user of `cloudgan setup`"
    return (
        f"deploy/aws/{policy}.json lists the required permissions of the {user}; an administrator of the"
        " account grants them"
    )


def _clock(response: dict[str, Any], message: str) -> str:
    """Explains an invalid signature, which a wrong clock may cause."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    server_time = _parse_time(headers.get("date"))
    skew = (utc_moment() - server_time).total_seconds() if server_time else 0.0
    if abs(skew) > _SKEW_SECONDS:
        direction = "ahead" if skew > 0 else "behind"
        return (
            f"this machine's clock is {abs(skew) / 60:.0f} min {direction}, so AWS accepts no"
            f" request; synchronise it ({message})"
        )
    return f"the secret key does not match the access key, or this machine's clock is wrong ({message})"


def _parse_time(text: str | None) -> dt.datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
