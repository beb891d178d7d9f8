"""What Google refuses, as our errors: its sentence, and what to type next."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import CapacityError, CloudganError, CredentialsError, LaunchError

if TYPE_CHECKING:
    from cloudgan.core.thing import ThingCause

NOT_FOUND, CONFLICT = 404, 409
_INVALID, _UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _SERVER = 400, 401, 403, 429, 500
_LONGEST_SENTENCE = 300
_RATES = re.compile(r"rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED|per minute")
_QUOTA = re.compile(r"quota", re.IGNORECASE)
_CAPACITY = re.compile(
    r"STOCKOUT|RESOURCE_POOL_EXHAUSTED|enough resources available|no more capacity|out of capacity"
    r"|insufficient capacity",
    re.IGNORECASE,
)
_BUSY = re.compile(r"please wait and try again|incompatible operation|is currently", re.IGNORECASE)


class BusyError(LaunchError):
    """Another operation has to end first."""


class SwitchedOffError(CredentialsError):
    """The project does not use this API."""


class AbsentError(LaunchError):
    """There is no such thing."""


class TakenError(LaunchError):
    """There is one of this name."""


class Answer(NamedTuple):
    """An answer of Google's.

    Attributes:
        status: Of HTTP; 0: none came.
        said: Its sentence on what is wrong.
        reason: The same for programs, such as SERVICE_DISABLED; may be empty.
        body: What it holds otherwise.
        wait_seconds: For which it asks before the next try.
    """

    status: int
    said: str = ""
    reason: str = ""
    body: Any = None
    wait_seconds: float = 0.0

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed a little later."""
        if cause(self.said):
            return False
        is_rate = self.status == _FORBIDDEN and bool(_RATES.search(f"{self.reason} {self.said}"))
        return self.status in (0, _TOO_MANY) or self.status >= _SERVER or is_rate


def read(status: int, content: bytes, retry_after: str | None) -> Answer:
    """Reads an answer, and what is wrong where something is."""
    try:
        body = json.loads(content) if content else {}
    except ValueError:
        body = {}
    error = body.get("error") if isinstance(body, dict) else None
    found: dict[str, Any] = error if isinstance(error, dict) else {}
    reasons = [one.get("reason", "") for one in found.get("details", ()) if isinstance(one, dict)]
    reasons += [one.get("reason", "") for one in found.get("errors", ())]
    text = found.get("message") or content[:200].decode(errors="replace")
    wait = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return Answer(status, sentence(text), next(filter(None, reasons), ""), body, wait)


def sentence(text: str) -> str:
    """Returns a text as part of one line, and not endless."""
    return " ".join(str(text).split())[:_LONGEST_SENTENCE].rstrip(". ")


def cause(text: str) -> ThingCause:
    """Returns why there are no machines, where Google's sentence tells; empty: another reason."""
    if _CAPACITY.search(text):
        return "capacity"
    return "quota" if _QUOTA.search(text) and not _RATES.search(text) else ""


def no_machines(what: str, said: str, kind: ThingCause) -> CapacityError:
    """Returns the error of a stock-out or a quota."""
    if kind == "quota":
        return CapacityError(
            f"{what}: {said}. Ask for a larger quota in the console (IAM & Admin, Quotas), or take"
            " fewer --nodes or another --region"
        )
    return CapacityError(
        f"{what}: Google has none left there just now ({said}). Take another --region or --zone,"
        " --spot=never, or try later"
    )


def refusal(asked: str, url: str, answer: Answer) -> CloudganError:
    """Returns the error that an answer means.

    Args:
        asked: What was, for people.
        url: Where.
        answer: Google's, with a status that is no success.
    """
    said, status = answer.said or "without a word", answer.status
    if short := cause(f"{answer.reason} {said}"):
        return no_machines(asked, said, short)
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"Google does not accept this login ({said}); type: gcloud auth application-default"
            " login, and give the same command again"
        )
    if status == _FORBIDDEN:
        return _forbidden(asked, url, said, answer.reason)
    if kind := {NOT_FOUND: AbsentError, CONFLICT: TakenError}.get(status):
        return kind(f"{asked}: {said}")
    if status == _INVALID and _BUSY.search(said):
        return BusyError(said)
    where = "Google did not answer" if status == 0 else f"Google answered {status}"
    return LaunchError(f"{asked}: {where} ({said})")


def _forbidden(asked: str, url: str, said: str, reason: str) -> CloudganError:
    if reason in ("SERVICE_DISABLED", "accessNotConfigured"):
        host = url.partition("://")[2].partition("/")[0]
        return SwitchedOffError(
            f"{host} is switched off in this project; type: cloudgan setup --provider=gcp, or:"
            f" gcloud services enable {host}"
        )
    host = url.partition("://")[2].partition(".")[0]
    role = "image" if host in ("artifactregistry", "cloudbuild") else "policy"
    return CredentialsError(
        f"{asked}: {said}. deploy/gcp/{role}.yaml lists the rights that are needed; who owns the"
        " project grants them"
    )
