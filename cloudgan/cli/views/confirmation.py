"""Asks for confirmation before resources are created or deleted."""

from __future__ import annotations

import sys

from cloudgan.core.errors import ConfirmationError


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user answers yes on the terminal, or gave --yes.

    Raises:
        ConfirmationError: The answer is no, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationError(
            f"{question} Confirmation required, and standard input is not a terminal: add --yes."
            " Nothing was started"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationError("not confirmed; nothing was started")
