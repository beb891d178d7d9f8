"""The errors that cloudgan raises on purpose, with the exit code of each.

CloudganError (1)
    ConfigError (2)            invalid request; nothing was started
        UnknownNameError       unknown name; the message suggests the nearest valid one
    DataError (2)              invalid file; names the file, the record and the expected content
        DiskFullError (1)      a file cannot be written because the disk is full
    CredentialsError (2)       missing variable or login; names it and the cloud
    PlanError (5)              valid request that this cloud cannot serve
    LaunchError (1)            failed midway; the message ends with the `down` command
        CapacityError (5)      no machine of this type is available
        ResourcesLeftError (4) resources are left, or not proven gone
        OpenPortsError (2)     others could reach the ports of several workers; nothing is left
    OutputError (1)            standard output cannot be written
    BudgetError (6)
    VerdictError (7)           a requested physics gate failed
    ConfirmationError (3)      confirmation required
    Interrupted (130)          Ctrl-C; completed work is kept
    TryAgain (75)              a worker was stopped and saved its state, or lost a peer
    NoProgress (76)            repeated restarts without a newer checkpoint
"""

from __future__ import annotations

import difflib
import errno
import importlib.metadata
import json
from collections.abc import Iterable
from urllib.parse import unquote

from cloudgan.core.masking import masked

_MAX_SHOWN = 80


def shorten(text: str, length: int = _MAX_SHOWN) -> str:
    """Returns printable text of at most `length` characters, for a message."""
    short = text if len(text) <= length else f"{text[: length - 3]}..."
    return short if short.isprintable() else ascii(short)[1:-1]


def show(value: object) -> str:
    """Returns a value of the user for a message: one line of limited length."""
    return shorten(repr(value))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns such as ``1 epoch`` or ``1,200 epochs``; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_PLAIN_BELOW = 9999.5  # rounded to four digits it would be 1e+04


def number_text(value: float) -> str:
    """Returns four digits with thousands separators; integers in full."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < _PLAIN_BELOW else f"{value:,.0f}"


def install_command(extra: str, options: str = "") -> str:
    """Returns the command for a message that installs an extra, from where pip installed cloudgan.

    https://packaging.python.org/en/latest/specifications/direct-url/ (read 2026-11-29): a file or a folder has a
    direct_url.json; what came from an index has none.
    """
    try:
        text = importlib.metadata.distribution("cloudgan").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # runs from its sources
        text = '{"dir_info": {}}'
    origin = json.loads(text) if text else {}  # noqa: TID251  pip wrote it
    if "dir_info" in origin:
        return f"`pip install {options}'.[{extra}]'` in the checkout of cloudgan"
    place = unquote(str(origin.get("url", ""))).removeprefix("file://") or "cloudgan"
    return f"`pip install {options}'{place}[{extra}]'`"


class CloudganError(Exception):
    """Base of every error raised on purpose; the command line prints it without a traceback.

    Its message holds no secret, whatever it quotes: it goes to terminals, records and stores.
    """

    exit_code = 1
    is_printed = False
    """Whether the JSON output already holds this error."""

    def __init__(self, *details: object, hint: str = "") -> None:
        """Masks the message; an `OutputError` has the details of an OSError.

        Args:
            details: The message.
            hint: What to do next, added to the message; `reason` is the message without it.
        """
        shown = [masked(one) if isinstance(one, str) else one for one in details]
        self.reason = str(shown[0]) if shown else ""
        if hint:
            shown[0] = f"{self.reason}; {masked(hint)}"
        super().__init__(*shown)


class ConfigError(CloudganError):
    """The request is invalid. Nothing was started."""

    exit_code = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `` Did you mean 'x'?`` for the closest of `known` in any case, or an empty string."""
    names = {one.casefold(): one for one in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return f" Did you mean {names[near[0]]!r}?" if near else ""


_MOST_LISTED = 40


class UnknownNameError(ConfigError):
    """The user gave an unknown name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        listed = f"Known: {', '.join(known)}."
        if len(known) > _MOST_LISTED:
            near = difflib.get_close_matches(name, known, n=6, cutoff=0.2) or known[:6]
            listed = f"The nearest of {len(known)}: {', '.join(near)}."
        super().__init__(f"unknown {kind} {name!r}.{nearest(name, known)} {listed}")


class DataError(CloudganError):
    """A file has invalid content; the message names the file and the record."""

    exit_code = 2


class DiskFullError(DataError):
    """A file cannot be written, because the disk, a quota or a limit of this process is exhausted."""

    exit_code = 1


class CredentialsError(CloudganError):
    """A login or a variable is missing; the message names it and the cloud."""

    exit_code = 2


class PlanError(CloudganError):
    """The request is valid, but this cloud cannot serve it."""

    exit_code = 5


class LaunchError(CloudganError):
    """A launch failed midway. Resources may exist: the message says how to delete them."""


class CapacityError(LaunchError):
    """No machine of this type is available in this region or zone."""

    exit_code = 5


class ResourcesLeftError(LaunchError):
    """Resources exist that no run needs, or may exist where the cloud did not answer."""

    exit_code = 4


class StockOutError(CapacityError):
    """A zone has no machines of this type now; another zone of the region may have some."""


class OutputError(CloudganError, OSError):
    """Standard output cannot be written: its reader has closed it, or the disk is full."""

    is_printed = True

    @property
    def is_closed_pipe(self) -> bool:
        """Whether the reader has all that it wanted, as in ``| head``."""
        return self.errno == errno.EPIPE

    def __str__(self) -> str:
        return (
            f"standard output cannot be written: {self.strerror}; write it to a file on a disk with"
            " free space, or to /dev/null"
        )


class OpenPortsError(LaunchError):
    """Others could reach the ports of the workers, which execute what they receive. Nothing is left."""

    exit_code = 2


class BudgetError(CloudganError):
    """The run would exceed, or has exceeded, its budget."""

    exit_code = 6


class VerdictError(CloudganError):
    """A requested physics gate failed."""

    exit_code = 7


class ConfirmationError(CloudganError):
    """Confirmation is required, and standard input is not a terminal."""

    exit_code = 3


class Interrupted(CloudganError):
    """Ctrl-C. Completed work is kept; rerun the command to resume."""

    exit_code = 130


class TryAgain(CloudganError):
    """The process can be restarted: it was stopped by a signal, or lost a peer."""

    exit_code = 75


class Terminated(KeyboardInterrupt):
    """SIGTERM while a command runs, raised in the main thread; handled wherever Ctrl-C is."""

    exit_code = TryAgain.exit_code


MOST_RESTARTS = 3
"""Of a run, without a newer checkpoint."""


class NoProgress(CloudganError):
    """Several restarts produced no newer checkpoint."""

    exit_code = 76
