"""A cluster's API: plain requests by the official client, with bounded patience.

Requests are dictionaries as a plan holds them, so that what is shown is what is sent. The client
brings the login, its renewal and TLS.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import urllib3

from cloudgan.core.clock import monotonic_seconds
from cloudgan.kubernetes.refusal import AlreadyThereError, ApiError, passes, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubernetes.client import ApiClient

_OK: Final = 300
_MISSING: Final = 404
_TIMEOUT_SECONDS: Final = (5, 30)
_FIRST_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 8.0
_AT_FIRST_SECONDS: Final = 10.0
"""A cluster that never answered is more likely misspelt than away."""


class ClusterApi:
    """Sends requests to one cluster, again where that may help."""

    def __init__(
        self,
        client: ApiClient,
        *,
        patience_seconds: float = 120.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Takes a client.

        Args:
            client: Of the official library, logged in.
            patience_seconds: How long a cluster may be away before that is an error.
            say: Is told once when it is away and once when it is back.
        """
        self._client, self._patience, self._say = client, patience_seconds, say
        self._was_reached = False

    def get(self, path: str) -> dict[str, Any] | None:
        """Returns an object; None where there is none."""
        try:
            found: dict[str, Any] = self._json("GET", path)
        except ApiError as error:
            if error.status == _MISSING:
                return None
            raise
        return found

    def list(self, path: str, selector: str = "") -> dict[str, Any]:
        """Returns a list object: its items, and the resourceVersion from which to watch."""
        query = {"labelSelector": selector} if selector else {}
        found: dict[str, Any] = self._json("GET", path, query)
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Creates an object.

        Raises:
            AlreadyThereError: One of this name exists, perhaps from a try whose answer was lost.
        """
        found: dict[str, Any] = self._json("POST", path, body=body)
        return found

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Changes an object by a merge patch."""
        found: dict[str, Any] = self._json("PATCH", path, body=body)
        return found

    def delete(self, path: str) -> bool:
        """Asks to delete an object and what it owns; whether there was one."""
        try:
            self._json("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status == _MISSING:
                return False
            raise
        return True

    def groups(self) -> frozenset[str]:
        """Returns the API groups with their versions, such as ``batch/v1``."""
        found = self._json("GET", "/apis")
        return frozenset(v["groupVersion"] for g in found["groups"] for v in g["versions"])

    def watch(
        self, path: str, selector: str, since: str, seconds: int
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields changes as (type, object) until `seconds` are over or the stream is cut.

        Raises:
            GoneError: `since` is too long ago; list anew.
        """
        query = {
            "labelSelector": selector,
            "watch": "1",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        with self._stream(path, query, seconds + 5) as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise refusal(int(status.get("code", 0)), json.dumps(status).encode(), path)
                yield event["type"], event["object"]

    def log(self, path: str, *, container: str, follow: bool) -> Iterator[str]:
        """Yields the lines of a pod's log, each with its time; ends early where it is cut."""
        query = {"container": container, "timestamps": "true"} | (
            {"follow": "true"} if follow else {}
        )
        with self._stream(path, query, None if follow else 60) as lines:
            for line in lines:
                yield line.decode(errors="replace").rstrip("\n")

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Sends one request until it is answered, and not refused for now only."""
        patience = self._patience if self._was_reached else min(self._patience, _AT_FIRST_SECONDS)
        deadline, pause, away = monotonic_seconds() + patience, _FIRST_PAUSE_SECONDS, False
        while True:
            status, content, wait = self._once(method, path, query, body)
            if status and not passes(status):
                break
            if monotonic_seconds() >= deadline:
                raise (
                    self._away(content)
                    if not status
                    else refusal(status, content, f"{method} {path}")
                )
            if not status and not away and self._was_reached:
                away = True
                self._say(f"the cluster's API is away ({content.decode()}); asked again and again")
            time.sleep(min(wait or pause, _LONGEST_PAUSE_SECONDS))
            pause *= 2
        self._was_reached = True
        if away:
            self._say("the cluster's API is back")
        if status >= _OK:
            raise self._error(status, content, f"{method} {path}")
        return json.loads(content) if content else {}

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, bytes, float]:
        """Returns status, content and how long the server asks to wait; status 0: no answer."""
        try:
            answer = self._send(method, path, query, body, _TIMEOUT_SECONDS)
            content = answer.read() or b""
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return 0, _reason(error).encode(), 0.0
        asked = answer.getheader("Retry-After") or ""
        return int(answer.status), content, float(asked) if asked.isdigit() else 0.0

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        timeout: Any,
    ) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": kind},
            body=dict(body) if body is not None else None,
            auth_settings=["BearerToken"],
        )
        return self._client.call_api(*request, _request_timeout=timeout)

    @contextmanager
    def _stream(
        self, path: str, query: Mapping[str, str], seconds: float | None
    ) -> Iterator[Iterator[bytes]]:
        try:
            answer = self._send("GET", path, query, None, (_TIMEOUT_SECONDS[0], seconds))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(f"GET {path}: {_reason(error)}") from error
        try:
            if answer.status >= _OK:
                raise refusal(int(answer.status), answer.read() or b"", f"GET {path}")
            yield _lines(answer.response)
        finally:
            answer.response.close()
            answer.response.release_conn()

    @staticmethod
    def _error(status: int, content: bytes, asked: str) -> Exception:
        return refusal(status, content, asked)

    def _away(self, content: bytes) -> ApiError:
        where = self._client.configuration.host
        if not self._was_reached:
            return ApiError(
                f"nothing answers at {where} ({content.decode()}): is this the right --context, and"
                " is its network reachable from here?"
            )
        return ApiError(
            f"no answer from the cluster at {where} within {self._patience:.0f} s"
            f" ({content.decode()}); the run goes on there. Look at it again with `cloudgan status`"
        )


def _lines(response: Any) -> Iterator[bytes]:
    """Whole lines as they arrive; a cut stream ends like one that is over."""
    rest = b""
    try:
        for chunk in response.stream(65536, decode_content=True):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
    except (urllib3.exceptions.HTTPError, OSError):
        return
    if rest:
        yield rest


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None) or error
    text = " ".join(str(inner).split())
    return text.rpartition(">: ")[2] or type(inner).__name__


__all__ = ["AlreadyThereError", "ApiError", "ClusterApi"]
