"""Azure Resource Manager API: JSON requests with Azure's retry pipeline, and the subscription."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.core.pipeline.policies import RequestIdPolicy, RetryPolicy, UserAgentPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.mgmt.core import ARMPipelineClient
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

from cloudgan import __version__
from cloudgan.core.clock import utc_moment
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError, UnknownNameError
from cloudgan.core.settings import variable
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure.api import SCOPE, ArmApi
from cloudgan.launch.clouds.azure.errors import LOGIN, map_error
from cloudgan.storage.azure import find_login

PUBLIC: Final = "https://management.azure.com"
_OPERATION: Final = "Azure-AsyncOperation"
_FAILED: Final = 400
_LONGEST_PAUSE_SECONDS: Final = 30
_RENEWED_SECONDS: Final = 300.0
"""A token is renewed so long before its end, as by the policies of azure-core."""


class PipelineApi(ArmApi):
    """Sends requests through Azure's pipeline, with retries."""

    def __init__(
        self,
        credential: Any,
        *,
        base_url: str = PUBLIC,
        transport: Any = None,
        attempts: int = 7,
        pause_seconds: float = 0.8,
    ) -> None:
        """Creates a client.

        Args:
            credential: Of azure-identity; also provides tokens for other services.
            base_url: Of the Resource Manager.
            transport: Of azure-core; None: requests, with the environment's proxies.
            attempts: Maximum number of attempts, about two minutes.
            pause_seconds: Backoff before the second attempt; doubled for each further one.
        """
        super().__init__()
        self._credential, self._tokens = credential, dict[str, Any]()
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
                ARMChallengeAuthenticationPolicy(credential, SCOPE),
            ],
            transport=transport or RequestsTransport(connection_timeout=5, read_timeout=60),
        )

    @classmethod
    def open(cls) -> PipelineApi:
        """Opens the Resource Manager, or what replaces it, with the login that azure-identity finds."""
        return cls(find_login(), base_url=variable("CLOUDGAN_AZURE_ENDPOINT") or PUBLIC)

    def send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request; returns its JSON response, empty without a body."""
        operation = f"{method} {path.partition('?')[0]}"
        request = HttpRequest(method, self._client.format_url(path), json=body)
        with _mapped_errors(operation):
            # POST requests here only fetch credentials, so a retry is safe.
            answer = self._client.send_request(
                request, retry_on_methods=("DELETE", "GET", "POST", "PUT")
            )
        found = _json(answer, operation)
        if answer.status_code >= _FAILED:
            raise map_error(answer.status_code, found, operation)
        if method == "PUT":
            self.operations[path.partition("?")[0]] = answer.headers.get(_OPERATION, "")
        return found if isinstance(found, dict) else {}

    def token(self, scope: str) -> str:
        """Returns an access token for a scope.

        A login by az keeps no token: each time it starts that program
        (`AzureCliCredential.get_token` of azure-identity 1.27, read 2026-11-30).
        """
        known = self._tokens.get(scope)
        if known is None or known.expires_on - utc_moment().timestamp() < _RENEWED_SECONDS:
            with _mapped_errors("access token"):
                known = self._tokens[scope] = self._credential.get_token(scope)
        return str(known.token)


@contextmanager
def _mapped_errors(request: str) -> Iterator[None]:
    try:
        yield
    except ClientAuthenticationError as error:
        raise _no_login(error) from error
    except AzureError as error:
        first = str(error).partition("\n")[0]
        raise LaunchError(f"{request}: Azure did not answer ({first})") from error


def _json(answer: Any, operation: str) -> Any:
    """Returns the answer; None: empty, or an error in another format, such as that of a proxy."""
    try:
        text = answer.text()
        return parse_json(text, operation, LaunchError, any_text=True) if text else None
    except LaunchError:
        if answer.status_code < _FAILED:
            raise
        return None


def _no_login(error: Exception) -> CredentialsError:
    lines = str(error).splitlines()
    tried = [line.strip() for line in lines if "unavailable" not in line][1:]
    wrong = next((line for line in tried if "AADSTS" in line), None)
    reason = f" ({wrong.partition(' Trace ID')[0]})" if wrong else ""
    return CredentialsError(f"no Azure login found{reason}; {LOGIN}")


VARIABLE: Final = "AZURE_SUBSCRIPTION_ID"
_VERSION = "2022-12-01"


def find_subscription(api: ArmApi, request: str | None) -> dict[str, Any]:
    """Returns the subscription: `request`, else that of the environment, else the only one."""
    found = {
        str(one["subscriptionId"]): one
        for one in api.list(f"/subscriptions?api-version={_VERSION}")
    }
    if not found:
        raise CredentialsError(
            "this Azure login has no subscription; ask an owner for the role of"
            " deploy/azure/reader-role.json"
        )
    wanted = (None if request == ids.SUBSCRIPTION else request) or variable(VARIABLE)
    if wanted:
        if wanted not in found:
            raise UnknownNameError("subscription of Azure", wanted, found)
        return found[wanted]
    if len(found) > 1:
        names = ", ".join(f"{one['displayName']} ({name})" for name, one in sorted(found.items()))
        raise ConfigError(
            f"this login has several subscriptions: {names}. Give --subscription, or set {VARIABLE}"
        )
    return next(iter(found.values()))


def login_name(claims: Any) -> str:
    """Returns the name of the logged-in user from the token claims."""
    return str(
        claims.get("upn")
        or claims.get("unique_name")
        or claims.get("preferred_username")
        or claims.get("appid")
        or claims.get("oid")
        or "unknown"
    )
