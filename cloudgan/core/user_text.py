"""Texts that a user gives on the command line, in a file, in a variable or to the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cloudgan.core.errors import ConfigError
from cloudgan.core.masking import secret_in


def check_text(name: str, text: str) -> None:
    """Refuses a text of a flag, key or file that may not be stored or shown; the message does not repeat it.

    Raises:
        ConfigError: It contains a secret, a NUL character, or bytes that are not UTF-8, which Python
            holds as surrogates (PEP 383).
    """
    if kind := secret_in(text):
        raise ConfigError(
            f"{name} contains credentials ({kind}), which files and messages would show; leave them out. They are"
            " read from the environment, such as AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_SAS_TOKEN, and from"
            " the login files of the clouds' own programs; a run gets one by --secret=KEY"
        )
    if "\0" in text:
        raise ConfigError(f"{name} has a NUL character, which no name and no path can have")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ConfigError(
            f"{name} has bytes that are not UTF-8 ({text.encode(errors='replace').decode()!r}); rename the"
            " file"
        )


def check_texts(source: str, values: object, key: str = "") -> None:
    """Checks all texts of nested mappings and lists; see `check_text`."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            check_texts(source, value, f"{key}.{name}".removeprefix("."))
    elif isinstance(values, list | tuple):
        for value in values:
            check_texts(source, value, key)
    elif isinstance(values, str | Path):
        check_text(f"{source}: {key}", str(values))


REPLACED = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Returns a text with its control characters replaced, except line ends.

    Terminals obey control sequences, such as one that writes to the clipboard; a heartbeat or the
    message of a cluster may hold any.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else REPLACED for c in text)
