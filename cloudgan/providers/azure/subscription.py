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
    """Returns a subscription: the one that was asked, else the variable's, else the only one.

    Args:
        api: With a login.
        asked: Its id.

    Raises:
        ConfigError: There are several.
        CredentialsError: There is none.
        UnknownNameError: This login does not see it.
    """
    found = {
        str(one["subscriptionId"]): one
        for one in api.list(f"/subscriptions?api-version={_VERSION}")
    }
    if not found:
        raise CredentialsError(
            "this login of Azure has no subscription; ask whoever pays for one for the role of"
            " deploy/azure/role.json in it"
        )
    wanted = (None if asked == ids.SUBSCRIPTION else asked) or variable(VARIABLE)
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
