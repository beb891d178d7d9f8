"""HTTP transport of registry requests, which never sends a login unencrypted."""

from __future__ import annotations

import http.client
import ipaddress
import urllib.error
import urllib.request
from email.message import Message
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

_TIMEOUT_SECONDS = 20.0
_MOST_BYTES = 1 << 24
"""Size limit of a response; a manifest has at most 4 MiB (OCI distribution 1.1)."""


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Message
    body: bytes


class Transport(Protocol):
    """Sends one request; raises `OSError` without a response."""

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> Answer:
        """Returns the response of any status."""


def is_loopback(url: str) -> bool:
    """Returns whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_safe(url: str) -> bool:
    """Returns whether a login may be sent to a URL: encrypted, or on this machine."""
    return urlsplit(url).scheme == "https" or is_loopback(url)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Drops the registry's token on redirects to other hosts, which store the blobs."""

    def redirect_request(  # noqa: PLR0917  as the standard library has it
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Returns the redirected request."""
        if not is_safe(newurl):
            raise urllib.error.URLError(f"{urlsplit(newurl).netloc} without encryption")
        redirected = super().redirect_request(req, fp, code, msg, headers, newurl)
        if redirected and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            redirected.headers.pop("Authorization", None)
        return redirected


class WebTransport:
    """Transport of the standard library, with the environment's proxies and certificates."""

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(_Redirects)

    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> Answer:
        """Returns the response of any status."""
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
            raise OSError(f"the response is truncated ({type(error).__name__})") from error
