"""Error responses of AWS as cloudgan's errors, with the command to run next: one table."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
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
from cloudgan.launch.clouds.resource import ResourceCause
from cloudgan.launch.clouds.rows import AbsentError, DeniedError

LOGIN: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a configured profile by"
    " --profile or AWS_PROFILE"
)
_ABSENT: Final = re.compile(r"404|NoSuch\w+|ResourceNotFoundException|\w+\.NotFound(Exception)?")
"""Codes of a resource that does not exist."""
_OF_LOGIN: Final[tuple[tuple[type[CredentialsError], str, str], ...]] = (
    (
        CredentialsError,
        "ExpiredToken|ExpiredTokenException|RequestExpired",
        f"AWS: this login has expired ({{said}}); log in again, or {LOGIN}",
    ),
    (
        CredentialsError,
        "RequestTimeTooSkewed|SignatureDoesNotMatch|InvalidSignatureException|RequestInTheFuture",
        "AWS: {clock}",
    ),
    (
        CredentialsError,
        (
            "AuthFailure|IncompleteSignature|InvalidAccessKeyId|InvalidClientTokenId|InvalidToken"
            "|UnrecognizedClientException|401"
        ),
        f"AWS does not recognise this login ({{said}}); {LOGIN}",
    ),
    (
        DeniedError,
        "AccessDenied|AccessDeniedException|UnauthorizedOperation|AccessDeniedError|403",
        "AWS: {request}: {said}. {remedy}",
    ),
)
"""Errors of requests that fail for their login, by their codes, with the message."""
_CAUSES: Final[tuple[tuple[ResourceCause, re.Pattern[str]], ...]] = (
    (
        "quota",
        re.compile(
            "InstanceLimitExceeded|MaxSpotInstanceCountExceeded|ResourceLimitExceeded"
            "|VcpuLimitExceeded|reached your quota|vCPU limit"
        ),
    ),
    (
        "capacity",
        re.compile(
            "InsufficientInstanceCapacity|UnfulfillableCapacity|InsufficientCapacity"
            "|ReservationCapacityExceeded|do not have sufficient|no Spot capacity|not available in your"
        ),
    ),
)
_HINTS: Final = {
    "BucketNotEmpty": "it still holds objects of runs; empty it with `cloudgan down RUN --purge` for each"
    " run, or in the console",
}
"""What to do about other refusals."""
# Of EC2 (https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html, 2026-11-25), which Auto
# Scaling quotes; the last two are its texts without a code.
_PERMANENT: Final = re.compile(
    r"\b(AuthFailure|Blocked|InvalidAMIID|InvalidParameter|OptInRequired|PendingVerification"
    r"|UnauthorizedOperation)|not authorized|is being validated"
)
_OF_ONE_RESOURCE: Final = re.compile("NotFound|NoSuch|AlreadyExists|InUse")
_SKEW_SECONDS: Final = 240


class RefusedError(LaunchError):
    """AWS refused a request, but not for its login or an absent resource; `code` is the AWS error code."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def cause_of(message: str) -> ResourceCause:
    """Returns why machines are unavailable according to a message; empty: another reason."""
    return next((cause for cause, words in _CAUSES if words.search(message)), "")


def is_permanent(message: str) -> bool:
    """Whether another zone or a later try gives no machine either: the account or the request is refused.

    The profile of a new role is unknown for some seconds
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html, 2026-11-25).
    """
    return bool(_PERMANENT.search(message)) and "iaminstanceprofile" not in message.lower()


def error_of(response: Mapping[str, Any], request: str, service: str) -> CloudganError:
    """Returns the error for an error response."""
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    said = " ".join(str(error.get("Message", "")).split()) or code or "no message"
    for kind, codes, message in _OF_LOGIN:
        if re.fullmatch(codes, code):
            known = {"clock": _clock(response, said), "remedy": _remedy(request, service)}
            return kind(message.format(said=said, request=request, **known))
    cause = "" if _OF_ONE_RESOURCE.search(code) else cause_of(f"{code} {said}")
    if cause:
        lack = StockOutError if cause == "capacity" else CapacityError
        return lack(f"AWS: {request}: {said}")
    hint = f"; {_HINTS[code]}" if code in _HINTS else ""
    message = f"AWS: {request}: {said} ({code}){hint}"
    return AbsentError(message) if _ABSENT.fullmatch(code) else RefusedError(message, code)


def _remedy(request: str, service: str) -> str:
    """Returns which policy an administrator grants for a denied request."""
    if request.startswith("CreatePolicy"):
        return (
            "Only an administrator of the account creates the permissions boundary: policy"
            " cloudgan-boundary with the content of deploy/aws/boundary.json (docs/clouds.md)"
        )
    policy, user = "policy", "launcher"
    if service == "iam" and not request.startswith(("Get", "Simulate")):
        policy, user = "setup-policy", "user of `cloudgan setup`"
    return (
        f"deploy/aws/{policy}.json lists the required permissions of the {user}; an administrator of the"
        " account grants them"
    )


def _clock(response: Mapping[str, Any], said: str) -> str:
    """Explains an invalid signature, which a wrong clock may cause."""
    date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        server_time = parsedate_to_datetime(date or "")
    except ValueError:
        server_time = utc_moment()
    if server_time.tzinfo is None:
        server_time = server_time.replace(tzinfo=dt.UTC)
    skew = (utc_moment() - server_time).total_seconds()
    if abs(skew) > _SKEW_SECONDS:
        direction = "ahead" if skew > 0 else "behind"
        return (
            f"this machine's clock is {abs(skew) / 60:.0f} min {direction}, so AWS accepts no"
            f" request; synchronise it ({said})"
        )
    return (
        f"the secret key does not match the access key, or this machine's clock is wrong ({said})"
    )
