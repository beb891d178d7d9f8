"""What a login may do, compared with deploy/azure/role.json."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from cloudgan import assets
from cloudgan.core.thing import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.providers.azure.api import ArmApi

ROLE: Final = "deploy/azure/role.json"
PROVIDERS: Final = (
    "Microsoft.Compute",
    "Microsoft.ContainerService",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.Storage",
)
_PERMISSIONS, _PROVIDERS = "2022-04-01", "2021-04-01"


def rights(api: ArmApi, subscription: str) -> Iterator[Finding]:
    """Yields whether the login has all rights of the role, each missing one named."""
    root = f"/subscriptions/{subscription}/providers/Microsoft.Authorization"
    granted = list(api.list(f"{root}/permissions?api-version={_PERMISSIONS}"))
    missing = [action for action in actions() if not is_allowed(action, granted)]
    for action in missing:
        yield Finding(
            f"right {action}",
            "missing",
            f"an administrator of the subscription grants it with {ROLE} (docs/azure.md)",
        )
    if not missing:
        yield Finding("rights", "ok", f"all of {ROLE}")


def services(api: ArmApi, subscription: str) -> Iterator[Finding]:
    """Yields whether the services are on that a run needs."""
    found = {
        str(one["namespace"]).lower(): one.get("registrationState")
        for one in api.list(f"/subscriptions/{subscription}/providers?api-version={_PROVIDERS}")
    }
    off = [name for name in PROVIDERS if found.get(name.lower()) != "Registered"]
    for name in off:
        yield Finding(
            f"service {name}",
            "missing",
            f"it is off in this subscription; type: az provider register --namespace {name}",
        )
    if not off:
        yield Finding("services", "ok", ", ".join(PROVIDERS))


def actions() -> tuple[str, ...]:
    """Returns the rights that a launcher needs."""
    role = json.loads(assets.read_text(ROLE))
    return tuple(role["Actions"])


def is_allowed(action: str, granted: Sequence[dict[str, Any]]) -> bool:
    """Whether one of the permissions has an action and does not take it back."""
    return any(
        _any_is(action, one.get("actions")) and not _any_is(action, one.get("notActions"))
        for one in granted
    )


def _any_is(action: str, patterns: Sequence[str] | None) -> bool:
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), action, re.IGNORECASE)
        for pattern in patterns or ()
    )
