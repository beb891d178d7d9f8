"""How a registry says what it wants to be shown: the header WWW-Authenticate of a 401."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from email.message import Message

_SCHEME = re.compile(r"(?:^|,)\s*(?P<scheme>Bearer|Basic)(?=\s|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))', re.IGNORECASE)


class Challenge(NamedTuple):
    """One way in.

    Attributes:
        scheme: bearer (a token, fetched from `realm`) or basic (the login itself).
        realm: Who gives tokens, a URL.
        service: That the token is for.
        scope: What it allows.
    """

    scheme: str
    realm: str
    service: str
    scope: str


def parse(headers: Message) -> Challenge | None:
    """Returns the way in that is taken: by token where there is one; None where nothing is known."""
    text = ", ".join(headers.get_all("WWW-Authenticate") or ())
    starts = list(_SCHEME.finditer(text))
    found = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        told = text[start.end() : end.start() if end else len(text)]
        values = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(told)}
        found.append(
            Challenge(
                start["scheme"].lower(),
                values.get("realm", ""),
                values.get("service", ""),
                values.get("scope", ""),
            )
        )
    return next((one for one in found if one.scheme == "bearer"), found[0] if found else None)
