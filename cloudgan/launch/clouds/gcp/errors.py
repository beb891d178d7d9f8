"""Google's error responses as cloudgan's errors, with the command to run next: one table of cases."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    CredentialsError,
    DataError,
    LaunchError,
    StockOutError,
)
from cloudgan.launch.clouds.resource import ResourceCause
from cloudgan.launch.clouds.rows import AbsentError, BusyError, DeniedError

_LONGEST_SENTENCE: Final = 300
_RATES = re.compile(r"rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED|per minute")
_QUOTA = re.compile(r"quota", re.IGNORECASE)
_CAPACITY = re.compile(
    r"STOCKOUT|RESOURCE_POOL_EXHAUSTED|enough resources available|no more capacity|out of capacity"
    r"|insufficient capacity",
    re.IGNORECASE,
)
_PROJECT = re.compile(r"/projects/([^/:?]+)")
_BUSY = re.compile(
    r"please wait and try again|incompatible operation|is currently"
    r"|another activation or deactivation is in progress",
    re.IGNORECASE,
)


class DisabledApiError(DeniedError):
    """The API is not enabled in the project."""


class TakenError(LaunchError):
    """The name is in use."""


_ERRORS: Final[dict[int | str, tuple[type[CloudganError], str]]] = {
    0: (LaunchError, "{request}: Google did not answer ({message})"),
    404: (AbsentError, "{request}: {message}"),
    409: (TakenError, "{request}: {message}"),
    "busy": (BusyError, "{message}"),
    "capacity": (
        StockOutError,
        (
            "{request}: Google has no capacity there now ({message}). Use another --region or --zone,"
            " --market=on_demand, or try later"
        ),
    ),
    "disabled": (
        DisabledApiError,
        (
            "{host} is not enabled in this project; type: cloudgan setup --provider=gcp, or: gcloud"
            " services enable {host}"
        ),
    ),
    403: (
        DeniedError,
        (
            "{request}: {message}. deploy/gcp/policy.yaml and resources.yaml list the required"
            " permissions; an owner of the project grants them (docs/clouds.md)"
        ),
    ),
    401: (
        CredentialsError,
        (
            "Google does not accept this login ({message}); type: gcloud auth application-default login,"
            " then rerun the command"
        ),
    ),
    "quota": (
        CapacityError,
        (
            "{request}: {message}. Request a larger quota in the console (IAM & Admin, Quotas), or use"
            " fewer --nodes or another --region"
        ),
    ),
    "quota project": (
        CredentialsError,
        (
            "{request}: this login has no quota project; type: gcloud auth application-default"
            " set-quota-project {project}"
        ),
    ),
}
"""By the HTTP status, or what a response of any status is about."""
_OTHER: Final = (LaunchError, "{request}: Google answered {status} ({message})")


class Answer(NamedTuple):
    """A response of Google's.

    Attributes:
        status: HTTP status; 0: no response.
        message: Google's error message.
        reason: Machine-readable reason, such as SERVICE_DISABLED; may be empty.
        body: The decoded JSON.
        wait_seconds: Value of Retry-After.
    """

    status: int
    message: str = ""
    reason: str = ""
    body: Any = None
    wait_seconds: float = 0.0

    @property
    def case(self) -> int | str:
        """The case of an error: a word of the table, ``transient``, or its status.

        The status decides before the words: names may contain any word.

        The login of a user that names no project for its requests has the reason of a disabled API
        (https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds, 2026-11-25;
        https://github.com/hashicorp/terraform-provider-google/issues/20644).
        """
        if self.status == 403 and (found := self._forbidden):  # noqa: PLR2004
            return found
        if self.status not in (0, 401, 404, 409):
            why = cause(f"{self.reason} {self.message}")
            if why == "capacity" or (why == "quota" and self.status < 500):  # noqa: PLR2004
                return why
        if self.status == 400 and _BUSY.search(self.message):  # noqa: PLR2004
            return "busy"
        is_transient = self.status in (0, 429) or self.status >= 500  # noqa: PLR2004
        return "transient" if is_transient else self.status

    @property
    def _forbidden(self) -> int | str | None:
        if "requires a quota project" in self.message:
            return "quota project"
        if self.reason in ("SERVICE_DISABLED", "accessNotConfigured"):
            return "disabled"
        if _RATES.search(f"{self.reason} {self.message}"):
            return "transient"
        return self.status if "permission" in self.message.lower() else None


def cause(text: str) -> ResourceCause:
    """Returns why machines are unavailable according to Google's message; empty: another reason."""
    if _CAPACITY.search(text):
        return "capacity"
    return "quota" if _QUOTA.search(text) and not _RATES.search(text) else ""


def sentence(text: str) -> str:
    """Returns a text on one line, truncated and without its full stop."""
    return " ".join(str(text).split())[:_LONGEST_SENTENCE].rstrip(". ")


def host_of(url: str) -> str:
    """Returns the host of a URL, which is the name of its API."""
    return url.partition("://")[2].partition("/")[0]


def parse_answer(status: int, content: bytes, retry_after: str | None) -> Answer:
    """Parses a response and its error, if any."""
    try:
        body = parse_json(content, "Google's answer", any_text=True) if content else {}
    except DataError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    found: dict[str, Any] = error if isinstance(error, dict) else {}
    lists = [one for key in ("details", "errors") if isinstance(one := found.get(key), list)]
    listed = (one for each in lists for one in each if isinstance(one, dict))
    reasons = [str(one["reason"]) for one in listed if one.get("reason")]
    text = found.get("message") or content[:200].decode(errors="replace")
    wait = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    return Answer(status, sentence(text), reasons[0] if reasons else "", body, wait)


def error_of(request: str, url: str, answer: Answer) -> CloudganError:
    """Returns the error for an unsuccessful response."""
    kind, text = _ERRORS.get(answer.case if answer.status else 0, _OTHER)
    project = _PROJECT.search(url)
    return kind(
        text.format(
            request=request,
            message=answer.message or "no message",
            status=answer.status,
            host=host_of(url),
            project=project[1] if project else "PROJECT",
        )
    )
