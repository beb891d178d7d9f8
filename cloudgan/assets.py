"""Finds what people see at the top of the checkout: k8s/, deploy/ and the locks of what workers need.

A wheel carries them inside the package; an editable installation and a checkout have them beside it.
"""

from __future__ import annotations

from pathlib import Path

from cloudgan.core.errors import ConfigError, UnknownNameError

ROOTS = (
    "deploy",
    "k8s",
    "requirements/gpu.txt",
    "requirements/pod.txt",
    "requirements/tpu.txt",
    "requirements/train.txt",
)
"""What is an asset: folders and files of the checkout; pyproject.toml gives a wheel the same."""

_PACKAGE = Path(__file__).parent
_INSTALLED = _PACKAGE / "_assets"


def folder() -> Path:
    """Returns the folder that holds the assets under the names of the checkout.

    Raises:
        ConfigError: The installation has none.
    """
    found = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
    if not (found / "k8s").is_dir():
        raise ConfigError(
            f"{_PACKAGE} was installed without its k8s/ and deploy/; install cloudgan again,"
            " as a wheel or from a checkout"
        )
    return found


def names() -> tuple[str, ...]:
    """Returns the names of all assets, such as ``k8s/job.yaml``, sorted."""
    top = folder()
    found = (path for root in ROOTS for path in ((top / root), *(top / root).rglob("*")))
    files = (path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return tuple(sorted(path.relative_to(top).as_posix() for path in files))


def read_bytes(name: str) -> bytes:
    """Returns the content of an asset.

    Raises:
        UnknownNameError: There is none of this name.
    """
    known = names()
    if name not in known:
        raise UnknownNameError("asset", name, known)
    return (folder() / name).read_bytes()


def read_text(name: str) -> str:
    """Returns an asset such as ``k8s/job.yaml`` as text.

    Raises:
        UnknownNameError: There is none of this name.
    """
    return read_bytes(name).decode()
