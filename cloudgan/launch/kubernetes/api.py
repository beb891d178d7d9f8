"""Kubernetes API requests through the official client, with retries and error mapping.

Requests are the dictionaries of the plan, so a shown plan is what is sent. The client provides
credentials, their renewal, and TLS.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import MAX_BYTES, parse_json, translated
from cloudgan.core.errors import (
    CapacityError,
    CloudganError,
    ConfigError,
    CredentialsError,
    LaunchError,
)
from cloudgan.launch.kubernetes.kubeconfig import ApiClient

_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 400, 401, 403, 404, 409
_INVALID, _TOO_MANY, _SERVER = 422, 429, 500
_REDIRECT: Final = 300
_TIMEOUT_SECONDS: Final = (5, 30)
_INITIAL_BACKOFF_SECONDS: Final = 0.25
_MAX_BACKOFF_SECONDS: Final = 8.0
_FIRST_CONTACT_SECONDS: Final = 10.0
"""Retry limit until the first response: the address may be wrong."""
_REPORT_SECONDS: Final = 60.0
_STRICT: Final = {"fieldValidation": "Strict"}
"""Otherwise the server drops unknown fields, and a run has other rules than its plan shows."""


class ApiError(CloudganError):
    """Error response of a cluster; `status` is the HTTP status, 0 without a response."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class AlreadyExistsError(ApiError):
    """The object exists already (409)."""


def _transport_errors() -> tuple[type[Exception], ...]:
    """Of the Kubernetes client, which a base installation lacks; a LaunchError: no answer of what gives the token."""
    return importlib.import_module("urllib3.exceptions").HTTPError, OSError, LaunchError


class ClusterApi:
    """Sends requests to one cluster and retries transient failures.

    Attributes:
        client: The authenticated client of the official library.
        say: Receives progress, and that the cluster becomes unreachable and is back.
        new_until: Until when unreachable endpoints and denied logins are retried, by `monotonic_seconds`: the
            cluster is new.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        patience_seconds: float = 120.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Retries an unreachable cluster for `patience_seconds`."""
        self.client, self._patience, self.say = client, patience_seconds, say
        self._was_reached = False
        self.new_until = 0.0

    def get(self, path: str) -> dict[str, Any] | None:
        """Returns an object; None if it does not exist."""
        try:
            found: dict[str, Any] = self._json("GET", path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return found

    def list(self, path: str, selector: str = "") -> dict[str, Any]:
        """Returns a list object: its items, and the resourceVersion for `watch`."""
        query = {"labelSelector": selector} if selector else {}
        found: dict[str, Any] = self._json("GET", path, query)
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Creates an object; a field that this version of Kubernetes does not know is an error.

        Raises:
            AlreadyExistsError: It exists, perhaps from a request whose response was lost.
        """
        found: dict[str, Any] = self._json("POST", path, _STRICT, body)
        return found

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Applies a JSON merge patch to an object."""
        found: dict[str, Any] = self._json("PATCH", path, _STRICT, body)
        return found

    def delete(self, path: str, *, uid: str | None = None) -> bool:
        """Deletes an object and its dependents, the dependents first; returns whether it existed.

        With a `uid` only that object, not another one of its name.
        """
        options: dict[str, Any] = {"propagationPolicy": "Foreground"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._json("DELETE", path, body=options)
        except ApiError as error:
            if error.status == _NOT_FOUND or (uid and error.status == _CONFLICT):
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
        """Yields changes as (type, object) for `seconds` or until the stream is cut.

        Raises:
            ApiError: Such as that `since` is too old (410); list again.
        """
        query = {
            "labelSelector": selector,
            "watch": "1",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        with self._stream(path, query, seconds + 5) as lines:
            for line in lines:
                event = parse_json(line, f"GET {path}", ApiError, any_text=True)
                with translated("a watch event", f"GET {path}", ApiError):
                    kind, found = str(event["type"]), dict(event["object"])
                if kind == "ERROR":
                    raise map_error(int(found.get("code", 0)), json.dumps(found).encode(), path)
                yield kind, found

    def log(self, path: str, *, container: str, follow: bool) -> Iterator[str]:
        """Yields the lines of a pod's log with time stamps, until the end or a cut connection."""
        query = {"container": container, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
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
        """Sends one request and retries until the response is final or the time is over."""
        request, patience = f"{method} {path}", self._patience
        if not self._was_reached:
            patience = min(patience, _FIRST_CONTACT_SECONDS)
        deadline, reported = monotonic_seconds() + patience, -_REPORT_SECONDS
        backoff, unreachable = _INITIAL_BACKOFF_SECONDS, False
        while True:
            status, content, wait = self._once(method, path, query, body)
            left = self.new_until - monotonic_seconds()
            # An exceeded quota is another reason for 403 than a denied login.
            is_denied = status == _UNAUTHORIZED or (
                status == _FORBIDDEN and "exceeded quota" not in _message(content)
            )
            is_starting = left > 0 and is_denied
            if status and not is_transient(status) and not is_starting:
                break
            if monotonic_seconds() >= max(deadline, self.new_until):
                raise map_error(status, content, request) if status else self._unreachable(content)
            if left > 0 and not self._was_reached:
                if monotonic_seconds() - reported >= _REPORT_SECONDS:
                    reported = monotonic_seconds()
                    why = f"HTTP {status}: {_message(content)}"
                    self.say(
                        "the API of the new cluster does not accept requests yet"
                        f" ({why if status else content.decode()}); retrying for {left:.0f} s"
                    )
            elif not status and not unreachable and self._was_reached:
                unreachable = True
                self.say(f"the cluster's API is unreachable ({content.decode()}); retrying")
            time.sleep(min(wait or backoff, _MAX_BACKOFF_SECONDS))
            backoff *= 2
        self._was_reached = True
        if unreachable:
            self.say("the cluster's API is reachable again")
        if status >= _REDIRECT:
            raise map_error(status, content, request)
        found = parse_json(content, request, ApiError, any_text=True) if content else {}
        if not isinstance(found, dict):
            raise ApiError(
                f"{request}: the answer is not a JSON object; check the server's address"
            )
        return found

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, bytes, float]:
        """Returns status, content and Retry-After in seconds; status 0: no response."""
        try:
            answer = self._send(method, path, query, body, _TIMEOUT_SECONDS)
            content = answer.response.read(MAX_BYTES + 1, decode_content=True) or b""
        except _transport_errors() as error:
            return 0, _reason(error).encode(), 0.0
        retry_after = answer.getheader("Retry-After") or ""
        return int(answer.status), content, float(retry_after) if retry_after.isdecimal() else 0.0

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        timeout: Any,
    ) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = self.client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": kind},
            body=dict(body) if body is not None else None,
            auth_settings=["BearerToken"],
        )
        return self.client.call_api(*request, _request_timeout=timeout)

    @contextmanager
    def _stream(
        self, path: str, query: Mapping[str, str], seconds: float | None
    ) -> Iterator[Iterator[bytes]]:
        try:
            answer = self._send("GET", path, query, None, (_TIMEOUT_SECONDS[0], seconds))
        except _transport_errors() as error:
            raise ApiError(f"GET {path}: {_reason(error)}") from error
        try:
            if answer.status >= _REDIRECT:
                raise map_error(int(answer.status), answer.read() or b"", f"GET {path}")
            yield _lines(answer.response)
        finally:
            answer.response.close()
            answer.response.release_conn()

    def _unreachable(self, content: bytes) -> ApiError:
        where = self.client.configuration.host
        if not self._was_reached:
            return ApiError(
                f"no response from {where} ({content.decode()}); check --context and that its network"
                " is reachable from here"
            )
        return ApiError(
            f"no answer from the cluster at {where} within {self._patience:.0f} s"
            f" ({content.decode()}); try again later"
        )


def _lines(response: Any) -> Iterator[bytes]:
    """Yields complete lines as they arrive; ends when the stream ends or is cut."""
    rest = b""
    try:
        for chunk in response.stream(65536, decode_content=True):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > MAX_BYTES:
                raise ApiError(f"the API sent a line of more than {MAX_BYTES} bytes")
    except _transport_errors():
        return
    if rest:
        yield rest


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None) or error
    text = " ".join(str(inner).split())
    return text.rpartition(">: ")[2] or type(inner).__name__


