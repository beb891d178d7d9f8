"""The errors cloudgan raises on purpose, with the exit code each one ends the program with.

CloudganError (1)
    ConfigError (2)            the request is wrong; nothing was started
        UnknownNameError       a name is not one we know; carries the nearest match
    DataError (2)              a file does not parse; names file, record and what was expected
    CredentialsError (2)       which variable or login is missing, for which cloud
    PlanError (5)              a right request that this cloud cannot serve
    LaunchError (1)            a cloud refused midway; the message ends with the `down` command
        CapacityError (5)      no machine of this kind is to be had there
    BudgetError (6)
    VerdictError (7)           a physics gate that was asked for failed
    LeftBehindError (4)        something bills that no run needs
    ConfirmationError (3)      nobody was there to say yes
    Interrupted (130)          Ctrl-C; what was done so far is kept
    TryAgain (75)              a worker was told to stop and saved its state, or lost another one
    NoProgress (76)            restarted again and again without a newer checkpoint
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class CloudganError(Exception):
    """Base of every error raised on purpose; the command line prints it without a traceback."""

    exit_code = 1
    is_told = False
    """Whether the JSON that was asked for tells it already."""


class ConfigError(CloudganError):
    """The request is wrong. Nothing was started."""

    exit_code = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `` Did you mean 'x'?`` for the closest of `known`, or an empty string."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


_MOST_LISTED = 40


class UnknownNameError(ConfigError):
    """A name the user gave is not one we know."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        listed = f"Known: {', '.join(known)}."
        if len(known) > _MOST_LISTED:
            near = difflib.get_close_matches(name, known, n=6, cutoff=0.2) or known[:6]
            listed = f"The nearest of {len(known)}: {', '.join(near)}."
        super().__init__(f"unknown {kind} {name!r}.{nearest(name, known)} {listed}")


class DataError(CloudganError):
    """A file does not hold what it should; the message names file and record."""

    exit_code = 2


class CredentialsError(CloudganError):
    """A login or a variable is missing; the message says which, for which cloud."""

    exit_code = 2


class PlanError(CloudganError):
    """The request is right, but this cloud cannot serve it."""

    exit_code = 5


class LaunchError(CloudganError):
    """A cloud refused midway. Something may be running: the message says how to remove it."""


class CapacityError(LaunchError):
    """No machine of this kind is free in this place."""

    exit_code = 5


class BudgetError(CloudganError):
    """The run would cost, or has cost, more than was allowed."""

    exit_code = 6


class VerdictError(CloudganError):
    """A physics gate that was asked for failed."""

    exit_code = 7


class LeftBehindError(CloudganError):
    """Something bills, or lies about, that no run needs."""

    exit_code = 4


class ConfirmationError(CloudganError):
    """Somebody has to say yes and nobody was there."""

    exit_code = 3


class Interrupted(CloudganError):
    """Ctrl-C. What was done so far is kept and the same command continues."""

    exit_code = 130


class TryAgain(CloudganError):
    """The process can be started again: it was told to stop, or lost what it cannot do without."""

    exit_code = 75


class NoProgress(CloudganError):
    """Starting again did not help: there is no newer checkpoint since several starts."""

    exit_code = 76
