"""Text from other machines, made safe for a terminal."""

from __future__ import annotations

REPLACED = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Returns a text with its control characters replaced, except line ends.

    Terminals obey control sequences, such as one that writes to the clipboard; a heartbeat or the
    message of a cluster may hold any.
    """
    return "".join(c if c.isprintable() or c == "\n" else REPLACED for c in text)