def is_transient(status: int) -> bool:
    """Whether a retry of the request may succeed."""
    return status == _TOO_MANY or status >= _SERVER


def map_error(status: int, body: bytes, request: str) -> CloudganError:
    """Returns the exception for an error response to a request such as ``POST /api/v1/namespaces/x/pods``."""
    message = _message(body)
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"the cluster rejects these credentials ({message}). Log in again until `kubectl get pods`"
            " works, then rerun the command"
        )
    if status == _FORBIDDEN:
        return _forbidden(request, message)
    is_inside = "/" in request.partition("/namespaces/")[2]  # a namespace, not the namespace itself
    if status == _NOT_FOUND and message.startswith("namespaces ") and is_inside:
        return ConfigError(f"{request}: {message}. Use another --namespace, or create it")
    if status == _INVALID or (status == _BAD_REQUEST and "strict decoding error" in message):
        return ConfigError(f"the cluster rejects this manifest: {message}")
    if status == _CONFLICT:
        return AlreadyExistsError(f"{request}: {message}", status)
    return ApiError(f"{request}: HTTP {status} ({message})", status)


def _forbidden(request: str, message: str) -> CloudganError:
    if "exceeded quota" in message:
        return CapacityError(
            f"{request}: {message}. Request a larger quota, or use fewer or smaller nodes"
        )
    return CredentialsError(
        f"{request}: {message}. deploy/kubernetes/role.yaml lists the required permissions; ask an"
        " administrator to grant them, or use another --namespace"
    )


def _message(body: bytes) -> str:
    try:
        found = parse_json(body, "answer", ApiError, any_text=True)
        return " ".join(found["message"].split())
    except (ApiError, KeyError, TypeError, AttributeError):
        text = " ".join(body.decode(errors="replace").split())
        return text[:200] or "no message"
