"""Azure Resource Manager: JSON requests; `pipeline` sends them.

Planners import this module without Azure's SDK.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from cloudgan.core.clock import utc_moment
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.azure.errors import SCOPE, AssignedError, error_text, map_error
from cloudgan.launch.clouds.rows import AbsentError, Kind
from cloudgan.schema.plan import Step

_OPERATION: Final = "Azure-AsyncOperation"
_ENDED: Final = ("Failed", "Canceled")
_FAILED: Final = 400
_RENEWED_SECONDS: Final = 300.0
"""A token is renewed so long before its end, as by the policies of azure-core."""


class ArmApi:
    """The Resource Manager of one login; implements `Transport`.

    Args:
        credential: Of azure-identity; also provides tokens for other services.
        how: Arguments of `open_pipeline`.

    Attributes:
        operations: URLs of the operations that the latest PUT requests started, by the resources' names.
    """

    def __init__(self, credential: Any, **how: Any) -> None:
        from cloudgan.launch.clouds.azure.pipeline import open_pipeline

        self.operations: dict[str, str] = {}
        self._credential, self._tokens = credential, dict[str, Any]()
        self._pipeline = open_pipeline(credential, **how)

    def send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request; returns its JSON response, empty without a body."""
        from cloudgan.launch.clouds.azure.pipeline import answer_of, mapped_errors

        name = path.partition("?")[0]
        operation = f"{method} {name}"
        with mapped_errors(operation):
            answer = answer_of(self._pipeline, method, path, body)
        found = _json(answer, operation)
        if answer.status_code >= _FAILED:
            raise map_error(answer.status_code, found, operation)
        if method == "PUT":
            self.operations[name] = answer.headers.get(_OPERATION, "")
        return found if isinstance(found, dict) else {}

    def token(self, scope: str) -> str:
        """Returns an access token for a scope.

        A login by az keeps no token: each time it starts that program
        (`AzureCliCredential.get_token` of azure-identity 1.27, read 2026-11-30).

        Raises:
            CredentialsError: The login is refused.
            LaunchError: Azure does not answer.
        """
        from cloudgan.launch.clouds.azure.pipeline import mapped_errors

        known = self._tokens.get(scope)
        if known is None or known.expires_on - utc_moment().timestamp() < _RENEWED_SECONDS:
            with mapped_errors("access token"):
                known = self._tokens[scope] = self._credential.get_token(scope)
        return str(known.token)

    def get(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Returns the description of a resource; None if it does not exist."""
        return self.read(f"{name}?api-version={kind.request}")

    def create(self, kind: Kind, step: Step, body: Any) -> None:
        """Sends a step's request; a role that the principal has is no error."""
        self.put(kind, kind.name_of(step.ref), body)

    def put(self, kind: Kind, name: str, body: Any) -> None:
        """Creates or replaces a resource, and remembers the operation that this starts."""
        with suppress(AssignedError):
            self.send("PUT", f"{name}?api-version={kind.request}", body)

    def delete(self, kind: Kind, name: str) -> None:
        """Requests deletion; a missing resource is no error."""
        with suppress(AbsentError):
            self.send("DELETE", f"{name}?api-version={kind.request}")

    def read(self, path: str) -> dict[str, Any] | None:
        """Returns what is at a path; None if it does not exist."""
        try:
            return self.send("GET", path)
        except AbsentError:
            return None

    def list(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yields the items of a list, page by page; nothing if the list does not exist."""
        found = self.read(f"{path}&{urlencode(query, quote_via=quote)}" if query else path) or {}
        yield from found.get("value") or ()
        while (after := urlsplit(found.get("nextLink") or "")).path:
            found = self.send("GET", f"{after.path}?{after.query}")  # a page that exists
            yield from found.get("value") or ()

    def why_failed(self, name: str) -> str:
        """Returns the error of the operation that a PUT of a resource started; empty: no error."""
        operation = urlsplit(self.operations.get(name) or "")
        if not operation.path:
            return ""
        found = self.read(f"{operation.path}?{operation.query}") or {}
        return error_text(found.get("error")) if found.get("status") in _ENDED else ""

    def claims(self) -> Mapping[str, Any]:
        """Returns the claims of the login's token."""
        _, payload, *_ = self.token(SCOPE).split(".")
        padded = payload + "=" * (-len(payload) % 4)
        content = base64.urlsafe_b64decode(padded)
        found: Mapping[str, Any] = parse_json(content, "token of this login", CredentialsError)
        return found


def _json(answer: Any, operation: str) -> Any:
    """Returns the answer; None: empty, or an error in another format, such as that of a proxy."""
    try:
        text = answer.text()
        return parse_json(text, operation, LaunchError, any_text=True) if text else None
    except LaunchError:
        if answer.status_code < _FAILED:
            raise
        return None
