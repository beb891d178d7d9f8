"""The permission that a Resource Manager request needs."""

from __future__ import annotations

from emulators.azure.arm import kind_of

_VERBS = {"GET": "read", "PUT": "write", "DELETE": "delete", "POST": "action"}
_LISTS = {
    "/providers": "providers",
    "/resources": "resources",
    "/resourcegroups": "resourcegroups",
}


def action_of(method: str, path: str) -> str:
    """Returns the right, in lower case; empty: none is needed."""
    low = path.lower()
    if low == "/subscriptions":
        return ""  # needs any permission
    for end, kind in _LISTS.items():
        if low.count("/") == 3 and low.endswith(end):
            return f"microsoft.resources/subscriptions/{kind}/read"
    kind = kind_of(path)
    if kind == "resourcegroups":
        kind = "microsoft.resources/subscriptions/resourcegroups"
    return f"{kind}/{_VERBS[method]}"
