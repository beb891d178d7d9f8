"""Files outside the package: k8s/, deploy/ and the locked requirements.

A wheel holds them inside the package; a checkout and an editable installation beside it.
"""

from __future__ import annotations

import functools
from pathlib import Path

from cloudgan.core.errors import ConfigError, UnknownNameError

ROOTS = (
    "deploy",
    "k8s",
    "requirements/gpu.txt",
    "requirements/jax-tpu.txt",
    "requirements/lock.txt",
)
"""Folders and files of the checkout; pyproject.toml includes the same ones in the wheel."""

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "_assets"


def folder() -> Path:
    """Returns the folder of the assets."""
    found = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
    if not (found / "k8s").is_dir():
        raise ConfigError(
            f"{_PACKAGE} lacks k8s/ and deploy/; reinstall cloudgan from a wheel or a checkout"
        )
    return found


def names() -> tuple[str, ...]:
    """Returns the names of all assets, such as ``k8s/job.yaml``, sorted."""
    return _names(folder())


@functools.cache
def _names(top: Path) -> tuple[str, ...]:
    found = (path for root in ROOTS for path in ((top / root), *(top / root).rglob("*")))
    files = (path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return tuple(sorted(path.relative_to(top).as_posix() for path in files))


def read_bytes(name: str) -> bytes:
    """Returns the content of an asset.

    Raises:
        UnknownNameError: No asset has this name.
    """
    known = names()
    if name not in known:
        raise UnknownNameError("asset", name, known)
    return (folder() / name).read_bytes()


def read_text(name: str) -> str:
    """Returns an asset such as ``k8s/job.yaml`` as text."""
    return read_bytes(name).decode()
