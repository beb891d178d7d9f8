"""Client of one container registry: reads by the OCI distribution API.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md and, for tokens,
https://distribution.github.io/distribution/spec/auth/token/ (both read 2026-11-21).
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

from cloudgan.core import clouds, settings
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, CredentialsError, DataError
from cloudgan.launch.container_registry.login import DOCKER_HUB
from cloudgan.launch.container_registry.transport import WebTransport, is_loopback, is_safe

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

    from cloudgan.launch.container_registry.login import RegistryLogin
    from cloudgan.launch.container_registry.transport import Answer, Transport

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
_SCHEME = re.compile(r"(?:^|,)\s*(?P<scheme>Bearer|Basic)(?=\s|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))', re.IGNORECASE)
_DOCKER_HUB_HOSTS = frozenset(
    {DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "auth.docker.io"}
)
_PUBLIC_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gov", "net", "or", "org"})
"""Labels under which different owners have domains, as in co.uk and ac.jp."""
_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')


class RegistryError(CloudganError):
    """A registry does not respond, is overloaded, or sends an invalid response."""


class MissingError(CloudganError):
    """A registry has no such manifest or repository."""


class Challenge(NamedTuple):
    """An authentication challenge (header WWW-Authenticate).

    Attributes:
        scheme: bearer (a token from `realm`) or basic (the login itself).
        realm: URL of the token service.
        service: Service that the token is for.
        scope: Access that the token grants.
    """

    scheme: str
    realm: str
    service: str
    scope: str


def parse_challenge(headers: Message) -> Challenge | None:
    """Returns the preferred challenge of a 401 response: bearer before basic; None without one."""
    text = ", ".join(headers.get_all("WWW-Authenticate") or ())
    starts = list(_SCHEME.finditer(text))
    found = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        part = text[start.end() : end.start() if end else len(text)]
        values = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(part)}
        found.append(
            Challenge(
                start["scheme"].lower(),
                values.get("realm", ""),
                values.get("service", ""),
                values.get("scope", ""),
            )
        )
    return next((one for one in found if one.scheme == "bearer"), found[0] if found else None)


def address_of(host: str) -> str:
    """Returns the URL of a registry's API; CLOUDGAN_DOCKER_MIRROR replaces Docker Hub's."""
    if host == DOCKER_HUB:
        return (
            settings.address("CLOUDGAN_DOCKER_MIRROR") or "https://registry-1.docker.io"
        ).rstrip("/")
    return f"http://{host}" if is_loopback(f"http://{host}") else f"https://{host}"


def may_receive_login(host: str, url: str) -> bool:
    """Whether the login of a registry may be sent to a URL: its API, or the token service it names.

    A token service is on the registry's own host, above or below it in its domain, or beside it in a
    domain of one owner, as registry.example.org and gitlab.example.org. The registries of a cloud's
    customers share a domain, so their token services are on the same host. Docker Hub's hosts are
    those of https://distribution.github.io/distribution/spec/auth/token/ (read 2026-11-22).

    Args:
        host: As in image references, such as docker.io.
        url: URL of the API or of the token service.
    """
    own, other = urlsplit(f"//{host}").hostname or "", urlsplit(url).hostname or ""
    if host == DOCKER_HUB:
        return other in _DOCKER_HUB_HOSTS
    if own == other:
        return True
    if _is_address(own) or _is_address(other) or clouds.of_registry(host):
        return False
    parent = own.partition(".")[2]
    is_domain = parent.count(".") >= 1 and parent.partition(".")[0] not in _PUBLIC_SECOND_LEVEL
    beside = is_domain and other.endswith(f".{parent}")
    return other.endswith(f".{own}") or (is_domain and other == parent) or beside


def _is_address(host: str) -> bool:
    """Whether a host is an IP address or a name without a domain."""
    return "." not in host or ":" in host or host.rpartition(".")[2].isdigit()


class Registry:
    """One registry; keeps its token.

    The login is sent only where `may_receive_login` says so; elsewhere the client continues without.

    All requests raise `MissingError` if the manifest, blob or repository does not exist,
    `CredentialsError` if the registry requires a login or refuses it, and `RegistryError` if it does
    not respond.

    Args:
        host: As in image references, such as docker.io.
        login: Login for private images; None: anonymous.
        why_no_login: Added to the error if the registry requires a login.
        transport: Sends requests.
        address: URL of its API; None: derived from the host.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        host: str,
        login: RegistryLogin | None = None,
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
        self._credential: str | None = None
        self._problem = "requires a login, and none was found"
        if login and not may_receive_login(host, self._address):
            self._withhold(self._address)

    def digest(self, repository: str, reference: str) -> str | None:
        """Returns the digest of a tag; None if the registry sends no header with it.

        A HEAD request does not count against Docker Hub's pull limit.
        """
        answer = self._request(f"{repository}/manifests/{reference}", "HEAD")
        digest: str | None = answer.headers.get("Docker-Content-Digest")
        return digest

    def manifest(self, repository: str, reference: str) -> bytes:
        """Returns a manifest's bytes, whose hash is the digest."""
        return self._request(f"{repository}/manifests/{reference}").body

    def blob(self, repository: str, digest: str) -> bytes:
        """Returns a blob, such as an image's configuration."""
        return self._request(f"{repository}/blobs/{digest}").body

    def tags(self, repository: str) -> tuple[str, ...]:
        """Returns the tags of a repository."""
        found: list[str] = []
        path: str | None = f"{repository}/tags/list?n=1000"
        for _ in range(_MOST_PAGES):
            if path is None:
                break
            answer = self._request(path)
            found += self._json(answer).get("tags") or ()
            following = _NEXT.search(answer.headers.get("Link") or "")
            path = following[1] if following else None
        return tuple(found)

    def _request(self, path: str, method: str = "GET") -> Answer:
        url = urljoin(f"{self._address}/v2/", path)
        if urlsplit(url).netloc != urlsplit(self._address).netloc:
            raise RegistryError(f"registry {self._host} redirects to {urlsplit(url).netloc}")
        headers = {"Accept": ", ".join(MANIFESTS)}
        answer = self._send(method, url, headers | self._authorization())
        if answer.status == _UNKNOWN:
            challenge = parse_challenge(answer.headers)
            repository = path.partition("/manifests")[0].partition("/blobs")[0]
            if challenge and self._authenticate(challenge, f"{repository}:pull"):
                answer = self._send(method, url, headers | self._authorization())
        if answer.status in _DENIED:
            raise CredentialsError(self._denied(answer))
        if answer.status == _MISSING:
            raise MissingError(f"registry {self._host} has no {path}")
        if not _OK <= answer.status <= _MOST_OK:
            raise RegistryError(f"registry {self._host}: HTTP {answer.status} {_reason(answer)}")
        return answer

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": self._credential} if self._credential else {}

    def _authenticate(self, challenge: Challenge, rights: str) -> bool:
        """Gets the credential for a challenge; returns whether it is a new one."""
        if challenge.scheme == "basic":
            before, self._credential = (
                self._credential,
                self._login.header() if self._login else None,
            )
            return self._credential not in (None, before)
        if not is_safe(challenge.realm):
            raise RegistryError(
                f"registry {self._host} sends the login to {challenge.realm!r} without encryption"
            )
        scope = challenge.scope or f"repository:{rights}"
        query = (
            {"service": challenge.service, "scope": scope}
            if challenge.service
            else {"scope": scope}
        )
        if is_loopback(challenge.realm) and not is_loopback(self._address):
            raise RegistryError(
                f"registry {self._host} sends the login to {challenge.realm!r}, here"
            )
        if self._login and not may_receive_login(self._host, challenge.realm):
            self._withhold(challenge.realm)
        joint = "&" if "?" in challenge.realm else "?"
        headers = {"Authorization": self._login.header()} if self._login else {}
        answer = self._send("GET", f"{challenge.realm}{joint}{urlencode(query)}", headers)
        if answer.status in _DENIED:
            raise CredentialsError(self._denied(answer))
        if answer.status != _OK:
            raise RegistryError(
                f"registry {self._host} gives no token: HTTP {answer.status} {_reason(answer)}"
            )
        found = self._json(answer)
        token = found.get("token") or found.get("access_token")
        if not token:
            raise RegistryError(f"registry {self._host} gives no token")
        self._credential = f"Bearer {token}"
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

    def _withhold(self, url: str) -> None:
        """Continues without the login, which suffices for public images."""
        self._login = None
        self._problem = "requires a login"
        self._why_no_login = (
            f"the login of {self._host} is not sent to {urlsplit(url).hostname}, which does not belong"
            " to this registry"
        )

    def _denied(self, answer: Answer) -> str:
        problem = "refuses this login" if self._login else self._problem
        why = f": {self._why_no_login}" if self._why_no_login else ""
        return f"registry {self._host} {problem} (HTTP {answer.status} {_reason(answer)}){why}"

    def _json(self, answer: Answer) -> dict[str, Any]:
        found = parse_json(answer.body, f"registry {self._host}", RegistryError)
        return found if isinstance(found, dict) else {}


def _wait_seconds(answer: Answer, attempt: int) -> float:
    header = (answer.headers.get("Retry-After") or "").strip()
    return float(header) if header.isdecimal() else 0.5 * 2**attempt


def _reason(answer: Answer) -> str:
    """Returns the registry's error codes, such as TOOMANYREQUESTS; may be empty."""
    try:
        errors = parse_json(answer.body, "answer", any_text=True)["errors"]
        return ", ".join(str(one["code"]) for one in errors)
    except (DataError, LookupError, TypeError):
        return ""
