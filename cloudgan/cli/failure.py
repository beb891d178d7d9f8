"""Turns an error into a message and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.atomic_file import DISK_FULL
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    DiskFullError,
    Interrupted,
    OutputError,
    Terminated,
    install_command,
    shorten,
)
from cloudgan.core.masking import masked
from cloudgan.core.user_text import printable

# The extra that installs a package.
_EXTRAS = {
    "tensorflow": "train",
    "keras": "train",
    "jax": "jax",
    "numpy": "physics",
    "scipy": "physics",
    "geant4_pybind": "geant4",
    "h5py": "physics",
    "sklearn": "physics",
    "matplotlib": "physics",
    "onnx": "export",
    "onnxruntime": "export",
    "tf2onnx": "export",
    "kubernetes": "kubernetes",
    "mlflow": "mlflow",
    "wandb": "wandb",
    **{package: cloud.extra for cloud in CLOUDS.values() for package in cloud.packages},
}
_LONGEST_MESSAGE = 2000
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_PATH = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
"""A path of the user that cannot be what the command needs."""
_NO_MEMORY = ("failed to map segment", "annot allocate memory")
_EXHAUSTED = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN}


@dataclass(frozen=True)
class Failure:
    """Message and exit code of a command that failed; an empty message is not printed."""

    message: str
    exit_code: int
    is_printed: bool = False

    def report(self, *, as_json: bool) -> None:
        """Prints the message on standard error, and with --json an object on standard output."""
        message = printable(masked(self.message))
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE - 3]}..."
        if message:
            print(*_rows(f"cloudgan: {message}"), sep="\n", file=sys.stderr)
        if as_json and not self.is_printed:
            with suppress(OutputError):
                print(json.dumps({"error": message, "exit_code": self.exit_code}), flush=True)


def _rows(text: str) -> list[str]:
    """Returns the rows of a message: on a terminal broken at spaces, elsewhere one line as it is."""
    if not sys.stderr.isatty():
        return [text]
    from rich.console import (
        Console,  # takes a while to import, which a program that reads would pay
    )

    from cloudgan.cli.table_text import wrapped

    return wrapped(text, Console(stderr=True).width, indent="  ")


def explain(error: BaseException) -> Failure:
    """Returns message and exit code of `error`; an unexpected error keeps its traceback in a file."""
    if isinstance(error, CloudganError):
        is_cut = isinstance(error, OutputError) and error.is_closed_pipe
        cause = error.__context__ if isinstance(error, Interrupted) else None
        code = cause.exit_code if isinstance(cause, Terminated) else error.exit_code
        return Failure("" if is_cut else str(error), code, error.is_printed)
    if isinstance(error, KeyboardInterrupt):
        if isinstance(error, Terminated):
            return Failure("stopped by SIGTERM; run the same command again to go on", 75)
        return Failure("stopped by Ctrl-C", 130)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            return Failure(
                f"this command needs the package {package!r}, which is not installed; run"
                f" {install_command(_EXTRAS[package])}",
                2,
            )
    if _is_out_of_memory(error):
        details = f" ({error})" if str(error) else ""
        return Failure(
            f"out of memory{details}; request fewer showers or a smaller batch, or use a machine"
            " with more memory",
            1,
        )
    known = _of_system(error) if isinstance(error, OSError) else None
    return known or Failure(_unexpected(error), 1)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory or address space (`ulimit -v`) ended: a library that cannot be mapped is not imported."""
    said = str(error)
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, ImportError) and any(sign in said for sign in _NO_MEMORY))
        or (isinstance(error, RuntimeError) and "can't start new thread" in said)
    )


def _of_system(error: OSError) -> Failure | None:
    """Returns the failure for a disk, a permission or a limit of this machine; None: another reason."""
    file = f"{shorten(os.fsdecode(error.filename))}: " if error.filename else ""
    if error.errno in DISK_FULL:
        return Failure(
            f"{file}the disk is full; free some space and rerun the command: files written before are"
            " complete",
            DiskFullError.exit_code,
        )
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        message = f"{error.strerror}; free some space there, or set TMPDIR to a folder with space"
        return Failure(message, DiskFullError.exit_code)
    if error.errno in _REFUSED:
        return Failure(
            f"{file}{error.strerror}; correct the permissions, or use another path",
            ConfigError.exit_code,
        )
    if error.errno in _NO_PATH and file:
        return Failure(f"{file}{error.strerror}; give another path", ConfigError.exit_code)
    if error.errno in _EXHAUSTED:
        return Failure(f"{file}{error.strerror}; see `ulimit -a` and the log of the system", 1)
    return None


def _unexpected(error: BaseException) -> str:
    details = " ".join(str(error).split())
    what = f"{type(error).__name__}{': ' if details else ''}{details}"
    text = masked("".join(traceback.format_exception(error)))
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
