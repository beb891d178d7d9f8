"""Asks one registry: the part of the OCI distribution API that only reads.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md and, for tokens,
https://distribution.github.io/distribution/spec/auth/token/ (both read 2026-11-21).
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from cloudgan.core import settings
from cloudgan.core.errors import CredentialsError
from cloudgan.registries import challenge as challenges
from cloudgan.registries.failure import MissingError, RegistryError
from cloudgan.registries.reference import DOCKER_HUB
from cloudgan.registries.transport import WebTransport, is_loopback, is_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.registries.challenge import Challenge
    from cloudgan.registries.login import Login
    from cloudgan.registries.transport import Answer, Transport

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ATTEMPTS = 3
_LONGEST_WAIT_SECONDS = 30.0
_MOST_PAGES = 20
_AGAIN = frozenset({429, 500, 502, 503, 504})
_OK, _UNKNOWN, _MISSING, _MOST_OK = 200, 401, 404, 299
_DENIED = frozenset({401, 403})
_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')


def address_of(host: str) -> str:
    """Returns the URL of a registry's API; CLOUDGAN_DOCKER_MIRROR stands for Docker Hub's."""
    if host == DOCKER_HUB:
        return (
            settings.variable("CLOUDGAN_DOCKER_MIRROR") or "https://registry-1.docker.io"
        ).rstrip("/")
    return f"http://{host}" if is_loopback(f"http://{host}") else f"https://{host}"


class Registry:
    """One registry, with what it gave us to show it again.

    Args:
        host: As images name it, such as docker.io.
        login: Ours there; None: anybody's.
        why_no_login: What to tell where one turns out to be needed.
        transport: Sends requests.
        address: URL of its API; None: the usual one.
        sleep: Waits so many seconds; tests count instead.
    """

    def __init__(
        self,
        host: str,
        login: Login | None = None,
        *,
        why_no_login: str = "",
        transport: Transport | None = None,
        address: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host, self._login, self._sleep = host, login, sleep
        self._why_no_login = why_no_login
        self._transport = transport or WebTransport()
        self._address = address or address_of(host)
        self._shown: str | None = None

    def digest(self, repository: str, reference: str) -> str | None:
        """Returns the digest of a tag; None where this registry does not tell it in a header.

        Asking for it counts as no pull at Docker Hub, where pulls are numbered.

        Raises:
            MissingError: There is none.
            CredentialsError: It lets us not in.
            RegistryError: It stays away.
        """
        answer = self._get(f"{repository}/manifests/{reference}", "HEAD")
        told: str | None = answer.headers.get("Docker-Content-Digest")
        return told

    def manifest(self, repository: str, reference: str) -> bytes:
        """Returns a manifest as it is, of whose bytes the digest is made.

        Raises:
            MissingError: There is none.
            CredentialsError: It lets us not in.
            RegistryError: It stays away.
        """
        return self._get(f"{repository}/manifests/{reference}").body

    def blob(self, repository: str, digest: str) -> bytes:
        """Returns a small blob, such as an image's configuration.

        Raises:
            MissingError: There is none.
            CredentialsError: It lets us not in.
            RegistryError: It stays away.
        """
        return self._get(f"{repository}/blobs/{digest}").body

    def tags(self, repository: str) -> tuple[str, ...]:
        """Returns the tags of a repository, page by page.

        Raises:
            MissingError: There is no such repository.
            CredentialsError: It lets us not in.
            RegistryError: It stays away.
        """
        found: list[str] = []
        path: str | None = f"{repository}/tags/list?n=1000"
        for _ in range(_MOST_PAGES):
            if path is None:
                break
            answer = self._get(path)
            found += self._json(answer).get("tags") or ()
            following = _NEXT.search(answer.headers.get("Link") or "")
            path = following[1] if following else None
        return tuple(found)

    def _get(self, path: str, method: str = "GET") -> Answer:
        url = urljoin(f"{self._address}/v2/", path)
        if urlsplit(url).netloc != urlsplit(self._address).netloc:
            raise RegistryError(f"registry {self._host} sends us on to {urlsplit(url).netloc}")
        headers = {"Accept": ", ".join(MANIFESTS)}
        answer = self._send(method, url, headers | self._authorization())
        if answer.status == _UNKNOWN:
            asked = challenges.parse(answer.headers)
            if asked is not None and self._answer_to(asked, path.partition("/manifests")[0]):
                answer = self._send(method, url, headers | self._authorization())
        if answer.status in _DENIED:
            raise CredentialsError(self._denied(answer))
        if answer.status == _MISSING:
            raise MissingError(f"registry {self._host} has no {path}")
        if not _OK <= answer.status <= _MOST_OK:
            raise RegistryError(f"registry {self._host}: HTTP {answer.status} {_reason(answer)}")
        return answer

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": self._shown} if self._shown else {}

    def _answer_to(self, asked: Challenge, repository: str) -> bool:
        """Gets what the registry wants to see; whether there is something new to show."""
        if asked.scheme == "basic":
            before, self._shown = self._shown, self._login.header() if self._login else None
            return self._shown not in (None, before)
        if not is_safe(asked.realm):
            raise RegistryError(
                f"registry {self._host} gives tokens at {asked.realm!r}, without encryption"
            )
        scope = asked.scope or f"repository:{repository}:pull"
        query = {"service": asked.service, "scope": scope} if asked.service else {"scope": scope}
        joint = "&" if "?" in asked.realm else "?"
        headers = {"Authorization": self._login.header()} if self._login else {}
        answer = self._send("GET", f"{asked.realm}{joint}{urlencode(query)}", headers)
        if answer.status in _DENIED:
            raise CredentialsError(self._denied(answer))
        if answer.status != _OK:
            raise RegistryError(
                f"registry {self._host} gives no token: HTTP {answer.status} {_reason(answer)}"
            )
        told = self._json(answer)
        token = told.get("token") or told.get("access_token")
        if not token:
            raise RegistryError(f"registry {self._host} gives no token")
        self._shown = f"Bearer {token}"
        return True

    def _send(self, method: str, url: str, headers: dict[str, str]) -> Answer:
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            try:
                answer = self._transport.send(method, url, headers)
            except OSError as error:
                if last:
                    reason = getattr(error, "reason", error)
                    raise RegistryError(
                        f"registry {self._host} does not answer ({reason})"
                    ) from error
                self._sleep(0.5 * attempt)
                continue
            wait = _wait_seconds(answer, attempt)
            if answer.status not in _AGAIN or last or wait > _LONGEST_WAIT_SECONDS:
                return answer
            self._sleep(wait)
        raise AssertionError("unreachable")

    def _denied(self, answer: Answer) -> str:
        who = "refuses this login" if self._login else "wants a login, and none was found here"
        why = f": {self._why_no_login}" if self._why_no_login else ""
        return f"registry {self._host} {who} (HTTP {answer.status} {_reason(answer)}){why}"

    def _json(self, answer: Answer) -> dict[str, Any]:
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise RegistryError(f"registry {self._host}: no JSON ({error})") from error
        return found if isinstance(found, dict) else {}


def _wait_seconds(answer: Answer, attempt: int) -> float:
    said = (answer.headers.get("Retry-After") or "").strip()
    return float(said) if said.isdecimal() else 0.5 * 2**attempt


def _reason(answer: Answer) -> str:
    """The registry's own words, such as TOOMANYREQUESTS; nothing where it has none."""
    try:
        errors = json.loads(answer.body)["errors"]
        return ", ".join(str(one["code"]) for one in errors)
    except (ValueError, LookupError, TypeError):
        return ""
