"""What went wrong, in words and as an exit code."""

from __future__ import annotations

import errno
import json
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from cloudgan.core.errors import CloudganError

# Which extra brings a package that a command needs and this installation lacks.
_EXTRAS = {
    "tensorflow": "train",
    "keras": "train",
    "numpy": "physics",
    "scipy": "physics",
    "geant4_pybind": "geant4",
    "h5py": "physics",
    "sklearn": "physics",
    "matplotlib": "physics",
    "boto3": "aws",
    "botocore": "aws",
    "google": "gcp",
    "azure": "azure",
    "kubernetes": "kubernetes",
}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Failure:
    """The end of a command that did not do what was asked."""

    message: str
    exit_code: int
    is_told: bool = False

    def tell(self, *, as_json: bool) -> None:
        """Says it on standard error, and to programs on standard output."""
        print(f"cloudgan: {self.message}", file=sys.stderr)
        if as_json and not self.is_told:
            print(json.dumps({"error": self.message, "exit_code": self.exit_code}))


def explain(error: BaseException) -> Failure:
    """Returns `error` in words; of one that nobody foresaw, the traceback is kept in a file."""
    if isinstance(error, CloudganError):
        return Failure(str(error), error.exit_code, error.is_told)
    if isinstance(error, KeyboardInterrupt):
        return Failure("stopped by Ctrl-C", 130)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            return Failure(
                f"this needs the package {package!r}, which is not installed; it comes with"
                f" `pip install 'cloudgan[{_EXTRAS[package]}]'`",
                2,
            )
    if isinstance(error, MemoryError):
        said = f" ({error})" if str(error) else ""
        return Failure(
            f"out of memory{said}; ask for fewer showers or a smaller batch, or take a machine"
            " with more",
            1,
        )
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f" while writing {error.filename}" if error.filename else ""
        return Failure(
            f"the disk is full{where}; free some space and run the same command again: files"
            " written before are whole",
            1,
        )
    return Failure(_unforeseen(error), 1)


def _unforeseen(error: BaseException) -> str:
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}{': ' if said else ''}{said}"
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="cloudgan-", suffix=".traceback.txt", delete=False
        ) as file:
            file.write(text)
    except OSError:
        return f"this is a fault of cloudgan ({what}); run it again with --traceback to see where"
    return (
        f"this is a fault of cloudgan ({what}). Its traceback is in {Path(file.name)}; please"
        " report it, or run the command again with --traceback"
    )
