"""Asks before something is spent or removed."""

from __future__ import annotations

import sys

from cloudgan.core.errors import ConfirmationError


def confirm(question: str, *, yes: bool) -> None:
    """Returns when somebody said yes, here or by `--yes`.

    Raises:
        ConfirmationError: Nobody could be asked, or the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfirmationError(
            f"{question} Nobody is here to answer: add --yes to go on. Nothing was started"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationError("nothing was started")
