"""HTTP client for price lists, with retries and checks for complete responses."""

from __future__ import annotations

import email.utils
import http.client
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, DataError

_ATTEMPTS = 4
_TIMEOUT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 60.0
_BLOCK = 1 << 16
_MOST_PAGE_BYTES = 1 << 28
_AGAIN = frozenset({429, 500, 502, 503, 504})
_DENIED = frozenset({401, 403})


@dataclass(frozen=True)
class Web:
    """Retries requests to a busy server; follows Retry-After within limits.

    Attributes:
        sleep: Waits for seconds; tests replace it.
        attempts: Maximum number of requests for one page.
    """

    sleep: Callable[[float], None] = time.sleep
    attempts: int = _ATTEMPTS

    def json(self, url: str) -> dict[str, Any]:
        """Reads a page that is one JSON object.

        Raises:
            CredentialsError: The server rejects the key.
            DataError: The page is not a JSON object, or incomplete.
            CloudganError: The server does not respond, or is busy at the last attempt.
        """
        body = self._get(url, _page)
        found = parse_json(body, url)
        if not isinstance(found, dict):
            raise DataError(f"{url}: expected a JSON object, not {_kind(found)}")
        return found

    def download(self, url: str, file: BinaryIO) -> None:
        """Writes a page to a file, which each attempt truncates.

        Raises:
            CredentialsError: The server rejects the key.
            DataError: The page is incomplete.
            CloudganError: The server does not respond, or is busy at the last attempt.
        """

        def copy(answer: http.client.HTTPResponse) -> None:
            file.seek(0)
            file.truncate()
            whole = answer.length
            while block := answer.read(_BLOCK):
                file.write(block)
            if whole is not None and file.tell() != whole:
                raise http.client.IncompleteRead(b"", whole - file.tell())

        self._get(url, copy)

    def _get(self, url: str, read: Callable[[http.client.HTTPResponse], Any]) -> Any:
        if not host_of(url):
            raise _no_address(url)
        for left in reversed(range(self.attempts)):
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - checked above
                    return read(answer)
            except urllib.error.HTTPError as error:
                with error:
                    wait = _wait_seconds(error, self.attempts - left)
                    if error.code not in _AGAIN or not left or wait > _LONGEST_WAIT_SECONDS:
                        raise _refusal(url, error) from error
            except http.client.InvalidURL as error:
                raise _no_address(url) from error
            except (http.client.HTTPException, EOFError) as error:
                if not left:
                    raise DataError(f"{url}: the response is incomplete") from error
                wait = _backoff_seconds(self.attempts - left)
            except OSError as error:
                if not left:
                    reason = getattr(error, "reason", error)
                    raise CloudganError(
                        f"{url}: no response ({reason}); check the network connection"
                    ) from error
                wait = _backoff_seconds(self.attempts - left)
            self.sleep(wait)
        raise AssertionError("unreachable")


def host_of(url: str) -> str:
    """Returns the host of an http or https address; empty: it is none."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:
        return ""
    return host if parts.scheme in {"http", "https"} else ""


def _no_address(url: str) -> ConfigError:
    return ConfigError(f"{url}: expected an http or https address")


def _page(answer: http.client.HTTPResponse) -> bytes:
    body = answer.read(_MOST_PAGE_BYTES)
    if answer.length:  # read(n) does not report an incomplete response
        raise http.client.IncompleteRead(b"", answer.length)
    return body


def _refusal(url: str, error: urllib.error.HTTPError) -> CloudganError:
    if error.code in _DENIED:
        return CredentialsError(f"{url}: rejected (HTTP {error.code}); check the key")
    busy = "; the server is busy, try again later" if error.code in _AGAIN else ""
    return CloudganError(f"{url}: HTTP {error.code} {error.reason}{busy}")


def _wait_seconds(error: urllib.error.HTTPError, attempt: int) -> float:
    """Returns the seconds of Retry-After (a number or a date); else exponential backoff."""
    after = (error.headers.get("Retry-After") or "").strip()
    if after.isdecimal():
        return float(after)
    until, now = (email.utils.parsedate_tz(text) for text in (after, error.headers.get("Date", "")))
    if until is None or now is None:
        return _backoff_seconds(attempt)
    return max(0.0, float(email.utils.mktime_tz(until) - email.utils.mktime_tz(now)))


def _backoff_seconds(attempt: int) -> float:
    return math.ldexp(0.5, attempt)


def _kind(found: object) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(found), "a number")
