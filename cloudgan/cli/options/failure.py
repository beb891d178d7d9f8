"""Turns an error into a message and an exit code."""

from __future__ import annotations

import errno
import json
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import CloudganError

# The extra that installs a package.
_EXTRAS = {
    "tensorflow": "train",
    "keras": "train",
    "numpy": "physics",
    "scipy": "physics",
    "geant4_pybind": "geant4",
    "h5py": "physics",
    "sklearn": "physics",
    "matplotlib": "physics",
    "kubernetes": "kubernetes",
    **{package: cloud.extra for cloud in CLOUDS.values() for package in cloud.packages},
}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Failure:
    """Message and exit code of a command that failed."""

    message: str
    exit_code: int
    is_printed: bool = False

    def report(self, *, as_json: bool) -> None:
        """Prints the message on standard error, and with --json an object on standard output."""
        print(f"cloudgan: {self.message}", file=sys.stderr)
        if as_json and not self.is_printed:
            print(json.dumps({"error": self.message, "exit_code": self.exit_code}))


def explain(error: BaseException) -> Failure:
    """Returns message and exit code of `error`; an unexpected error keeps its traceback in a file."""
    if isinstance(error, CloudganError):
        return Failure(str(error), error.exit_code, error.is_printed)
    if isinstance(error, KeyboardInterrupt):
        return Failure("stopped by Ctrl-C", 130)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            return Failure(
                f"this command needs the package {package!r}, which is not installed; run"
                f" `pip install 'cloudgan[{_EXTRAS[package]}]'`",
                2,
            )
    if isinstance(error, MemoryError):
        details = f" ({error})" if str(error) else ""
        return Failure(
            f"out of memory{details}; request fewer showers or a smaller batch, or use a machine"
            " with more memory",
            1,
        )
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        file = f" while writing {error.filename}" if error.filename else ""
        return Failure(
            f"the disk is full{file}; free some space and rerun the command: files written before"
            " are complete",
            1,
        )
    return Failure(_unexpected(error), 1)


def _unexpected(error: BaseException) -> str:
    details = " ".join(str(error).split())
    what = f"{type(error).__name__}{': ' if details else ''}{details}"
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="cloudgan-", suffix=".traceback.txt", delete=False
        ) as file:
            file.write(text)
    except OSError:
        return f"unexpected error, a bug in cloudgan ({what}); rerun with --traceback to see where"
    return (
        f"unexpected error, a bug in cloudgan ({what}). Its traceback is in {Path(file.name)};"
        " please report it, or rerun with --traceback"
    )
