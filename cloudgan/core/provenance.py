"""Which program made a result: versions of what matters, and the commit it was built from."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("cloudgan", "tensorflow", "keras", "numpy", "h5py", "llvmlite")


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide numbers, where installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Returns the commit of the checkout this package runs from; None when it is installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ("git", "-C", str(root), "rev-parse", "HEAD")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
