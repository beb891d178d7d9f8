"""The login of Azure Container Registry: a token of Azure's, exchanged at the registry itself.

https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md (read 2026-11-21).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from azure.core.exceptions import ClientAuthenticationError
from azure.identity import DefaultAzureCredential

from cloudgan.core.errors import CredentialsError
from cloudgan.registries.client import address_of
from cloudgan.registries.login import Login
from cloudgan.registries.transport import WebTransport

if TYPE_CHECKING:
    from cloudgan.registries.transport import Transport

_USER = "00000000-0000-0000-0000-000000000000"
"""Says that the password is a refresh token."""
_SCOPE = "https://management.azure.com/.default"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_OK = 200


def login(host: str, credential: Any = None, transport: Transport | None = None) -> Login:
    """Returns the login of a registry such as lab.azurecr.io.

    Args:
        host: Of the registry.
        credential: Of azure-identity; None: that of this machine.
        transport: Sends the exchange.

    Raises:
        CredentialsError: There is none, or the registry refuses it.
    """
    try:
        token = (credential or DefaultAzureCredential()).get_token(_SCOPE).token
    except ClientAuthenticationError as error:
        first = str(error.message).splitlines()[0]
        raise CredentialsError(
            f"no login of Azure for {host} ({first}); type: az login; it needs the role AcrPull"
        ) from error
    form = urlencode({"grant_type": "access_token", "service": host, "access_token": token})
    url = f"{address_of(host)}/oauth2/exchange"
    try:
        answer = (transport or WebTransport()).send("POST", url, _FORM, form.encode())
        told = json.loads(answer.body)["refresh_token"] if answer.status == _OK else None
    except (OSError, ValueError, LookupError) as error:
        raise CredentialsError(f"registry {host} exchanges no token ({error})") from error
    if told is None:
        raise CredentialsError(
            f"registry {host} refuses this login of Azure (HTTP {answer.status}); it needs the role"
            " AcrPull on the registry"
        )
    return Login(_USER, told)
