"""One HTTP request and its answer; the client above it decides what to ask and how often."""

from __future__ import annotations

import http.client
import ipaddress
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from email.message import Message

_TIMEOUT_SECONDS = 20.0
_MOST_BYTES = 1 << 24
"""Of an answer; a manifest has at most 4 MiB (OCI distribution 1.1)."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Message
    body: bytes


class Transport(Protocol):
    """Sends one request; raises `OSError` where nobody answers."""

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> Answer:
        """Returns the answer, whatever its status."""


def is_loopback(url: str) -> bool:
    """Whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_safe(url: str) -> bool:
    """Whether a login may travel there: encrypted, or on this machine only."""
    return urlsplit(url).scheme == "https" or is_loopback(url)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Blobs lie on other hosts, which must not see the token of the registry."""

    def redirect_request(  # noqa: PLR0917  as the standard library has it
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Returns the request at the other place."""
        if not is_safe(newurl):
            raise urllib.error.URLError(f"{urlsplit(newurl).netloc} without encryption")
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            made.headers.pop("Authorization", None)
        return made


class WebTransport:
    """The standard library's, with the proxies and certificates of the environment."""

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(_Redirects)

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> Answer:
        """Returns the answer, whatever its status."""
        if not is_safe(url):
            raise urllib.error.URLError(f"{urlsplit(url).netloc} without encryption")
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310  checked above
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return Answer(answer.status, answer.headers, answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read(_MOST_BYTES))
        except http.client.HTTPException as error:
            raise OSError(f"the answer ends too early ({type(error).__name__})") from error
