"""Login of Azure Container Registry: an Azure token exchanged for a refresh token.

https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md (read 2026-11-21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from azure.core.exceptions import ClientAuthenticationError

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CredentialsError
from cloudgan.launch.container_registry.client import address_of
from cloudgan.launch.container_registry.login import RegistryLogin
from cloudgan.launch.container_registry.transport import WebTransport
from cloudgan.storage.azure import find_login

if TYPE_CHECKING:
    from cloudgan.launch.container_registry.transport import Transport

_USER = "00000000-0000-0000-0000-000000000000"
"""User name for a refresh token as password."""
_SCOPE = "https://management.azure.com/.default"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_OK = 200


def registry_login(
    host: str, credential: Any = None, transport: Transport | None = None
) -> RegistryLogin:
    """Returns the login of a registry such as lab.azurecr.io.

    Args:
        host: Of the registry.
        credential: Of azure-identity; None: default.
        transport: HTTP transport.

    Raises:
        CredentialsError: No login, or rejected by the registry.
    """
    try:
        token = (credential or find_login()).get_token(_SCOPE).token
    except ClientAuthenticationError as error:
        first = str(error.message).splitlines()[0]
        raise CredentialsError(
            f"no Azure login for {host} ({first}); run: az login; the role AcrPull is required"
        ) from error
    form = urlencode({"grant_type": "access_token", "service": host, "access_token": token})
    url = f"{address_of(host)}/oauth2/exchange"
    try:
        answer = (transport or WebTransport()).send("POST", url, _FORM, form.encode())
        found = parse_json(answer.body, url, CredentialsError) if answer.status == _OK else {}
        refresh_token = found["refresh_token"] if answer.status == _OK else None
    except (OSError, LookupError, TypeError) as error:
        raise CredentialsError(f"registry {host} does not exchange the token ({error})") from error
    if refresh_token is None:
        raise CredentialsError(
            f"registry {host} rejects this Azure login (HTTP {answer.status}); it needs the role"
            " AcrPull on the registry"
        )
    return RegistryLogin(_USER, refresh_token)
