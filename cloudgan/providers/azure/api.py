"""The Azure Resource Manager: plain JSON by Azure's own pipeline, with bounded patience."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.core.pipeline.policies import RequestIdPolicy, RetryPolicy, UserAgentPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.mgmt.core import ARMPipelineClient
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

from cloudgan import __version__
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.providers.azure.refusal import LOGIN, MissingError, refusal, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PUBLIC: Final = "https://management.azure.com"
_SCOPE: Final = "https://management.azure.com/.default"
_OPERATION: Final = "Azure-AsyncOperation"
_FAILED: Final = 400
_LONGEST_PAUSE_SECONDS: Final = 30


class ArmApi:
    """Sends requests to the Resource Manager, again where that may help.

    Attributes:
        credential: Of azure-identity; gives tokens for other services too.
    """

    def __init__(
        self,
        credential: Any,
        *,
        base_url: str = PUBLIC,
        transport: Any = None,
        attempts: int = 7,
        pause_seconds: float = 0.8,
    ) -> None:
        """Takes a login.

        Args:
            credential: Of azure-identity.
            base_url: Of the Resource Manager.
            transport: Of azure-core; None: by requests, as the environment's proxies say.
            attempts: How often a request is sent at most, for about two minutes.
            pause_seconds: Before the second try; twice as long before each further one.
        """
        self.credential = credential
        self._operations: dict[str, str] = {}
        retry = RetryPolicy(
            retry_total=attempts - 1,
            retry_status=attempts - 1,
            retry_backoff_factor=pause_seconds,
            retry_backoff_max=_LONGEST_PAUSE_SECONDS,
        )
        self._client: Any = ARMPipelineClient(
            base_url,
            policies=[
                RequestIdPolicy(),
                UserAgentPolicy(f"cloudgan/{__version__}"),
                retry,
                ARMChallengeAuthenticationPolicy(credential, _SCOPE),
            ],
            transport=transport or RequestsTransport(connection_timeout=5, read_timeout=60),
        )

    def get(self, path: str) -> dict[str, Any] | None:
        """Returns what is at an address; None where there is nothing."""
        try:
            return self.send("GET", path)
        except MissingError:
            return None

    def list(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yields the items of a list, page by page; none where there is no such list."""
        asked = f"{path}&{urlencode(query, quote_via=quote)}" if query else path
        while asked:
            found = self.get(asked) or {}
            yield from found.get("value") or ()
            after = urlsplit(found.get("nextLink") or "")
            asked = f"{after.path}?{after.query}" if after.path else ""

    def send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request; returns its answer, empty where there is no text in it.

        Raises:
            CapacityError: There is no machine, or no quota.
            CredentialsError: The login is missing, or may not.
            LaunchError: Refused otherwise, or nobody answered.
        """
        asked = f"{method} {path.partition('?')[0]}"
        request = HttpRequest(method, self._client.format_url(path), json=body)
        try:
            # A POST here asks for logins only, so it may be sent twice as well.
            answer = self._client.send_request(
                request, retry_on_methods=("DELETE", "GET", "POST", "PUT")
            )
        except ClientAuthenticationError as error:
            raise _no_login(error) from error
        except AzureError as error:
            first = str(error).partition("\n")[0]
            raise LaunchError(f"{asked}: Azure did not answer ({first})") from error
        found = _json(answer)
        if answer.status_code >= _FAILED:
            raise refusal(answer.status_code, found, asked)
        if method == "PUT":
            self._operations[path] = answer.headers.get(_OPERATION, "")
        return found if isinstance(found, dict) else {}

    def why_failed(self, path: str) -> str:
        """Returns what the operation says that our PUT to an address began; empty: nothing bad."""
        operation = urlsplit(self._operations.get(path) or "")
        if not operation.path:
            return ""
        told = self.get(f"{operation.path}?{operation.query}") or {}
        return said(told.get("error")) if told.get("status") in ("Failed", "Canceled") else ""

    def claims(self) -> Mapping[str, Any]:
        """Returns what the login's token says of whoever is logged in.

        Raises:
            CredentialsError: There is no login.
        """
        _, payload, *_ = self.token(_SCOPE).split(".")
        padded = payload + "=" * (-len(payload) % 4)
        found: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
        return found

    def token(self, scope: str) -> str:
        """Returns a token for a service, a new one where the last expires.

        Raises:
            CredentialsError: There is no login.
        """
        try:
            token: str = self.credential.get_token(scope).token
        except ClientAuthenticationError as error:
            raise _no_login(error) from error
        return token


def _json(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _no_login(error: Exception) -> CredentialsError:
    lines = str(error).splitlines()
    tried = [line.strip() for line in lines if "unavailable" not in line][1:]
    wrong = next((line for line in tried if "AADSTS" in line), None)
    told = f" ({wrong.partition(' Trace ID')[0]})" if wrong else ""
    return CredentialsError(f"no login for Azure was found{told}; {LOGIN}")
