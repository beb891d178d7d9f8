"""Transport of Google Cloud: plain requests with bounded retries.

A request is exactly what a plan's step holds. Planners import this module without Google's SDK.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.errors import (
    Answer,
    TakenError,
    error_of,
    host_of,
    parse_answer,
)
from cloudgan.launch.clouds.rows import AbsentError, Kind
from cloudgan.schema.plan import Step

_OK: Final = 300
_TIMEOUT_SECONDS: Final = (5, 60)
_LONGEST_PAUSE_SECONDS: Final = 16.0
_ENABLED_SECONDS: Final = 300.0
"""How long an enabled API may still answer SERVICE_DISABLED: "If you enabled this API recently, wait a
few minutes" (https://github.com/hashicorp/terraform-provider-google/issues/8214, read 2026-11-22)."""


class GoogleApi:
    """The API of a project, which retries transient failures with exponential backoff; implements `Transport`.

    Args:
        session: Of google-auth, which adds and renews the login.
        endpoint: Receives all requests instead of Google, under ``<endpoint>/<host>/<path>``.
        patience_seconds: Limit for retries of outages and throttling.
        pause_seconds: Delay before the second attempt; doubles each time.
    """

    def __init__(
        self,
        session: Any,
        project: str,
        *,
        endpoint: str | None = None,
        patience_seconds: float = 90.0,
        pause_seconds: float = 0.5,
    ) -> None:
        self.project, self._session, self._endpoint = project, session, endpoint
        self.operations: dict[str, str] = {}
        """URLs of the operations that create resources, by the resources' names."""
        self._patience, self._pause = patience_seconds, pause_seconds
        self._enabled_until: dict[str, float] = {}

    @cached_property
    def project_number(self) -> str:
        """Number of the project, which identifies the owner of a bucket."""
        found = self.send("GET", f"{names.PROJECTS}/projects/{self.project}")
        return str(found["name"]).rpartition("/")[2]

    def get(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Returns the description of a resource; None if it is absent."""
        return self.find(self._url(kind, name))

    def create(self, kind: Kind, step: Step, body: Any) -> None:
        """Sends a step's request; a resource that exists is no error."""
        with suppress(TakenError):
            answer = self.send(step.method, step.path, body, what=step.ensure)
            if "operationType" in answer:  # of Kubernetes Engine
                location = step.path.partition("/clusters")[0]
                name = kind.name_of(step.ref)
                self.operations[name] = f"{location}/operations/{answer['name']}"

    def delete(self, kind: Kind, name: str) -> None:
        """Requests deletion; an absent resource is no error."""
        query = kind.request.deletion
        with suppress(AbsentError):
            self.send("DELETE", self._url(kind, name), query=query, what=f"{kind.name} {name}")

    def expect_enabled(self, hosts: Iterable[str]) -> None:
        """Retries SERVICE_DISABLED for 5 minutes: these APIs are enabled, but not yet everywhere."""
        until = monotonic_seconds() + _ENABLED_SECONDS
        self._enabled_until = dict.fromkeys(hosts, until) | self._enabled_until

    def find(self, url: str) -> dict[str, Any] | None:
        """Returns the resource at a URL; None if absent."""
        try:
            return self.send("GET", url)
        except AbsentError:
            return None

    def pages(self, url: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yields the pages of a list."""
        token = ""
        while True:
            page = self.send("GET", url, query=query | ({"pageToken": token} if token else {}))
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return

    def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        query: Mapping[str, str | list[str]] | None = None,
        what: str = "",
    ) -> dict[str, Any]:
        """Sends one request until it succeeds, fails permanently, or time runs out.

        Raises:
            AbsentError: The resource does not exist.
            BusyError: Another operation has to end first.
            CapacityError: No machine of this type, or no quota.
            CredentialsError: The login is invalid or lacks a permission.
            LaunchError: Another refusal, or no response.
            TakenError: The name is in use.
        """
        deadline, pause = monotonic_seconds() + self._patience, self._pause
        while True:
            answer = self._ask(method, url, body, query)
            if 0 < answer.status < _OK:
                if not isinstance(answer.body, dict):
                    raise LaunchError(
                        f"{what or f'{method} {url}'}: the answer is not a JSON object within the"
                        f" limits ({answer.message}); a proxy may have sent it"
                    )
                return answer.body
            now, case = monotonic_seconds(), answer.case
            is_settling = case == "disabled" and now < self._enabled_until.get(host_of(url), 0)
            is_transient = case == "transient" and now < deadline
            if not is_settling and not is_transient:
                raise error_of(what or f"{method} {url}", url, answer)
            time.sleep(min(max(answer.wait_seconds, pause), _LONGEST_PAUSE_SECONDS))
            pause *= 2

    def _ask(self, method: str, url: str, body: Any, query: Mapping[str, Any] | None) -> Answer:
        """Sends a request once; an answer of status 0 says why there is none."""
        from cloudgan.launch.clouds.gcp.login import LOGIN_ERRORS, described, login_error

        there = f"{(self._endpoint or '').rstrip('/')}/{url.partition('://')[2]}"
        try:
            answer = self._session.request(
                method,
                there if self._endpoint else url,
                params=dict(query or {}),
                json=body,
                timeout=_TIMEOUT_SECONDS,
            )
        except LOGIN_ERRORS as error:
            found = login_error(error)
            if isinstance(found, CredentialsError):
                raise found from error
            return Answer(0, described(error))
        return parse_answer(answer.status_code, answer.content, answer.headers.get("Retry-After"))

    def _url(self, kind: Kind, name: str) -> str:
        return f"{kind.request.base.format(project=self.project)}/{name}"
