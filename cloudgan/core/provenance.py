"""Provenance of a result: versions of packages, commit, and wheels installed in a pod."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import Field, ValidationError

from cloudgan.core.document import Document

_PACKAGES = ("cloudgan", "tensorflow", "keras", "jax", "jaxlib", "numpy", "h5py", "llvmlite")


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that affect numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Returns the commit of the checkout; None: the package is installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ("git", "-C", str(root), "rev-parse", "HEAD")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


FILE_NAME = "cloudgan-wheels.json"


class InstalledWheels(Document):
    """Number and size of the wheels, and the time by the clock of the pod."""

    time: str = Field(description="end of the installation, UTC, ISO 8601")
    wheels: int = Field(ge=0)
    bytes: int = Field(ge=0)
    fetch_seconds: float = Field(ge=0, allow_inf_nan=False)
    install_seconds: float = Field(ge=0, allow_inf_nan=False)

    @property
    def seconds(self) -> float:
        """Sum of both times."""
        return self.fetch_seconds + self.install_seconds


def installed_wheels(site: Path | None = None) -> InstalledWheels | None:
    """Returns the wheels installed for this program; None: it was installed otherwise.

    Args:
        site: Folder of the packages; None: that of this package.
    """
    path = (site or Path(__file__).parents[2]) / FILE_NAME
    try:
        return InstalledWheels.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
