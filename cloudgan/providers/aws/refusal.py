"""What AWS refuses, as our errors: what was asked, what it said, what to type next."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CapacityError, CloudganError, CredentialsError, LaunchError

if TYPE_CHECKING:
    import datetime as dt

    from cloudgan.core.thing import ThingCause

LOGIN: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of your own files by"
    " --profile or AWS_PROFILE"
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_STRANGER: Final = frozenset(
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
_CAPACITY: Final = ("InsufficientInstanceCapacity", "UnfulfillableCapacity", "InsufficientCapacity")
_CAPACITY_WORDS: Final = ("do not have sufficient", "no Spot capacity", "not available in your")
_IMAGES: Final = frozenset({"codebuild", "ecr", "logs"})
_SKEW_SECONDS: Final = 240


class RefusedError(LaunchError):
    """AWS answered with an error that is none of the login; `code` is its own."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def cause_of(said: str) -> ThingCause:
    """Returns the kind of a reason for which machines did not come; empty: another one."""
    if any(word in said for word in _QUOTA):
        return "quota"
    if any(word in said for word in (*_CAPACITY, *_CAPACITY_WORDS)):
        return "capacity"
    return ""


def refusal(response: dict[str, Any], asked: str, service: str = "") -> CloudganError:
    """Returns the error that an answer means.

    Args:
        response: As botocore parsed it.
        asked: Such as ``CreateCluster in us-east-1``.
        service: That was asked.
    """
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    said = " ".join(str(error.get("Message", "")).split()) or code or "without a word"
    if code in _EXPIRED:
        return CredentialsError(f"AWS: this login has expired ({said}); log in again, or {LOGIN}")
    if code in _CLOCK:
        return CredentialsError(f"AWS: {_clock(response, said)}")
    if code in _STRANGER:
        return CredentialsError(f"AWS does not know this login ({said}); {LOGIN}")
    if code in _DENIED:
        is_image = service in _IMAGES
        policy, who = ("image-policy", "builder of images") if is_image else ("policy", "launcher")
        return CredentialsError(
            f"AWS: {asked}: {said}. deploy/aws/{policy}.json lists the rights that a {who}"
            " needs; whoever administers the account grants them"
        )
    if cause_of(f"{code} {said}"):
        return CapacityError(f"AWS: {asked}: {said}")
    return RefusedError(f"AWS: {asked}: {said} ({code})", code)


def _clock(response: dict[str, Any], said: str) -> str:
    """A signature is valid for some minutes around its time: a wrong clock makes a wrong one."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    theirs = _moment(headers.get("date"))
    skew = (utc_moment() - theirs).total_seconds() if theirs else 0.0
    if abs(skew) > _SKEW_SECONDS:
        way = "ahead" if skew > 0 else "behind"
        return (
            f"this machine's clock is {abs(skew) / 60:.0f} min {way}, so no request of it is"
            f" accepted; set it by the network ({said})"
        )
    return (
        f"the secret key is not that of the access key, or this machine's clock is wrong ({said})"
    )


def _moment(text: str | None) -> dt.datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
