"""Which subscription is meant, and whose login this is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import ConfigError, CredentialsError, UnknownNameError
from cloudgan.core.settings import variable
from cloudgan.providers.azure import ids

if TYPE_CHECKING:
    from cloudgan.providers.azure.api import ArmApi

VARIABLE: Final = "AZURE_SUBSCRIPTION_ID"
_VERSION = "2022-12-01"


def find_subscription(api: ArmApi, asked: str | None) -> dict[str, Any]:
    """Returns a subscription: as asked by id or name, else the variable's, else the only one.

    Raises:
        ConfigError: There are several.
        CredentialsError: There is none.
        UnknownNameError: There is none of this name.
    """
    wanted = None if asked in (None, ids.SUBSCRIPTION) else asked
    wanted = wanted or variable(VARIABLE)
    found = list(api.list(f"/subscriptions?api-version={_VERSION}"))
    by_name = {str(one["subscriptionId"]): one for one in found}
    by_name |= {str(one["displayName"]): one for one in found}
    if wanted:
        if wanted not in by_name:
            raise UnknownNameError("subscription of Azure", wanted, by_name)
        return by_name[wanted]
    if not found:
        raise CredentialsError(
            "this login of Azure has no subscription; ask whoever pays for one of the role of"
            " deploy/azure/role.json in it"
        )
    if len(found) > 1:
        names = ", ".join(
            sorted(f"{one['displayName']} ({one['subscriptionId']})" for one in found)
        )
        raise ConfigError(
            f"this login has several subscriptions: {names}. Give --subscription, or set {VARIABLE}"
        )
    return found[0]


def who(claims: Any) -> str:
    """Returns whose login it is, as its token tells."""
    return str(
        claims.get("upn")
        or claims.get("unique_name")
        or claims.get("preferred_username")
        or claims.get("appid")
        or claims.get("oid")
        or "unknown"
    )
