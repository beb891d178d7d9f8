"""Finds logins, keys, tokens and signatures in a text, and masks them.

The shapes of tokens are those that their issuers document for secret scanning
(https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns,
read 2026-11-25); a login is the userinfo of a URL (RFC 3986, section 3.2.1).
"""

from __future__ import annotations

import re
from urllib.parse import quote

_SHORTEST = 4
_HIDDEN: set[str] = set()
_MASK = "***"
_NAMES = (
    "token|password|passwd|pwd|(?<!pull-)secret|credentials?|signature|sig|authorization"
    "|(?:account|access|api|secret|private|storage|sharedaccess)[-_]?(?:access[-_]?)?key|sharedaccesssignature"
)
_KINDS = {
    "a private key": r"-----BEGIN\s[A-Z ]*PRIVATE\sKEY-----(?:.*?-----END\s[A-Z ]*PRIVATE\sKEY-----|.*)",
    # A password may hold an unquoted / or @; what follows a host is a port, which is a number.
    "a login": r'(?<=://)(?:[^/?#\s"]+|[^/?#\s":\[]*:(?!\d+(?:[/?#,]|$))[^\s"]*)(?=@)'
    # user:password@host without a scheme, but no digest of a container image
    r"|(?<![^\s='\"(])[^\s/:@='\"()]+:[^\s/@\"]+(?=@(?!sha\d+:)[\w\[])",
    # A value that begins like $NAME or <key> stands for one; --secret=KEY names a variable.
    "a key, token or signature": rf"""(?i:
        (?<![^\s?&;,'"(]) (?P<name>(?:[-\w]*[-_])? (?:{_NAMES}) =) (?![<$`{{*.])
            (?!(?<=--secret=)(?-i:[A-Z_][A-Z0-9_]*)(?![^\s:;,.)'"])) [^\s&;,'"]+
        | (?<=[?&]) (?:key|code|auth|sas) = [^\s&;,'"]+
        | \bauthorization:\s*(?:\w+\s+)?+(?![<$`{{*])[^\s'"\\]+
        | \bbearer\s+(?=\S*\d)[-\w.~+/=]{{12,}} )""",
    "a token": r"""(?<![A-Za-z0-9])(?:
        (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[-\w]{35} | ya29\.[-\w.]{20,}
        | gh[opsru]_\w{36,} | github_pat_\w{22,} | glpat-[-\w]{20,} | hf_[A-Za-z0-9]{30,}
        | xox[abeprs]-[-\w]{10,} | npm_\w{36} | pypi-AgE[-\w]{16,} | dckr_pat_[-\w]{20,}
        | sk-[-\w]{32,} | eyJ[-\w]{8,}\.[-\w]{8,}(?:\.[-\w]*)? )""",
}
_PATTERNS = {kind: re.compile(text, re.DOTALL | re.VERBOSE) for kind, text in _KINDS.items()}


def secret_in(text: str) -> str | None:
    """Returns the kind of secret that a text contains, such as ``a login``; None: it contains none."""
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(text)), None)


def masked(text: str) -> str:
    """Returns a text with ``***`` in place of each secret."""
    for value in sorted(_HIDDEN, key=len, reverse=True):
        text = text.replace(value, _MASK)
    for pattern in _PATTERNS.values():
        text = pattern.sub(lambda found: f"{found.groupdict().get('name') or ''}{_MASK}", text)
    return text


def hide(value: str) -> bool:
    """Adds a secret of any shape to those that `masked` masks: each of its lines, as it is and in URLs.

    Returns whether that is possible: a line of a few letters is a part of many words, and is left out.
    """
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST}
    _HIDDEN.update(lines, (quote(line, safe="", errors="replace") for line in lines))
    return bool(lines)
