"""Mapping of Google's error responses to cloudgan's errors, with the command to run next."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    CredentialsError,
    DataError,
    LaunchError,
    StockOutError,
)
from cloudgan.schema.resource import ResourceCause

NOT_FOUND, CONFLICT = 404, 409
_INVALID, _UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _SERVER = 400, 401, 403, 429, 500
_NEVER_MACHINES = (0, _UNAUTHORIZED, NOT_FOUND, CONFLICT)
_LONGEST_SENTENCE = 300
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


class BusyError(LaunchError):
    """Another operation has to end first."""


class DisabledApiError(CredentialsError):
    """The API is not enabled in the project."""


class AbsentError(LaunchError):
    """The resource does not exist."""


class TakenError(LaunchError):
    """The name is in use."""


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
    def is_transient(self) -> bool:
        """Whether the same request may succeed a little later."""
        if self.cause:
            return False
        is_rate = self.status == _FORBIDDEN and bool(_RATES.search(f"{self.reason} {self.message}"))
        return self.status in (0, _TOO_MANY) or self.status >= _SERVER or is_rate

    @property
    def cause(self) -> ResourceCause:
        """Why machines are unavailable; empty: another reason. Names in a message may contain any word."""
        is_permission = self.status == _FORBIDDEN and "permission" in self.message.lower()
        is_login = is_permission or self.is_disabled_api or self.needs_quota_project
        if is_login or self.status in _NEVER_MACHINES:
            return ""
        found = cause(f"{self.reason} {self.message}")
        return "" if found == "quota" and self.status >= _SERVER else found

    @property
    def needs_quota_project(self) -> bool:
        """Whether the login of a user names no project that pays for its requests.

        https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds (2026-11-25); the reason
        is that of a disabled API (https://github.com/hashicorp/terraform-provider-google/issues/20644).
        """
        return self.status == _FORBIDDEN and "requires a quota project" in self.message

    @property
    def is_disabled_api(self) -> bool:
        """Whether the API is not enabled in the project, or was enabled minutes ago."""
        is_off = self.reason in ("SERVICE_DISABLED", "accessNotConfigured")
        return self.status == _FORBIDDEN and is_off and not self.needs_quota_project


def parse_answer(status: int, content: bytes, retry_after: str | None) -> Answer:
    """Parses a response and its error, if any."""
    try:
        body = parse_json(content, "Google's answer", any_text=True) if content else {}
    except DataError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    found: dict[str, Any] = error if isinstance(error, dict) else {}
    reasons = [one.get("reason", "") for one in found.get("details", ()) if isinstance(one, dict)]
    reasons += [one.get("reason", "") for one in found.get("errors", ()) if isinstance(one, dict)]
    text = found.get("message") or content[:200].decode(errors="replace")
    wait = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    return Answer(status, sentence(text), next(filter(None, reasons), ""), body, wait)


def sentence(text: str) -> str:
    """Returns a text on one line, truncated and without its full stop."""
    return " ".join(str(text).split())[:_LONGEST_SENTENCE].rstrip(". ")


def cause(text: str) -> ResourceCause:
    """Returns why machines are unavailable according to Google's message; empty: another reason."""
    if _CAPACITY.search(text):
        return "capacity"
    return "quota" if _QUOTA.search(text) and not _RATES.search(text) else ""


def error_of(request: str, url: str, answer: Answer) -> CloudganError:
    """Returns the error for an unsuccessful response.

    Args:
        request: Description of the request.
        url: URL of the request.
        answer: The response.
    """
    message, status = answer.message or "no message", answer.status
    if answer.cause:
        return _no_machines(request, message, answer.cause)
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"Google does not accept this login ({message}); type: gcloud auth application-default"
            " login, then rerun the command"
        )
    if status == _FORBIDDEN:
        return _forbidden(request, url, message, answer)
    if kind := {NOT_FOUND: AbsentError, CONFLICT: TakenError}.get(status):
        return kind(f"{request}: {message}")
    if status == _INVALID and _BUSY.search(message):
        return BusyError(message)
    response = "Google did not answer" if status == 0 else f"Google answered {status}"
    return LaunchError(f"{request}: {response} ({message})")


def _no_machines(request: str, message: str, kind: ResourceCause) -> CapacityError:
    if kind == "quota":
        return CapacityError(
            f"{request}: {message}. Request a larger quota in the console (IAM & Admin, Quotas), or"
            " use fewer --nodes or another --region"
        )
    return StockOutError(
        f"{request}: Google has no capacity there now ({message}). Use another --region or --zone,"
        " --market=on_demand, or try later"
    )


def host_of(url: str) -> str:
    """Returns the host of a URL, which is the name of its API."""
    return url.partition("://")[2].partition("/")[0]


def _forbidden(request: str, url: str, message: str, answer: Answer) -> CloudganError:
    host = host_of(url)
    if answer.needs_quota_project:
        project = _PROJECT.search(url)
        return CredentialsError(
            f"{request}: this login has no quota project; type: gcloud auth application-default"
            f" set-quota-project {project[1] if project else 'PROJECT'}"
        )
    if answer.is_disabled_api:
        return DisabledApiError(
            f"{host} is not enabled in this project; type: cloudgan setup --provider=gcp, or:"
            f" gcloud services enable {host}"
        )
    return CredentialsError(
        f"{request}: {message}. deploy/gcp/policy.yaml and resources.yaml list the required"
        " permissions; an owner of the project grants them (docs/gcp.md)"
    )
